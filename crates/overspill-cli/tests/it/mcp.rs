//! The MCP proxy as a command.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::bench::Bench;

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
        (&["mcp", "--config", "overspill.toml", "--server", "t"], "there is no server named \"t\""),
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
