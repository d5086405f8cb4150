//! Over streamable HTTP, in front and behind.

use std::net::SocketAddr;

use overspill::config::McpListen;
use overspill_mcp::{CancellationToken, Listen, Proxy, ProxyError, Secret, Transport};
use reqwest::{Client, StatusCode};
use rmcp::ServiceExt;
use rmcp::transport::StreamableHttpClientTransport;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::client::{Raw, Said, call, handle, proxy, read_back, text, within};
use crate::peer::{self, broken, lines, process};

/// The proxy, listening.
struct Listening {
    address: SocketAddr,
    closing: CancellationToken,
    served: JoinHandle<Result<(), ProxyError>>,
}

async fn listening(proxy: Proxy, listen: Listen) -> Listening {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let closing = CancellationToken::new();
    let on_close = closing.clone();
    let served = tokio::spawn(async move { proxy.serve_http(listener, listen, on_close).await });
    Listening { address, closing, served }
}

impl Listening {
    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    async fn close(self) {
        self.closing.cancel();
        within(self.served).await.unwrap().unwrap();
    }
}

fn defaults() -> Listen {
    Listen::new(&McpListen::default(), None)
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

fn post(client: &Client, url: &str, body: impl Into<String>) -> reqwest::RequestBuilder {
    client
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(body.into())
}

#[tokio::test(flavor = "multi_thread")]
async fn http_in_front_and_behind_loses_nothing() {
    let behind = Transport::http(peer::over_http().await);
    for transport in [behind, process()] {
        let listening =
            listening(proxy(&[("s", transport)], "", &Said::default()), defaults()).await;
        let url = listening.url();
        let client = within(().serve(StreamableHttpClientTransport::from_uri(url))).await.unwrap();
        let tools = within(client.list_all_tools()).await.unwrap();
        assert_eq!(tools.last().unwrap().name, "read_tool_result");
        let short = call(&client, "lines", json!({ "n": 10 })).await.unwrap();
        assert_eq!(text(&short), lines(10));
        let view = text(&call(&client, "lines", json!({ "n": 20_000 })).await.unwrap());
        assert_eq!(read_back(&client, "read_tool_result", &view).await, lines(20_000));
        // What is too long to hold is read through a disk.
        let long = lines(700_000);
        let view = text(&call(&client, "lines", json!({ "n": 700_000 })).await.unwrap());
        assert!(view.contains(" 700,000 lines, stored as "), "{view}");
        let handle = handle(&view);
        for offset in [0, 350_000, 699_990] {
            let part = json!({ "handle": handle, "offset": offset, "limit": 10 });
            let part = text(&call(&client, "read_tool_result", part).await.unwrap());
            let (_, part) = part.split_once('\n').unwrap();
            let expected: String = long.split_inclusive('\n').skip(offset).take(10).collect();
            assert_eq!(part, expected);
        }
        drop(client);
        listening.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_business_here_is_refused() {
    let token = Some(Secret::new("t0ken"));
    let listen = Listen::new(
        &McpListen { hosts: vec!["proxy.example".into()], ..McpListen::default() },
        token,
    );
    let said = Said::default();
    let listening = listening(proxy(&[("s", process())], "", &said), listen).await;
    let (client, url) = (Client::new(), listening.url());
    let sent = |headers: &[(&str, &str)]| {
        let mut request = post(&client, &url, INITIALIZE);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        async move { within(request.send()).await.unwrap() }
    };
    let bearer = ("authorization", "Bearer t0ken");
    let refused = sent(&[]).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(refused.headers()["www-authenticate"], "Bearer");
    assert_eq!(sent(&[("authorization", "Bearer wrong")]).await.status(), StatusCode::UNAUTHORIZED);
    let foreign = [("origin", "https://evil.example"), bearer];
    assert_eq!(sent(&foreign).await.status(), StatusCode::FORBIDDEN);
    let rebound = [("host", "evil.example"), bearer];
    for _ in 0..2 {
        assert_eq!(sent(&rebound).await.status(), StatusCode::FORBIDDEN);
        assert_eq!(sent(&foreign).await.status(), StatusCode::FORBIDDEN);
    }
    for told in ["its Host is \"evil.example\"", "its Origin is \"https://evil.example\""] {
        assert_eq!(said.all().matches(told).count(), 1, "{}", said.all());
    }
    // What begins or ends like a name of the proxy's is none, nor is one of two.
    for evil in ["[::1].evil.example:80", "localhost:80.evil.example", "127.0.0.1, evil.example"] {
        assert_eq!(sent(&[("host", evil), bearer]).await.status(), StatusCode::FORBIDDEN, "{evil}");
        let origin = format!("http://{evil}");
        let origin = [("origin", origin.as_str()), bearer];
        assert_eq!(sent(&origin).await.status(), StatusCode::FORBIDDEN, "{evil}");
    }
    let twice = [("origin", "http://localhost"), ("origin", "http://evil.example"), bearer];
    assert_eq!(sent(&twice).await.status(), StatusCode::FORBIDDEN);
    for allowed in [("origin", "http://localhost:3000"), ("host", "proxy.example:8080")] {
        assert_eq!(sent(&[allowed, bearer]).await.status(), StatusCode::OK, "{allowed:?}");
    }
    listening.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_and_bodies_are_bounded() {
    let listen =
        Listen::new(&McpListen { max_sessions: 1, max_body: 1_000, ..McpListen::default() }, None);
    let listening = listening(proxy(&[("s", process())], "", &Said::default()), listen).await;
    let (client, url) = (Client::new(), listening.url());
    let first = within(post(&client, &url, INITIALIZE).send()).await.unwrap();
    let session = first.headers()["mcp-session-id"].clone();
    assert!(within(first.text()).await.unwrap().contains("\"serverInfo\""));
    let second = within(post(&client, &url, INITIALIZE).send()).await.unwrap();
    assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE);
    let long = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "x".repeat(2_000));
    let long = within(post(&client, &url, long).send()).await.unwrap();
    assert_eq!(long.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let gone = client.delete(&url).header("mcp-session-id", &session);
    assert_eq!(within(gone.send()).await.unwrap().status(), StatusCode::OK);
    let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    let late = post(&client, &url, ping).header("mcp-session-id", &session);
    assert_eq!(within(late.send()).await.unwrap().status(), StatusCode::NOT_FOUND);
    let without = within(post(&client, &url, ping).send()).await.unwrap();
    assert_eq!(without.status(), StatusCode::BAD_REQUEST);
    let garbage = within(post(&client, &url, "{").send()).await.unwrap();
    assert_eq!(garbage.status(), StatusCode::BAD_REQUEST);
    listening.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_whose_stream_broke_off_is_read_on_another() {
    let listening = listening(proxy(&[("s", process())], "", &Said::default()), defaults()).await;
    let (client, url) = (Client::new(), listening.url());
    let opened = within(post(&client, &url, INITIALIZE).send()).await.unwrap();
    let session = opened.headers()["mcp-session-id"].clone();
    within(opened.text()).await.unwrap();
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"lines","arguments":{"n":2}}}"#;
    let answered =
        within(post(&client, &url, call).header("mcp-session-id", &session).send()).await.unwrap();
    let body = within(answered.text()).await.unwrap();
    let id = body.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    let (stream, _) = id.split_once('-').unwrap();
    let again = client
        .get(&url)
        .header("mcp-session-id", &session)
        .header("accept", "text/event-stream")
        .header("last-event-id", format!("{stream}-0"));
    let again = within(within(again.send()).await.unwrap().text()).await.unwrap();
    let data = again.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let message: Value = serde_json::from_str(data).unwrap();
    assert_eq!(message["result"]["content"][0]["text"], lines(2).as_str());
    listening.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_sessions_share_a_server() {
    let listening = listening(proxy(&[("s", process())], "", &Said::default()), defaults()).await;
    let (client, url) = (Client::new(), listening.url());
    // The server's own revision has sessions, so one message opens it for all.
    let ping = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let sent = |id: &'static str| {
        let request = post(&client, &url, ping(id)).header("mcp-protocol-version", "2026-07-28");
        async move { within(within(request.send()).await.unwrap().text()).await.unwrap() }
    };
    let (first, second, third) = tokio::join!(sent("1"), sent("1"), sent("\"a\""));
    assert!(first.contains(r#""id":1"#) && second.contains(r#""id":1"#), "{first} {second}");
    assert!(third.contains(r#""id":"a""#), "{third}");
    listening.close().await;
}

/// The events of a response, one message after another.
struct Events {
    response: reqwest::Response,
    held: String,
}

impl Events {
    async fn next(&mut self) -> Value {
        loop {
            if let Some((event, rest)) = self.held.split_once("\n\n") {
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                let message = data.and_then(|data| serde_json::from_str(data).ok());
                self.held = rest.to_owned();
                match message {
                    Some(message) => return message,
                    None => continue,
                }
            }
            let piece = within(self.response.chunk()).await.unwrap().expect("more comes");
            self.held.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }
}

/// A call of a revision without sessions.
async fn called(client: &Client, url: &str, tool: &str, arguments: Value) -> Events {
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments, "_meta": {
            "progressToken": "p",
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {} } } });
    let request = post(client, url, call.to_string()).header("mcp-protocol-version", "2026-07-28");
    Events { response: within(request.send()).await.unwrap(), held: String::new() }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_sessions_have_progress_of_their_own() {
    let listening = listening(proxy(&[("s", process())], "", &Said::default()), defaults()).await;
    let url = listening.url();
    let clients = [Client::new(), Client::new()];
    let mut calls = Vec::new();
    for (client, note) in clients.iter().zip(["one", "two"]) {
        // Each tells of itself and then waits, so both are under way with one id and one token.
        calls.push(
            called(client, &url, "chatter", json!({ "n": 1, "note": note, "hang": true })).await,
        );
    }
    for (call, note) in calls.iter_mut().zip(["one", "two"]) {
        let progress = call.next().await;
        assert_eq!(progress["method"], "notifications/progress", "{progress}");
        assert_eq!(progress["params"]["progressToken"], "p");
        assert_eq!(progress["params"]["message"], note);
    }
    listening.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_holds_up_no_other_and_not_the_end() {
    let said = Said::default();
    let listening = listening(proxy(&[("s", process())], "", &said), defaults()).await;
    let (url, deaf, client) = (listening.url(), Client::new(), Client::new());
    // More than all that lies between can hold.
    let much = json!({ "n": 3_000, "note": "x".repeat(16_000), "hang": true });
    let unread = called(&deaf, &url, "chatter", much).await;
    while !said.all().contains("does not read") {
        let mut other = called(&client, &url, "lines", json!({ "n": 2 })).await;
        assert_eq!(other.next().await["result"]["content"][0]["text"], lines(2).as_str());
    }
    listening.close().await;
    drop(unread);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_reached_is_told_of() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let listening =
        listening(proxy(&[("s", Transport::http(nobody))], "", &Said::default()), defaults()).await;
    let (client, url) = (Client::new(), listening.url());
    let answer = within(post(&client, &url, INITIALIZE).send()).await.unwrap();
    let body = within(answer.text()).await.unwrap();
    assert!(body.contains("/mcp) cannot be reached"), "{body}");
    listening.close().await;
}

/// A server that answers nothing, and what it is sent.
async fn silent() -> (String, tokio::sync::mpsc::UnboundedReceiver<Value>) {
    use axum::extract::State;
    use axum::response::{IntoResponse, Response};
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    async fn answer(State(sent): State<UnboundedSender<Value>>, body: String) -> Response {
        let message: Value = serde_json::from_str(&body).unwrap();
        let is_request = message.get("id").is_some();
        let _ = sent.send(message);
        if is_request {
            std::future::pending::<()>().await;
        }
        StatusCode::ACCEPTED.into_response()
    }
    let (sent, received) = unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = axum::Router::new().route("/", axum::routing::post(answer)).with_state(sent);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (format!("http://{address}/"), received)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_a_session_is_cancelled_when_its_client_is_gone() {
    let (behind, mut received) = silent().await;
    let behind = Transport::http(behind);
    let listening = listening(proxy(&[("s", behind)], "", &Said::default()), defaults()).await;
    let url = listening.url();
    for accept in ["application/json, text/event-stream", "application/json"] {
        let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
        let request = Client::new()
            .post(&url)
            .header("content-type", "application/json")
            .header("accept", accept)
            .header("mcp-protocol-version", "2026-07-28")
            .body(call);
        let client = tokio::spawn(async move { request.send().await.unwrap().text().await });
        let call = within(received.recv()).await.unwrap();
        client.abort();
        let told = within(received.recv()).await.unwrap();
        assert_eq!(told["method"], "notifications/cancelled", "{accept}: {told}");
        assert_eq!(told["params"]["requestId"], call["id"], "{accept}");
    }
    listening.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_cancelled_take_no_room() {
    let (behind, mut received) = silent().await;
    let mut client = Raw::open(proxy(&[("s", Transport::http(behind))], "", &Said::default()));
    // Twice as much as may wait for a server that does not answer.
    let text = "x".repeat(1_000_000);
    for round in 0..2 {
        for n in 0..60 {
            let call = json!({ "jsonrpc": "2.0", "id": 100 * round + n, "method": "tools/call",
                "params": { "name": "t", "arguments": { "text": text } } });
            client.send(&call.to_string()).await;
            while within(received.recv()).await.unwrap()["method"] != "tools/call" {}
        }
        for n in 0..60 {
            client.tell("notifications/cancelled", json!({ "requestId": 100 * round + n })).await;
        }
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_ended_answers_what_it_was_asked() {
    let listening = listening(proxy(&[("s", process())], "", &Said::default()), defaults()).await;
    let (client, url) = (Client::new(), listening.url());
    for _ in 0..3 {
        let opened = within(post(&client, &url, INITIALIZE).send()).await.unwrap();
        let session = opened.headers()["mcp-session-id"].clone();
        within(opened.text()).await.unwrap();
        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        let told = post(&client, &url, initialized).header("mcp-session-id", &session);
        within(told.send()).await.unwrap();
        let mut calls = Vec::new();
        for id in 10..30 {
            let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "hang" } });
            let call = post(&client, &url, call.to_string()).header("mcp-session-id", &session);
            calls.push((id, within(call.send()).await.unwrap()));
        }
        let end = client.delete(&url).header("mcp-session-id", &session).send();
        assert_eq!(within(end).await.unwrap().status(), StatusCode::OK);
        for (id, call) in calls {
            let body = within(call.text()).await.unwrap();
            assert!(body.contains(&format!(r#""id":{id}"#)), "{id}: {body}");
        }
    }
    listening.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_no_stream_has_is_refused() {
    let listening = listening(proxy(&[("s", process())], "", &Said::default()), defaults()).await;
    let (client, url) = (Client::new(), listening.url());
    let opened = within(post(&client, &url, INITIALIZE).send()).await.unwrap();
    let session = opened.headers()["mcp-session-id"].clone();
    within(opened.text()).await.unwrap();
    let most = u64::MAX;
    for (place, expected) in [
        ("1".to_owned(), StatusCode::BAD_REQUEST),
        (format!("{most}-{most}"), StatusCode::NOT_FOUND),
        // A stream that there is, behind all that will ever come.
        (format!("1-{most}"), StatusCode::OK),
    ] {
        let resumed = client
            .get(&url)
            .header("mcp-session-id", &session)
            .header("accept", "text/event-stream")
            .header("last-event-id", &place);
        assert_eq!(within(resumed.send()).await.unwrap().status(), expected, "{place}");
    }
    listening.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_told_that_a_client_without_events_cannot_be_asked() {
    // It asks before it answers, and answers with what it was told.
    let script = r#"
        while read -r line; do
            case $line in
            *tools/call*) echo '{"jsonrpc":"2.0","id":"ask","method":"roots/list"}';;
            *'"ask"'*)
                told=$(printf %s "$line" | tr -d '"\\')
                printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%s"}]}}\n' "$told";;
            *initialize\"*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}';;
            esac
        done"#;
    let server = Transport::command("sh", ["-c", script]);
    let listening = listening(proxy(&[("s", server)], "", &Said::default()), defaults()).await;
    let (client, url) = (Client::new(), listening.url());
    let opened = within(post(&client, &url, INITIALIZE).send()).await.unwrap();
    let session = opened.headers()["mcp-session-id"].clone();
    within(opened.text()).await.unwrap();
    let call = client
        .post(&url)
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .header("mcp-session-id", &session)
        .body(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}"#);
    let answer = within(within(call.send()).await.unwrap().text()).await.unwrap();
    assert!(answer.contains("cannot be asked"), "{answer}");
    listening.close().await;
}

/// A server that forgets its first session, and refuses to open it again the first time.
async fn moody() -> String {
    use axum::http::HeaderMap;
    use axum::response::{IntoResponse, Response};
    use std::sync::atomic::{AtomicU32, Ordering};

    static OPENED: AtomicU32 = AtomicU32::new(0);
    async fn answer(headers: HeaderMap, body: String) -> Response {
        let message: Value = serde_json::from_str(&body).unwrap();
        let session = headers.get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
        let json = ("content-type", "application/json");
        let answer = |result: Value| {
            json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string()
        };
        match (message["method"].as_str(), session.as_deref()) {
            (Some("initialize"), None) => {
                let opened = OPENED.fetch_add(1, Ordering::SeqCst);
                if opened == 1 {
                    return StatusCode::SERVICE_UNAVAILABLE.into_response();
                }
                let said =
                    json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} } });
                let id = opened.to_string();
                ([json, ("mcp-session-id", id.as_str())], answer(said)).into_response()
            }
            (_, None) | (Some("initialize"), _) => StatusCode::BAD_REQUEST.into_response(),
            (_, Some("0")) if message.get("id").is_some() => StatusCode::NOT_FOUND.into_response(),
            _ if message.get("id").is_none() => StatusCode::ACCEPTED.into_response(),
            _ => ([json], answer(json!({ "content": [] }))).into_response(),
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = axum::Router::new().route("/", axum::routing::post(answer));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    format!("http://{address}/")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_be_opened_again_is_opened_later() {
    let behind = Transport::http(moody().await);
    let mut client = Raw::open(proxy(&[("s", behind)], "", &Said::default()));
    client.initialize().await;
    let first = client.ask("tools/call", json!({ "name": "t" })).await;
    let why = first["error"]["message"].as_str().unwrap();
    assert!(why.contains("has forgotten the session") && why.contains("503"), "{why}");
    for n in 0..3 {
        let next = client.ask("tools/call", json!({ "name": "t" })).await;
        assert!(next["result"].is_object(), "{n}: {next}");
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_servers_that_comes_later_joins() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let servers =
        [("here", process()), ("later", Transport::http(format!("http://{address}/mcp")))];
    let mut client = Raw::open(proxy(&servers, "", &Said::default()));
    client.initialize().await;
    peer::over_http_at(TcpListener::bind(address).await.unwrap());
    client.until(|message| message["method"] == "notifications/tools/list_changed").await;
    let list = client.ask("tools/list", json!({})).await;
    let names: Vec<&str> = list["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"here__lines") && names.contains(&"later__lines"), "{names:?}");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_wants_no_answer_holds_up_no_request() {
    // It answers requests at once, and takes no notification but the first.
    async fn answer(body: String) -> axum::response::Response {
        use axum::response::IntoResponse;
        let message: Value = serde_json::from_str(&body).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        if method == "notifications/progress" {
            std::future::pending::<()>().await;
        }
        if message.get("id").is_none() {
            return StatusCode::ACCEPTED.into_response();
        }
        let result = match method {
            "initialize" => json!({ "protocolVersion": "2025-06-18", "capabilities": {} }),
            _ => json!({}),
        };
        let response = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
        ([("content-type", "application/json")], response.to_string()).into_response()
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = axum::Router::new().route("/", axum::routing::post(answer));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    let behind = Transport::http(format!("http://{address}/"));
    let mut client = Raw::open(proxy(&[("s", behind)], "", &Said::default()));
    client.initialize().await;
    client.tell("notifications/progress", json!({ "progressToken": 1 })).await;
    assert!(client.ask("ping", json!({})).await["result"].is_object());
    client.close().await;
}

/// A server that breaks off its streams and forgets its sessions.
async fn forgetful() -> String {
    use axum::extract::Request;
    use axum::http::{HeaderMap, Method};
    use axum::response::{IntoResponse, Response};
    use std::sync::atomic::{AtomicU32, Ordering};

    static SESSIONS: AtomicU32 = AtomicU32::new(0);
    async fn answer(request: Request) -> Response {
        let header = |headers: &HeaderMap, name: &str| {
            headers.get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        let events = [("content-type", "text/event-stream")];
        let json = [("content-type", "application/json")];
        let (parts, body) = request.into_parts();
        if parts.method == Method::GET {
            return match header(&parts.headers, "last-event-id").as_deref() {
                Some("9") => {
                    let result = r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"whole"}]}}"#;
                    (events, format!("id: 10\ndata: {result}\n\n")).into_response()
                }
                Some("7") => {
                    let result = r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"at last"}]}}"#;
                    (events, format!("id: 8\ndata: {result}\n\n")).into_response()
                }
                _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
            };
        }
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        let result = |result: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"])
        };
        match (message["method"].as_str(), message["params"]["name"].as_str()) {
            (Some("initialize"), _) => {
                let session = SESSIONS.fetch_add(1, Ordering::SeqCst).to_string();
                let headers =
                    [("content-type", "application/json"), ("mcp-session-id", session.as_str())];
                let said = result(
                    r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"f","version":"1"}}"#,
                );
                (headers, said).into_response()
            }
            (_, Some("broken")) => (json, broken(&message["id"].to_string(), 10)).into_response(),
            // It ends, as if nothing were wrong, in the middle of an event.
            (_, Some("cut")) => {
                let cut =
                    "id: 9\nretry: 1\ndata:\n\nid: 10\ndata: {\"jsonrpc\":\"2.0\",\"id\":5,\"resul";
                (events, cut).into_response()
            }
            (_, Some("break off")) => (events, "id: 7\nretry: 1\ndata:\n\n").into_response(),
            (_, Some("forget"))
                if header(&parts.headers, "mcp-session-id").as_deref() == Some("0") =>
            {
                StatusCode::NOT_FOUND.into_response()
            }
            (_, Some(_)) => {
                (json, result(r#"{"content":[{"type":"text","text":"again"}]}"#)).into_response()
            }
            _ => StatusCode::ACCEPTED.into_response(),
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = axum::Router::new().route("/", axum::routing::any(answer));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    format!("http://{address}/")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_breaks_off_is_taken_up_and_what_is_forgotten_is_opened_again() {
    let said = Said::default();
    let behind = Transport::http(forgetful().await);
    let listening = listening(proxy(&[("s", behind)], "", &said), defaults()).await;
    let (client, url) = (Client::new(), listening.url());
    let opened = within(post(&client, &url, INITIALIZE).send()).await.unwrap();
    let session = opened.headers()["mcp-session-id"].clone();
    within(opened.text()).await.unwrap();
    let broken = "not UTF-8, as JSON must be. It is stored as mcp/";
    for (name, id, expected) in [
        ("break off", 2, "at last"),
        ("forget", 3, "again"),
        ("broken", 4, broken),
        ("cut", 5, "whole"),
    ] {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name } });
        let call = post(&client, &url, call.to_string()).header("mcp-session-id", &session);
        let body = within(within(call.send()).await.unwrap().text()).await.unwrap();
        assert!(body.contains(expected), "{name}: {body}");
    }
    assert!(said.all().contains("s is open again"), "{}", said.all());
    listening.close().await;
}
