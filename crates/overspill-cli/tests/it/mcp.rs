//! The MCP proxy as a command.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bench::{Bench, assert_picture};

/// A server that answers each request of these three kinds.
const SERVER: &str = r#"while read -r line; do case "$line" in
*'"initialize"'*) echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}' ;;
*'"tools/list"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}' ;;
*'"tools/call"'*) printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$(seq -s ' ' 1 5000)" ;;
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
    assert_eq!(answers[1]["result"]["tools"][0]["name"], "read_tool_result");
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
    let quoted = |text: &str| Value::from(text).to_string();
    let file = |name: &str| {
        format!("[mcp.servers.{name}]\ncommand = \"sh\"\nargs = [\"-c\", {}]\n", quoted(SERVER))
    };
    bench.write("servers.toml", file("one"));
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
