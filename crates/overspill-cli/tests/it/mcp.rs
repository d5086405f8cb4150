//! The MCP proxy as a command.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bench::{Bench, assert_picture};

/// A server that answers each request of these three kinds.
const SERVER: &str = r#"while read -r line; do id=${line#*'"id":'}; id=${id%%[,\}]*}; case "$line" in
*'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}\n' "$id" ;;
*'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"numbers","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
*'"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$id" "$(seq -s ' ' 1 5000)" ;;
esac; done"#;

const ASKED: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/list"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"numbers"}}
"#;

fn answers(bench: &Bench, arguments: &[&str]) -> Vec<Value> {
    let mut command = bench.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Once it is written, the input ends.
    child.stdin.take().unwrap().write_all(ASKED.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_a_server_says_is_stored_and_read_on_the_command_line() {
    let bench = Bench::new();
    let answers = answers(&bench, &["mcp", "--", "sh", "-c", SERVER]);
    assert_eq!(answers[1]["result"]["tools"][1]["name"], "read_tool_result");
    let view = answers[2]["result"]["content"][0]["text"].as_str().unwrap();
    let handle = overspill::Marker::handles(view).next().unwrap().to_string();
    assert!(handle.starts_with("mcp/numbers."), "{handle}");
    let output = bench.command(&["export", &handle]).output().unwrap();
    let all: Vec<String> = (1..=5_000).map(|n: u32| n.to_string()).collect();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), all.join(" "));
}

#[test]
fn servers_of_the_file_are_served_as_one() {
    let bench = Bench::new();
    bench.write("servers.toml", server("one"));
    let answers = answers(&bench, &["mcp", "--config", "servers.toml"]);
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "s");
}

#[test]
fn what_is_missing_or_dangerous_is_refused() {
    let bench = Bench::with_file("[mcp.servers.s]\ncommand = \"touch\"\nargs = [\"ran\"]\n");
    for (arguments, said) in [
        (&["mcp"][..], "names servers, but nobody named that file"),
        (&["mcp", "--config", "empty.toml"], "no server is named"),
        (&["mcp", "--url", "http://127.0.0.1:1/", "--token-env", "NOT_SET"], "NOT_SET is not set"),
        (&["mcp", "--listen", "0.0.0.0:0", "--", "true"], "no token is wanted of them"),
    ] {
        bench.write("empty.toml", "");
        let output = bench.command(arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(said), "{arguments:?}: {error}");
        assert_eq!(output.status.code(), Some(2), "{error}");
    }
    assert!(!bench.path("ran").exists());
}

#[test]
fn what_is_said_wrong_has_a_mend() {
    let bench = Bench::new();
    bench.write(
        "two.toml",
        "[mcp.servers.files]\ncommand = \"true\"\n[mcp.servers.tickets]\nurl = \"http://a.example/\"\n",
    );
    bench.write("none.toml", "");
    for arguments in [
        &["mcp", "--"][..],
        &["mcp", "--url", "http://a.example/", "--", "true"],
        &["mcp", "--url", "a.example/mcp?key=s3cret"],
        &["mcp", "--url", "ftp://me:s3cret@a.example/x"],
        &["mcp", "--listen", ":8931", "--", "true"],
        &["mcp", "--config", "two.toml", "--server", "nosuch"],
        &["mcp", "--config", "none.toml", "--server", "nosuch"],
    ] {
        assert_picture!(bench.picture(arguments));
    }
    let mut command = bench.command(&["mcp", "--url", "http://a.example/"]);
    let output = command.env("OVERSPILL_MCP_HEADERS", "X-Key s3cret").output().unwrap();
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "overspill: error: OVERSPILL_MCP_HEADERS has a line without a colon\n\
         hint: write one `Name: value` a line\n"
    );
}

#[test]
fn the_help_names_its_own_run() {
    let help = Bench::new().stdout(&["mcp", "--help"]);
    assert!(help.contains("by default \"mcp\"") && !help.contains("\"cli\""), "{help}");
}

#[test]
fn a_command_that_is_not_there_is_told_of() {
    let bench = Bench::new();
    let mut command = bench.command(&["mcp", "--", "nosuch-command"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(ASKED.lines().next().unwrap().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let why = "nosuch-command cannot be started: No such file or directory (os error 2); hint: check its \
               name and PATH";
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(answer["error"]["message"].as_str().unwrap().starts_with(why), "{answer}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with(&format!("overspill: {why}\n")), "{said}");
}

#[test]
fn a_server_does_not_find_what_is_for_the_proxy() {
    let bench = Bench::new();
    bench.write(
        "servers.toml",
        "[mcp.servers.a]\nurl = \"http://a.example/\"\ntoken_env = \"OF_FILE\"\n\
         [mcp.listen]\ntoken_env = \"OF_LISTEN\"\n\
         [summarize]\nmodel = \"openai:m\"\napi_key_env = \"OF_MODEL\"\n",
    );
    let found = "read -r line; printf '{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"found\":\"%s\"}}\\n' \
                 \"$OVERSPILL_MCP_HEADERS$OVERSPILL_MCP_URL$OF_FILE$OF_LISTEN$OF_MODEL$OF_NOBODY\"";
    let mut command = bench.command(&["mcp", "--config", "servers.toml", "--", "sh", "-c", found]);
    for name in ["OVERSPILL_MCP_HEADERS", "OVERSPILL_MCP_URL", "OF_FILE", "OF_LISTEN", "OF_MODEL"] {
        command.env(name, "X: s3cret");
    }
    command.env("OF_NOBODY", "all else stays");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(ASKED.lines().next().unwrap().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["result"]["found"], "all else stays");

    // A checkout takes no variable from a server.
    bench.write(
        "overspill.toml",
        "[summarize]\nmodel = \"openai:m\"\napi_key_env = \"OF_NOBODY\"\n",
    );
    let found = "read -r line; printf '{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{\"found\":\"%s\"}}\\n' \
                 \"$OF_NOBODY\"";
    let mut command = bench.command(&["mcp", "--", "sh", "-c", found]);
    command.env("OF_NOBODY", "stays").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(ASKED.lines().next().unwrap().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["result"]["found"], "stays");
}

/// A server that prints more that is no message than a pipe holds, before it answers.
const LOUD: &str = r#"read -r line; i=0; while [ $i -lt 3000 ]; do
printf '\033[2Jno message %d %0500d\n' $i 0; i=$((i + 1)); done
echo '{"jsonrpc":"2.0","id":0,"result":{}}'; cat > /dev/null"#;

#[test]
fn nobody_waits_for_a_client_that_does_not_read_what_is_said() {
    let bench = Bench::new();
    let mut command = bench.command(&["mcp", "--", "sh", "-c", LOUD]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", ASKED.lines().next().unwrap()).unwrap();
    let mut answer = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    assert_eq!(answer, "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{}}\n");

    // What found no room is counted.
    let (mut shown, mut lost) = (0, 0);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    while shown + lost < 3_000 {
        let line = said.next().unwrap().unwrap();
        let what = line.strip_prefix("overspill: ").unwrap_or_else(|| panic!("{line}"));
        match what.strip_suffix(" lines were not shown, since nobody read") {
            Some(count) => lost += count.parse::<u32>().unwrap(),
            None => {
                let what = what.split_once("\\u{1b}[2Jno message ");
                assert!(what.is_some() && !line.contains('\x1b'), "{line}");
                shown += 1;
            }
        }
    }
    assert_eq!(shown + lost, 3_000);
    assert!(lost > 0);
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_port_alone_is_one_of_this_machine() {
    let bench = Bench::new();
    for address in ["0", "localhost:0", "127.0.0.1:0"] {
        let mut command = bench.command(&["mcp", "--listen", address, "--", "true"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
        let port = said.strip_prefix("overspill: listening on http://127.0.0.1:").unwrap();
        assert!(port.strip_suffix("/mcp\n").unwrap().parse::<u16>().unwrap() > 0, "{said}");
    }
}

/// The table of a server in a file.
fn server(name: &str) -> String {
    let script = Value::from(SERVER).to_string();
    format!("[mcp.servers.{name}]\ncommand = \"sh\"\nargs = [\"-c\", {script}]\n")
}

/// What is answered and said where a client asks and goes.
fn asked(command: &mut std::process::Command) -> (Vec<Value>, String, Option<i32>) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It does not read where it was not begun at all.
    let _ = child.stdin.take().unwrap().write_all(ASKED.as_bytes());
    let output = child.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let answers = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (answers, String::from_utf8(output.stderr).unwrap(), output.status.code())
}

fn users_file(bench: &Bench, text: &str) {
    let folder = bench.home().join(".config/overspill");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("overspill.toml"), text).unwrap();
}

/// What only a user says to the proxy, each key with a value that a project would like.
const OF_USERS: [(&str, &str); 4] = [
    ("handle_arguments", "[mcp]\nhandle_arguments = [\"*\"]\n"),
    ("bare_handles", "[mcp]\nbare_handles = true\n"),
    ("max_argument", "[mcp]\nmax_argument = \"1GB\"\n"),
    ("[mcp.listen]", "[mcp.listen]\nhosts = [\"evil.example\"]\n"),
];

#[test]
fn what_a_projects_file_may_not_say_to_the_proxy_is_told_of() {
    for (key, text) in OF_USERS {
        let bench = Bench::with_file(text);
        let (_, said, status) = asked(&mut bench.command(&["mcp", "--", "sh", "-c", SERVER]));
        let expected = format!("overspill: warning: {key} of ");
        assert!(said.starts_with(&expected) && said.lines().count() == 1, "{said}");
        assert!(said.contains("do not count, since nobody named that file; hint: "), "{said}");
        assert_eq!(status, Some(0));
        let check = bench.stdout(&["config", "check"]);
        assert!(
            check.contains(&format!("# note: {key} of a project's file do not count")),
            "{check}"
        );

        let named = &["mcp", "--config", "overspill.toml", "--", "sh", "-c", SERVER];
        assert_eq!(asked(&mut bench.command(named)).1, "", "{key}");
    }
}

/// A server that gives back the argument `text` of a call.
const ECHO: &str = r#"while read -r line; do case "$line" in
*'"initialize"'*) echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}' ;;
*'"tools/call"'*) a=${line#*'"text":"'}; printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "${a%%'"'*}" ;;
esac; done"#;

#[test]
fn a_projects_file_gives_no_tool_what_is_stored() {
    let secret = "a secret of another project ".repeat(1_000);
    let bare = "[mcp]\nhandle_arguments = [\"*\"]\nbare_handles = true\n";
    for (project, user, is_given) in [(bare, "", false), ("", bare, true), ("", "", false)] {
        let bench = Bench::with_file(&format!("bands = []\n{project}"));
        users_file(&bench, user);
        bench.write("none.toml", "");
        let store = ["--config", "none.toml", "pipe", "--tool", "cat"];
        bench.assert(&store).write_stdin(secret.as_str()).assert().success();
        let handle = bench.handle();

        let mut child = bench.command(&["mcp", "--", "sh", "-c", ECHO]);
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(ASKED.lines().next().unwrap().as_bytes()).unwrap();
        let call = format!(
            "\n{{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{{\"name\":\"echo\",\
             \"arguments\":{{\"text\":\"{handle}\"}}}}}}\n"
        );
        input.write_all(call.as_bytes()).unwrap();
        drop(input);
        let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let answer = output.lines().find(|line| line.contains("\"content\"")).unwrap();
        assert_eq!(answer.contains("a secret of another project"), is_given, "{answer}");
    }
}

#[test]
fn servers_are_the_users_where_a_projects_file_has_the_policy() {
    let bench = Bench::with_file("[[bands]]\nover = 1_000_000\naction = \"spill\"\n");
    users_file(&bench, &server("mine"));
    for arguments in [&["mcp"][..], &["mcp", "--server", "mine"]] {
        let (answers, said, _) = asked(&mut bench.command(arguments));
        assert_eq!(answers[0]["result"]["serverInfo"]["name"], "s", "{said}");
        // The result is shorter than the project's band.
        let text = answers[2]["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.ends_with("5000") && said.is_empty(), "{said}");
    }
    // The project's own are none, and it is said.
    bench.write("overspill.toml", "[mcp.servers.theirs]\ncommand = \"touch\"\nargs = [\"ran\"]\n");
    let (answers, said, _) = asked(&mut bench.command(&["mcp"]));
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "s", "{said}");
    assert!(said.starts_with("overspill: warning: [mcp.servers] of "), "{said}");
    assert!(!bench.path("ran").exists());
    // What a broken file of the user's says is not guessed.
    users_file(&bench, "[mcp.servers.mine]\n");
    let (_, said, status) = asked(&mut bench.command(&["mcp"]));
    assert!(said.contains("[mcp.servers.mine] lacks command or url"), "{said}");
    assert_eq!(status, Some(2));
}

#[test]
fn the_users_own_file_is_no_projects_wherever_one_stands() {
    let bench = Bench::new();
    users_file(&bench, &server("mine"));
    let folder = bench.home().join(".config/overspill");
    for below in ["", "deeper"] {
        let folder = folder.join(below);
        std::fs::create_dir_all(&folder).unwrap();
        let (answers, said, _) = asked(bench.command(&["mcp"]).current_dir(folder));
        assert_eq!((answers.len(), said.as_str()), (3, ""));
    }
}

#[test]
fn where_no_server_is_named_it_is_said_which_files_were_looked_at() {
    let bench = Bench::new();
    for (project, user) in [
        (None, None),
        (None, Some("")),
        (Some(""), None),
        (Some(""), Some("")),
        (Some("[mcp.servers.s]\ncommand = \"true\"\n"), Some("")),
    ] {
        let project_file = bench.path("overspill.toml");
        let users = bench.home().join(".config/overspill/overspill.toml");
        let _ = std::fs::remove_file(&project_file);
        let _ = std::fs::remove_file(&users);
        if let Some(text) = project {
            std::fs::write(&project_file, text).unwrap();
        }
        if let Some(text) = user {
            users_file(&bench, text);
        }
        let said = String::from_utf8(bench.output(&["mcp"]).stderr).unwrap();
        let with_name = bench.output(&["mcp", "--server", "files"]).stderr;
        assert_eq!(String::from_utf8(with_name).unwrap(), said);
        assert!(said.contains(&users.display().to_string()), "{said}");
        let has_project = said.contains(&project_file.display().to_string());
        assert_eq!(has_project, project.is_some(), "{said}");
        // Never is one told to write them where they would not count.
        let write = format!("into {}", project_file.display());
        assert!(!said.contains(&write), "{said}");
    }
}

#[test]
fn a_token_that_is_not_there_stops_its_server_alone() {
    let bench = Bench::new();
    let far = "[mcp.servers.far]\nurl = \"http://127.0.0.1:1/\"\ntoken_env = \"TOK\"\n";
    bench.write("both.toml", format!("{}{far}", server("near")));
    bench.write("one.toml", far);
    for (value, what) in [(None, "TOK is not set"), (Some(""), "TOK is empty")] {
        let command = |arguments: &[&str]| {
            let mut command = bench.command(arguments);
            command.envs(value.map(|value| ("TOK", value)));
            command
        };
        let mut child = command(&["mcp", "--config", "both.toml"]);
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut output = BufReader::new(output).lines();
        // Which lists there are is known once the servers have answered.
        let answers: Vec<Value> = ASKED
            .lines()
            .filter(|line| line.contains("\"id\""))
            .take(2)
            .map(|line| {
                writeln!(input, "{line}").unwrap();
                serde_json::from_str(&output.next().unwrap().unwrap()).unwrap()
            })
            .collect();
        drop(input);
        let said = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
        assert!(said.starts_with(&format!("overspill: far is left out: {what}; hint: ")), "{said}");
        assert_eq!(said.matches("left out").count(), 1, "{said}");
        assert!(answers[0]["result"].is_object(), "{answers:?}");
        assert_eq!(answers[1]["result"]["tools"][0]["name"], "near__numbers");

        for one in [
            &["mcp", "--config", "both.toml", "--server", "far"][..],
            &["mcp", "--config", "one.toml"],
        ] {
            let (_, said, status) = asked(&mut command(one));
            let expected =
                format!("overspill: error: the server far cannot be asked: {what}\nhint: ");
            assert!(said.starts_with(&expected), "{said}");
            assert_eq!(status, Some(2));
        }
    }
}

#[test]
fn what_the_environment_says_to_no_effect_is_told_of() {
    let bench = Bench::new();
    bench.write("one.toml", server("one"));
    let command = ["mcp", "--", "sh", "-c", SERVER];
    let of_file = ["mcp", "--config", "one.toml", "--server", "one"];
    let url = ["mcp", "--url", "http://127.0.0.1:1/"];
    for (arguments, name, value, expected) in [
        (&command[..], "OVERSPILL_MCP_URL", "http://a.example/", "does not count beside a command"),
        (&of_file, "OVERSPILL_MCP_URL", "http://a.example/", "does not count beside --server"),
        (&url, "OVERSPILL_MCP_URL", "http://a.example/", "does not count beside --url"),
        (&command, "OVERSPILL_MCP_HEADERS", "A: b", "is sent to nobody"),
        (&of_file, "OVERSPILL_MCP_HEADERS", "A: b", "is sent to nobody"),
        (&url, "OVERSPILL_MCP_HEADERS", "A: b\nB: ${s3cret}", "the header B is sent with ${…}"),
    ] {
        let (_, said, _) = asked(bench.command(arguments).env(name, value));
        let first = said.lines().next().unwrap();
        assert!(first.starts_with("overspill: warning: ") && first.contains(expected), "{said}");
        assert!(!said.contains("s3cret"), "{said}");
        assert!(!asked(&mut bench.command(arguments)).1.contains("warning"));
    }
    let said = asked(&mut bench.command(&["mcp", "--config", "one.toml", "--token-env", "T"])).1;
    assert!(said.starts_with("overspill: error: --token-env is for --url"), "{said}");
}

#[test]
fn a_slip_of_the_keyboard_starts_no_program() {
    let bench = Bench::new();
    for (arguments, tip) in [
        (&["mcp", "--ulr", "http://a.example/"][..], "a similar argument exists: '--url'"),
        (&["mcp", "--tokn-env", "T"], "a similar argument exists: '--token-env'"),
        (&["mcp", "--header", "A: b"], "headers are given in OVERSPILL_MCP_HEADERS"),
        (&["mcp", "-H", "A: b"], "headers are given in OVERSPILL_MCP_HEADERS"),
        (&["mcp", "-y", "--", "npx"], "stands behind its command: overspill mcp -- COMMAND -y"),
        (&["mcp", "--verbose"], "stands behind its command"),
        (&["mcp", "warp", "x"], "a similar subcommand exists: 'wrap'"),
        (&["mcp", "unrap", "x"], "a similar subcommand exists: 'unwrap'"),
        (
            &["mcp", "npx", "-y", "x"],
            "put -- before the server's command: overspill mcp -- npx -y x",
        ),
        (&["mpc", "--", "npx"], "a similar subcommand exists: 'mcp'"),
        (&["mcpp"], "a similar subcommand exists: 'mcp'"),
    ] {
        let output = bench.output(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(&format!("tip: {tip}")) || said.contains(tip), "{said}");
        assert_eq!(said.matches("tip:").count(), 1, "{said}");
        assert!(!said.contains("as a value"), "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}

#[test]
fn a_path_that_only_a_shell_reads_is_told_of() {
    let bench = Bench::new();
    let (_, said, _) = asked(&mut bench.command(&["mcp", "--config", "~/overspill.toml"]));
    assert!(said.ends_with("\nhint: only a shell reads ~; write the whole path\n"), "{said}");
}

#[test]
fn an_address_that_stands_for_all_says_how_others_reach_it() {
    let bench = Bench::new();
    bench.write("hosts.toml", "[mcp.listen]\nhosts = [\"box.lan\"]\n");
    for (address, options, is_told) in [
        ("0.0.0.0:0", &[][..], true),
        ("[::]:0", &[], true),
        ("0.0.0.0:0", &["--host", "box.lan"], false),
        ("0.0.0.0:0", &["--config", "hosts.toml"], false),
        ("127.0.0.1:0", &[], false),
    ] {
        let arguments = ["mcp", "--listen", address, "--listen-token-env", "TOK"];
        let mut command = bench.command(&[&arguments[..], options, &["--", "true"]].concat());
        let mut child = command.env("TOK", "t").stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
        let listening = said.next().unwrap().unwrap();
        assert!(listening.starts_with("overspill: listening on "), "{listening}");
        // It ends by itself once nothing more is to be said.
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let said: Vec<String> = said.map(Result::unwrap).collect();
        let told = said.iter().any(|line| line.contains("others reach it only by the names"));
        assert_eq!(told, is_told, "{said:?}");
        assert!(child.wait().unwrap().success());
    }
}
