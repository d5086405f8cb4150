//! What goes wrong is said, and nothing hangs.

use std::io;
use std::sync::Arc;

use data_encoding::BASE64;
use overspill::store::{BlobName, ByteRange, Slice, Stage, StoreError};
use overspill::{BoxFuture, Config, Store};
use overspill_mcp::{CancellationToken, Options, Proxy, Server, Transport};
use rmcp::service::ServiceError;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::client::{Connected, Raw, Said, connect, handle, proxy, text, within};
use crate::peer::{broken, lines, process};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_in_a_call_is_told_of_and_started_again() {
    let said = Said::default();
    let connected = connect(proxy(&[("s", process())], "", &said)).await;
    let error = connected.call("die", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("s ended (exit status: 3)"), "{error}");
    let answer = connected.call("lines", json!({ "n": 1 })).await.unwrap();
    assert_eq!(text(&answer), lines(1));
    assert!(said.all().contains("s was started again"), "{}", said.all());
    connected.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_fails_in_the_same_way_again_is_told_of_once() {
    let gone = Transport::command("/nonexistent/program", [""; 0]);
    let untold = Transport::Unavailable { why: "TOKEN is not set".to_owned() };
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let far = Transport::http(format!("http://{nobody}/"));
    let said = Said::default();
    let servers = [("near", process()), ("gone", gone), ("untold", untold), ("far", far)];
    let connected = connect(proxy(&servers, "", &said)).await;
    for _ in 0..3 {
        let tools = within(connected.client.list_all_tools()).await.unwrap();
        assert!(tools.iter().all(|tool| !tool.name.starts_with("gone")));
    }
    let all = said.all();
    for name in ["gone cannot be started", "untold is left out: TOKEN is not set", "far (http"] {
        assert_eq!(all.matches(name).count(), 1, "{name}: {all}");
    }
    connected.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_among_messages_is_skipped() {
    let said = Said::default();
    let connected = connect(proxy(&[("s", process())], "", &said)).await;
    assert_eq!(text(&connected.call("garbage", json!({})).await.unwrap()), "done");
    assert!(said.all().contains("Listening on port 80"), "{}", said.all());
    connected.close().await;
}

/// The bytes of what is stored under a handle that a text names.
async fn exactly(connected: &Connected, text: &str, bytes: usize) -> Vec<u8> {
    let handle = text.split_once("stored as ").unwrap().1.split([';', ']']).next().unwrap();
    let mut whole = Vec::new();
    while whole.len() < bytes {
        let uri = format!("overspill://{handle}?bytes={}-", whole.len());
        let params = serde_json::from_value(json!({ "uri": uri })).unwrap();
        let part = within(connected.client.read_resource(params)).await.unwrap();
        let part = serde_json::to_value(part).unwrap()["contents"][0].clone();
        match (part["text"].as_str(), part["blob"].as_str()) {
            (Some(text), _) => whole.extend(text.as_bytes()),
            (_, Some(blob)) => whole.extend(BASE64.decode(blob.as_bytes()).unwrap()),
            _ => panic!("{part}"),
        }
    }
    whole
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_no_utf_8_is_an_error_and_kept() {
    for n in [10, 20_000_000] {
        let said = Said::default();
        let connected = connect(proxy(&[("s", process())], "", &said)).await;
        let error = connected.call("broken", json!({ "n": n })).await.unwrap_err().to_string();
        assert!(error.contains("s answered with bytes that are not UTF-8"), "{error}");
        let is_it = |bytes: &[u8]| {
            let of = |id: u64| broken(&id.to_string(), n);
            (0..9).any(|id| bytes == of(id).strip_suffix(b"\n").unwrap())
        };
        let bytes = exactly(&connected, &error, broken("1", n).len() - 1).await;
        assert!(is_it(&bytes), "{}", bytes.len());
        assert_eq!(text(&connected.call("lines", json!({ "n": 1 })).await.unwrap()), lines(1));
        connected.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_no_utf_8_is_refused() {
    let proxy = proxy(&[("s", process())], "", &Said::default());
    let (mut near, far) = tokio::io::duplex(1 << 20);
    let (input, output) = tokio::io::split(far);
    let closing = CancellationToken::new();
    let served = tokio::spawn(async move { proxy.serve(input, output, closing).await });
    near.write_all(b"{\"id\":\"a\",\"method\":\"x\xff\"}\n").await.unwrap();
    near.shutdown().await.unwrap();
    let mut all = String::new();
    within(near.read_to_string(&mut all)).await.unwrap();
    let answer: Value = serde_json::from_str(&all).unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("a"), &json!(-32700)));
    within(served).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_error_of_the_protocol_is_stored_and_read_back_whole() {
    let connected = connect(proxy(&[("s", process())], "", &Said::default())).await;
    for (n, is_whole) in [(1_000, true), (20_000, false), (1_000_000, false)] {
        let error = connected.call("refuse", json!({ "n": n })).await.unwrap_err();
        let ServiceError::McpError(error) = error else { panic!("{error}") };
        assert_eq!(error.code.0, -32603);
        if is_whole {
            assert_eq!(error.message, lines(n));
            continue;
        }
        assert!(error.message.starts_with("[overspill: "), "{}", error.message);
        let whole = exactly(&connected, &error.message, lines(n).len()).await;
        assert!(whole == lines(n).as_bytes());
        let data = error.data.unwrap();
        assert!(data.to_string().len() < 10_000);
        let rows = json!({ "rows": (0..n).collect::<Vec<_>>() }).to_string();
        let whole = exactly(&connected, data["view"].as_str().unwrap(), rows.len()).await;
        assert!(whole == rows.as_bytes());
    }
    connected.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_part_of_a_result_is_too_long_for_the_client() {
    let proxy = proxy(&[("s", process())], "", &Said::default());
    let (near, far) = tokio::io::duplex(1 << 20);
    let (input, output) = tokio::io::split(far);
    let closing = CancellationToken::new();
    let served = tokio::spawn(async move { proxy.serve(input, output, closing).await });
    let (reader, mut writer) = tokio::io::split(near);
    let mut lines = BufReader::new(reader).lines();
    let mut ask = async |id: usize, method: &str, params: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        loop {
            let line = within(lines.next_line()).await.unwrap().unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return (answer, line.len());
            }
        }
    };
    let client = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } });
    ask(0, "initialize", client).await;
    let mut id = 0;
    for n in [20_000, 20_000_000] {
        for (result, at) in [
            (r#"{"toolResult":"LONG"}"#, "/toolResult/view"),
            (r#"{"content":[],"rows":{"a":["LONG"]}}"#, "/rows/view"),
            (r#"{"content":"LONG"}"#, "/content/0/text"),
            (r#"{"content":[{"type":"new","x":"LONG"}]}"#, "/content/0/text"),
            (
                r#"{"content":[{"type":"resource","resource":{"uri":"a:","blob":"LONG"}}]}"#,
                "/content/0/resource/text",
            ),
            (r#"{"content":[],"structuredContent":{"a":"LONG"}}"#, "/structuredContent/view"),
        ] {
            id += 1;
            let arguments = json!({ "name": "raw", "arguments": { "result": result, "n": n } });
            let (answer, bytes) = ask(id, "tools/call", arguments).await;
            assert!(bytes < 10_000, "{result}: {bytes}");
            let view = answer["result"].pointer(at).and_then(Value::as_str);
            let uri = format!("overspill://{}?bytes=-100", handle(view.unwrap()));
            id += 1;
            let (read, _) = ask(id, "resources/read", json!({ "uri": uri })).await;
            let range = read["result"]["contents"][0]["_meta"]["overspill/range"].as_str();
            let stored: usize = range.unwrap().rsplit('/').next().unwrap().parse().unwrap();
            // Base64 of three bytes has four characters.
            assert!(stored >= n / 4 * 3, "{result}: {range:?}");
        }
    }
    drop((writer, lines));
    within(served).await.unwrap().unwrap();
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // One that has ended and that nobody has asked about yet is a zombie.
    !stat.is_empty() && !stat.contains(") Z ")
}

async fn ended(pid: &str) {
    let ended = async {
        while is_alive(pid) {
            tokio::task::yield_now().await;
        }
    };
    within(ended).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_a_server_started_outlives_the_session() {
    for tool in ["sleeper", "stubborn"] {
        let connected = connect(proxy(&[("s", process())], "", &Said::default())).await;
        let pid = text(&connected.call(tool, json!({})).await.unwrap());
        assert!(is_alive(&pid));
        connected.close().await;
        ended(&pid).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_a_server_started_outlives_the_server() {
    let connected = connect(proxy(&[("s", process())], "", &Said::default())).await;
    let pid = text(&connected.call("stubborn", json!({})).await.unwrap());
    connected.call("die", json!({})).await.unwrap_err();
    ended(&pid).await;
    connected.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_dropped_leaves_nothing_behind() {
    let connected = connect(proxy(&[("s", process())], "", &Said::default())).await;
    let pid = text(&connected.call("stubborn", json!({})).await.unwrap());
    connected.served.abort();
    ended(&pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_any_length_passes_a_client_that_reads_slowly() {
    let proxy = proxy(&[("s", process())], "enabled = false", &Said::default());
    let (mut near, far) = tokio::io::duplex(1_000);
    let (input, output) = tokio::io::split(far);
    let closing = CancellationToken::new();
    let served = tokio::spawn(async move { proxy.serve(input, output, closing).await });
    let n = 1_000_000;
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": { "name": "lines", "arguments": { "n": n } } }),
    ];
    for message in messages {
        near.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    let mut reader = BufReader::with_capacity(1_000, near);
    let mut line = String::new();
    let answer: Value = loop {
        line.clear();
        within(reader.read_line(&mut line)).await.unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["id"] == 2 {
            break message;
        }
    };
    assert!(answer["result"]["content"][0]["text"] == lines(n).as_str());
    drop(reader);
    within(served).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_before_the_input_ended_is_answered() {
    let all = asked_last(proxy(&[("s", process())], "", &Said::default())).await;
    assert!(all["result"].is_object(), "{all}");
}

/// What comes of a request behind which the input ends.
async fn asked_last(proxy: Proxy) -> Value {
    let mut client = Raw::open(proxy);
    let initialize = json!({ "jsonrpc": "2.0", "id": "a", "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } } });
    client.send(&initialize.to_string()).await;
    client.end().await;
    let mut all = client.rest().await;
    within(client.served).await.unwrap().unwrap();
    assert!(all.len() == 1 && all[0]["id"] == "a", "{all:?}");
    all.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_answer_any_more_is_answered_with_an_error() {
    // It answers nothing, and ends when its input does.
    let silent = || Transport::command("sh", ["-c", "while read -r line; do :; done"]);
    let missing = || Transport::command("/nonexistent/program", [""; 0]);
    let both = [("a", silent()), ("b", missing())];
    for servers in [&[("s", silent())][..], &[("s", missing())], &both] {
        let answer = asked_last(proxy(servers, "", &Said::default())).await;
        assert!(answer["error"]["message"].is_string(), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_late_gets_all_it_asked_for() {
    let mut client = Raw::open(proxy(&[("s", process())], "enabled = false", &Said::default()));
    client.initialize().await;
    let call = |id: u64, name: &str, n: u64| {
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": name, "arguments": { "n": n } } })
        .to_string()
    };
    client.send(&call(1_000, "sleeper", 0)).await;
    let pid = client.until(|message| message["id"] == 1_000).await;
    // Far more than may wait for it.
    for id in 0..40 {
        client.send(&call(id, "lines", 100_000)).await;
    }
    client.end().await;
    // It reads nothing until the servers have ended.
    ended(pid["result"]["content"][0]["text"].as_str().unwrap()).await;
    let mut answered: Vec<u64> =
        client.rest().await.iter().map(|message| message["id"].as_u64().unwrap()).collect();
    answered.sort_unstable();
    assert_eq!(answered, (0..40).collect::<Vec<_>>());
    within(client.served).await.unwrap().unwrap();
}

/// A store on a disk that is full.
#[derive(Debug)]
struct Full;

impl Store for Full {
    fn stage(&self) -> BoxFuture<'_, Result<Box<dyn Stage>, StoreError>> {
        Box::pin(async { Err(StoreError::Full(io::Error::from_raw_os_error(28))) })
    }

    fn read<'a>(
        &'a self,
        name: &'a BlobName,
        _: ByteRange,
    ) -> BoxFuture<'a, Result<Slice, StoreError>> {
        Box::pin(async move { Err(StoreError::NotFound { name: name.to_string() }) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_fails_no_call_and_loses_nothing_that_nobody_asked_to_cut() {
    const CUT: &str = "[[bands]]\nover = 10_000\naction = \"spill\"\nthen = \"truncate\"\n";
    for (config, is_whole) in [("", true), ("preset = \"lean\"", true), (CUT, false)] {
        let said = Said::default();
        let config = Config::parse("overspill.toml", config).unwrap();
        let mut options = Options::new(config, Arc::new(Full));
        options.servers = vec![Server { name: "s".to_owned(), transport: process() }];
        options.log = said.log();
        let connected = connect(Proxy::new(options).unwrap()).await;
        let view = text(&connected.call("lines", json!({ "n": 5_000 })).await.unwrap());
        assert_eq!(view == lines(5_000), is_whole, "{view}");
        if is_whole {
            assert!(said.all().contains("it is in view whole"), "{}", said.all());
        } else {
            assert!(view.contains("not stored"), "{view}");
            assert!(view.starts_with("line 0 ") && view.ends_with("line 4999 of a long result\n"));
        }
        assert!(said.all().contains("the store is full"), "{}", said.all());
        connected.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_reaches_the_server() {
    let mut client = Raw::open(proxy(&[("s", process())], "", &Said::default()));
    client.initialize().await;
    let call = r#"{"jsonrpc":"2.0","id":"h","method":"tools/call","params":{"name":"hang"}}"#;
    client.send(call).await;
    client.tell("notifications/cancelled", json!({ "requestId": "h" })).await;
    // The server goes on, and what was cancelled holds nothing up.
    assert!(client.ask("ping", json!({})).await["result"].is_object());
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_reads_nothing_does_not_hold_up_the_end() {
    let deaf = Transport::command("sleep", ["600"]);
    let mut client = Raw::open(proxy(&[("deaf", deaf)], "", &Said::default()));
    let text = "x".repeat(1_000_000);
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "t", "arguments": { "text": text } } });
    // More than the proxy takes for a server that does not read; the last it reads waits for room.
    for _ in 0..68 {
        client.send(&call.to_string()).await;
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_does_not_hold_up_the_end() {
    let mut client = Raw::open(proxy(&[("s", process())], "enabled = false", &Said::default()));
    client.initialize().await;
    for id in 0..300 {
        let call = json!({ "jsonrpc": "2.0", "id": format!("c{id}"), "method": "tools/call",
            "params": { "name": "lines", "arguments": { "n": 10_000 } } });
        client.send(&call.to_string()).await;
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_before_it_is_ready_is_opened_all_the_same() {
    // It dies between the answer that opens the session and what the client says then, dies at once
    // the next time, and lives from the third time on.
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
        echo >> "$0/lives"
        case $(wc -l < "$0/lives") in
        1) read -r line
           echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}'
           exit 1;;
        2) exit 1;;
        esac
        exec "$@""#;
    let Transport::Command { command, args, .. } = process() else { panic!() };
    let mut all = vec!["-c".into(), script.into(), folder.path().into(), command.into_os_string()];
    all.extend(args);
    let server = Transport::command("sh", all);
    let mut client = Raw::open(proxy(&[("s", server)], "", &Said::default()));
    client.initialize().await;
    let call = json!({ "name": "lines", "arguments": { "n": 1 } });
    loop {
        // A server that has not heard that the session is open answers nothing.
        let answer = client.ask("tools/call", call.clone()).await;
        if let Some(text) = answer["result"]["content"][0]["text"].as_str() {
            assert_eq!(text, lines(1));
            break;
        }
        assert!(answer["error"]["message"].as_str().unwrap().contains("s "), "{answer}");
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_is_answered_with_an_error() {
    let mut client = Raw::open(proxy(&[("s", process())], "", &Said::default()));
    client.initialize().await;
    let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
    for (line, code, id) in [
        ("{\"jsonrpc\":", -32700, Value::Null),
        ("hello", -32700, Value::Null),
        (r#"{"jsonrpc":"2.0","id":9}"#, -32600, json!(9)),
        (&format!("[7, {ping}]"), -32600, Value::Null),
    ] {
        client.send(line).await;
        let answer = client.until(|message| message.get("error").is_some()).await;
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{line}");
    }
    client.until(|message| message["id"] == "p").await;
    client.close().await;
}
