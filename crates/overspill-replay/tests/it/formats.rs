//! Each format on a recording of its own.

use crate::{picture, sessions};

#[track_caller]
fn check(name: &str, expected: &str) {
    let found: String = sessions(name).iter().map(picture).collect();
    let expected: String = expected
        .lines()
        .map(str::trim_start)
        .filter(|l| !l.is_empty())
        .map(|l| format!("{l}\n"))
        .collect();
    let trimmed: String = found.lines().map(|l| format!("{}\n", l.trim_end())).collect();
    assert_eq!(trimmed, expected, "\n{trimmed}");
}

#[test]
fn claude_code() {
    check(
        "claude_code.jsonl",
        r#"
        # claude_code main:
        ==
        user How many ports are open?
        --
        text I look.
        call 1 Bash {"command": "cat harbour.conf"}
        call 2 Bash {"command": "date"}
        result 1 Bash listen_north 8080\nlisten_south 9090\n
        result 2 Bash Monday
        --
        text Two: listen_north and listen_south.
        {listen_north listen_south}
        ==
        user Earlier: two ports.
        user Thanks
        --
        text Gladly.
        # claude_code side:a7
        ==
        user Search.
        --
        text Found.
"#,
    );
}

#[test]
fn codex() {
    check(
        "codex.jsonl",
        r#"
        # codex 0
        ==
        system You write code.
        user List it.
        --
        text Listing
        call 1 shell {"command":["ls"]}
        result 1 shell barn.rs\n
        --
        text One file: barn.rs
        {barn.rs}
"#,
    );
}

#[test]
fn codex_without_payloads() {
    check(
        "codex_bare.jsonl",
        r#"
        # codex 0
        ==
        user Hi
        --
        text Hello
"#,
    );
}

#[test]
fn inspect() {
    check(
        "inspect.json",
        r#"
        # inspect 1
        ==
        system Browse.
        user Go
        --
        text Going
        call 1 browse {"url": "x"}
        result 1 browse see a long page.
        --
        text Done
"#,
    );
}

#[test]
fn kimi() {
    check(
        "kimi.jsonl",
        r#"
        # kimi 0
        ==
        system You help.
        user Read it.
        --
        text Reading.
        call 1 Read {"path": "a.txt"}
        result 1 Read alpha
        --
        text It says alpha.
"#,
    );
}

#[test]
fn langchain() {
    check(
        "langchain.json",
        r#"
        # langchain 0
        ==
        user Sum
        --
        text
        call 1 add {"a": 1, "b": 2.0}
        result 1 add 3
        --
        text It is 3
"#,
    );
}

#[test]
fn mini_swe() {
    check(
        "mini_swe.traj.json",
        r#"
        # mini_swe 0
        ==
        system You fix.
        user Bug
        --
        text First\n```bash\nls\n```\nthen\n```bash\ncat main.c\n```
        call 1 bash
        result 1 bash int main;
        --
        text Done
"#,
    );
}

#[test]
fn oh_llm() {
    check(
        "oh_llm.json",
        r#"
        # oh_llm 0
        ==
        system Agent
        user Do
        --
        text
        call 1 run {"c": "ls"}
        result 1 run x.py
        --
        text x.py
"#,
    );
}

#[test]
fn openhands() {
    check(
        "openhands.jsonl",
        r#"
        # openhands i1
        ==
        user Fix it
        --
        call 1 run {"command": "make"}
        result 1 run ok
        --
        call 2 finish {"thought": "done"}
"#,
    );
}

#[test]
fn pi() {
    check(
        "pi.jsonl",
        r#"
        # pi 0
        ==
        user Look
        --
        text …
        call 1 read {"path": "b.txt"}
        result 1 read beta
        --
        text beta
        ==
        user read b.txt
        user More?
        --
        text No.
"#,
    );
}

#[test]
fn specstory() {
    check(
        "specstory.md",
        r#"
        # specstory 0
        ==
        user \nRead the notes.\n\n---\n\n
        --
        text \nI read them.\n
        call 1 Read notes.txt
        text \n\n
        text \n
        call 2 Bash date
        text \n\n
        result 1 Read first note
        result 2 Bash Monday
        --
        text \nDone.\n
"#,
    );
}

#[test]
fn swe_agent() {
    check(
        "swe_agent.traj",
        r#"
        # swe_agent 0
        ==
        system You solve.
        user demo
        user Issue
        --
        text I list
        call 1 shell
        result 1 shell a.c
        --
        text submit
"#,
    );
}

#[test]
fn swe_agent_without_a_history() {
    check(
        "swe_agent_steps.traj",
        r#"
        # swe_agent 0
        ==
        --
        text I list
        call 1 shell
        result 1 shell a.c
        --
        text submit
        call 2 shell
        result 2 shell
"#,
    );
}

#[test]
fn vcr() {
    check(
        "vcr.yaml",
        r#"
        # vcr 0
        ==
        user Time?
        --
        text
        call 1 clock {"zone": "UTC"}
        result 1 clock 12:00
        --
        text Noon.
        # vcr 1
        ==
        system Be brief
        user Hi
        --
        text Hi
"#,
    );
}
