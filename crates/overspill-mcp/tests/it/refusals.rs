//! Servers over HTTP that do not answer as servers do: what is said of them, and what they are told.

use std::sync::{Arc, Mutex};

use overspill::Config;
use overspill_mcp::{CancellationToken, Options, Proxy, Secret, Server, Transport};
use overspill_store::MemoryStore;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::client::{Said, proxy, within};

/// The requests that came, each as its head.
type Heads = Arc<Mutex<Vec<String>>>;

/// Answers each request with what `answer` makes of its head; the address it listens at.
async fn stub(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (String, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Heads::default();
    let (kept, answer) = (Arc::clone(&heads), Arc::new(answer));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                let Some(head) = head(&mut stream).await else { return };
                kept.lock().unwrap().push(head.clone());
                let answer = answer(&head);
                stream.write_all(answer.as_bytes()).await.unwrap();
            });
        }
    });
    (address.to_string(), heads)
}

/// The head of a request in lower case; its body is read too.
async fn head(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let length = head.to_ascii_lowercase();
    let length = length.split("content-length: ").nth(1)?.split("\r\n").next()?.parse().ok()?;
    stream.read_exact(&mut vec![0; length]).await.ok()?;
    Some(head)
}

fn response(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
}

const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#;

fn result() -> String {
    response("200 OK", "content-type: application/json\r\n", RESULT)
}

/// What the client gets when it opens a session.
async fn opened(proxy: &Proxy) -> Value {
    let (mut near, far) = tokio::io::duplex(1 << 20);
    let (input, output) = tokio::io::split(far);
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" } } });
    near.write_all(format!("{initialize}\n").as_bytes()).await.unwrap();
    near.shutdown().await.unwrap();
    within(proxy.serve(input, output, CancellationToken::new())).await.unwrap();
    let mut all = String::new();
    within(near.read_to_string(&mut all)).await.unwrap();
    serde_json::from_str(&all).unwrap()
}

const SECRET: &str = "s3cret";

/// A server with something secret everywhere.
fn secretive(address: &str) -> Transport {
    Transport::Http {
        url: format!("http://me:{SECRET}@{address}/mcp?key={SECRET}"),
        token: None,
        headers: vec![("X-Key".to_owned(), Secret::new(SECRET))],
    }
}

/// What is said where a server answers like this; to the client and in the log alike, and nothing secret.
async fn said_of(answer: String, transport: impl Fn(&str) -> Transport) -> String {
    let (address, _) = stub(move |_| answer.clone()).await;
    let said = Said::default();
    let answer = opened(&proxy(&[("s", transport(&address))], "", &said)).await;
    let text = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    assert!(said.all().contains(&text), "{}", said.all());
    assert!(!said.all().contains(SECRET), "{}", said.all());
    text.replace(&address, "HOST")
}

fn plain(address: &str) -> Transport {
    Transport::http(format!("http://{address}/mcp"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_that_refuses_says_has_a_mend() {
    let challenge = "www-authenticate: Bearer realm=\"x\"\r\n";
    let page = "content-type: text/html; charset=utf-8\r\n";
    const WHO: &str = "; hint: name the variable that holds its token with --token-env (token_env in \
        overspill.toml), or put its header into OVERSPILL_MCP_HEADERS. The proxy does no login in a \
        browser (OAuth): make a token in the service's settings, or leave this server to the client";
    const VALID: &str = "; hint: it does not take the token or the headers it is sent; look whether they \
        are complete and still valid";
    const MCP: &str = "; hint: look whether its address is that of an MCP endpoint, which often ends in \
        /mcp; one that ends in /sse is of the old transport, which the proxy does not speak";
    for (status, headers, body, answered, hint) in [
        ("401 Unauthorized", challenge, "", " (Bearer realm=\"x\")", WHO),
        ("403 Forbidden", "", "not\n you", ": not you", WHO),
        ("404 Not Found", "", "", "", MCP),
        ("405 Method Not Allowed", page, "<p>GET alone</p>", " with a web page", MCP),
        ("500 Internal Server Error", "", "\n<!DOCTYPE HTML><html>", " with a web page", MCP),
        ("500 Internal Server Error", "", "{\"trace\": 1}", ": {\"trace\": 1}", ""),
        ("200 OK", page, "<html>hello</html>", " with a web page", MCP),
        ("200 OK", "", "", " without an answer", ""),
    ] {
        let answer = || response(status, headers, body);
        let text = said_of(answer(), plain).await;
        assert_eq!(text, format!("s (http://HOST/mcp) answered {status}{answered}{hint}"));
        let hint = if hint == WHO { VALID } else { hint };
        let text = said_of(answer(), secretive).await;
        assert_eq!(text, format!("s (http://HOST/mcp) answered {status}{answered}{hint}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_reached_is_named_without_its_secrets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let said = Said::default();
    let answer = opened(&proxy(&[("s", secretive(&address))], "", &said)).await.to_string();
    assert!(
        answer.contains("s (http://127.0.0.1:") && answer.contains("/mcp) cannot be reached: ")
    );
    assert!(answer.contains("; hint: look whether it runs there"), "{answer}");
    assert!(!answer.contains(SECRET) && !said.all().contains(SECRET), "{answer}{}", said.all());

    // One that speaks no TLS.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(response("400 Bad Request", "", "").as_bytes()).await;
            // It goes once the other has.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    let server = Transport::http(format!("https://{address}/mcp"));
    let answer = opened(&proxy(&[("s", server)], "", &Said::default())).await.to_string();
    assert!(answer.contains("speaks no TLS; perhaps its address is http://"), "{answer}");

    // One that ends in the middle of what it says.
    for (kind, rest) in
        [("application/json", "{\"json"), ("text/event-stream", "4\r\n: hi\r\nff\r\nda")]
    {
        let framing = match kind {
            "application/json" => "content-length: 500",
            _ => "transfer-encoding: chunked",
        };
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\n{framing}\r\n\r\n{rest}");
        let (address, _) = stub(move |_| answer.clone()).await;
        let said = Said::default();
        let answer = opened(&proxy(&[("s", secretive(&address))], "", &said)).await.to_string();
        assert!(answer.contains("error"), "{answer}");
        assert!(!answer.contains(SECRET) && !said.all().contains(SECRET), "{answer}{}", said.all());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_followed_on_the_same_server_alone() {
    for status in
        ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"]
    {
        let (address, heads) = stub(move |head| match head.starts_with("POST /mcp/ ") {
            true => result(),
            false => response(status, "location: /mcp/\r\n", ""),
        })
        .await;
        let answer = opened(&proxy(&[("s", secretive(&address))], "", &Said::default())).await;
        assert_eq!(answer["result"]["serverInfo"]["name"], "s", "{answer}");
        let heads = heads.lock().unwrap();
        assert_eq!(heads.len(), 2, "{heads:?}");
        assert!(heads[1].contains("x-key: s3cret") && !heads[1].contains("referer"), "{heads:?}");
    }

    let (foreign, asked) = stub(|_| result()).await;
    for status in ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect"]
    {
        let headers = format!("location: http://u:{SECRET}@{foreign}/x?k={SECRET}\r\n");
        let text = said_of(response(status, &headers, ""), secretive).await;
        assert_eq!(
            text,
            format!(
                "s (http://HOST/mcp) sends its clients on to http://{foreign}/x, where the proxy does \
                 not go with the token and the headers of another; hint: if you trust it, give it as \
                 the server's address"
            )
        );
    }
    assert_eq!(asked.lock().unwrap().len(), 0);

    for (status, said) in [
        ("303 See Other", "answered with a page elsewhere, http://HOST/login; hint: "),
        ("307 Temporary Redirect", "sends its clients on and on; hint: "),
    ] {
        let text = said_of(response(status, "location: /login\r\n", ""), secretive).await;
        assert!(text.starts_with(&format!("s (http://HOST/mcp) {said}")), "{text}");
    }
}

#[test]
fn an_address_that_cannot_be_is_refused_at_once() {
    let refused = |transport| {
        let mut options = Options::new(Config::default(), Arc::new(MemoryStore::default()));
        options.servers = vec![Server { name: "s".to_owned(), transport }];
        Proxy::new(options).unwrap_err().to_string()
    };
    for (url, said) in [
        (
            "a.example/mcp?k=s3cret",
            "a.example/mcp has no scheme; hint: write https://a.example/mcp",
        ),
        ("localhost:80/mcp", "localhost:80/mcp has no scheme; hint: "),
        ("ftp://a.example/x?k=s3cret", "ftp://a.example/x is reached over ftp; hint: "),
        ("wss://a.example/x", "wss://a.example/x is a web socket, which MCP does not have; hint: "),
        ("http://", "http:// is no address: empty host; hint: "),
        ("https://a b/mcp", "https://a b/mcp is no address: "),
    ] {
        let text = refused(Transport::http(url));
        assert!(text.starts_with(said) && !text.contains(SECRET), "{text}");
    }
    let url = "https://a.example/mcp".to_owned();
    let token = Some(Secret::new(format!("{SECRET}\n")));
    let text = refused(Transport::Http { url: url.clone(), token, headers: Vec::new() });
    assert!(text.starts_with("the token for https://a.example/mcp has ") && !text.contains(SECRET));
    for (name, value) in [("X Y", SECRET), ("X-Y", "s3cret\r\n")] {
        let headers = vec![(name.to_owned(), Secret::new(value))];
        let text = refused(Transport::Http { url: url.clone(), token: None, headers });
        assert!(text.starts_with(&format!("the header {name:?} for https://a.example/mcp cannot")));
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_does_not_find_what_is_the_proxys_alone() {
    let shell = |env: Vec<(String, String)>| {
        Transport::Command {
        command: "sh".into(),
        args: [
            "-c",
            r#"read -r line; printf '{"jsonrpc":"2.0","id":1,"result":{"home":"%s","cargo":"%s"}}\n' "${HOME-unset}" "${CARGO_PKG_NAME-unset}""#,
        ]
        .map(Into::into)
        .to_vec(),
        env,
        cwd: None,
    }
    };
    let own = vec![("HOME".to_owned(), "its own".to_owned())];
    for (hidden, env, seen) in [
        (vec![], vec![], std::env::var("HOME").unwrap()),
        (vec!["HOME".to_owned(), "NOT_SET".to_owned()], vec![], "unset".to_owned()),
        (vec!["HOME".to_owned()], own, "its own".to_owned()),
    ] {
        let mut options = Options::new(Config::default(), Arc::new(MemoryStore::default()));
        options.servers = vec![Server { name: "s".to_owned(), transport: shell(env) }];
        options.hidden_variables = hidden;
        let answer = opened(&Proxy::new(options).unwrap()).await;
        assert_eq!(answer["result"]["home"], seen);
        assert_eq!(answer["result"]["cargo"], "overspill-mcp", "the rest stays");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_any_form_answers_the_request() {
    let json = "content-type: application/json\r\n";
    for (status, body, expected) in [
        ("401 Unauthorized", r#"{"error":"invalid_token","error_description":"x"}"#, "--token-env"),
        ("429 Too Many", r#"{"error":{"type":"rate_limit","message":"slow down"}}"#, "slow down"),
        ("500 Oops", r#"{"error":"rate limited"}"#, "rate limited"),
        ("503 Busy", r#"{"id":1,"error":"no object"}"#, "no object"),
        (
            "400 Bad Request",
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"bad"}}"#,
            "bad",
        ),
        (
            "400 Bad Request",
            r#"[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"worse"}},7]"#,
            "worse",
        ),
        ("200 OK", r#"{"jsonrpc":"2.0","id":1,"result":NaN}"#, "no JSON-RPC message"),
        ("200 OK", r#"{"jsonrpc":"2.0","id":"other","result":{}}"#, "200 OK"),
    ] {
        let (address, _) = stub(move |_| response(status, json, body)).await;
        let answer = opened(&proxy(&[("s", plain(&address))], "", &Said::default())).await;
        assert_eq!(answer["id"], 1, "{answer}");
        assert!(answer["error"]["code"].is_i64(), "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
    }
    // An answer under the id as another type is one, in either form.
    let events = format!("data: {}\n\n", RESULT.replace(r#""id":1"#, r#""id":"1""#));
    for (kind, body) in [
        ("content-type: application/json\r\n", RESULT.replace(r#""id":1"#, r#""id":"1""#)),
        ("content-type: Text/Event-Stream\r\n", events),
    ] {
        let (address, _) = stub(move |_| response("200 OK", kind, &body)).await;
        let answer = opened(&proxy(&[("s", plain(&address))], "", &Said::default())).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_repeats_of_what_it_was_told_is_not_said() {
    let secretive = |address: &str| Transport::Http {
        url: format!(
            "http://me:pass-word-1@{address}/mcp/k3y-in-the-path-0123456789?key=k3y-in-query"
        ),
        token: Some(Secret::new("t0k3n-value")),
        headers: vec![("X-Key".to_owned(), Secret::new("h3ader-value"))],
    };
    for (kind, padding) in
        [("text/plain", 0), ("application/json", 0), ("text/plain", 1_900), ("a redirect", 0)]
    {
        let echo = move |head: &str| {
            if kind == "a redirect" {
                let location = "location: http://127.0.0.1:1/t0k3n-value/pass-word-1\r\n";
                return response("307 Over There", location, "401 …");
            }
            let head = &format!("{}{head}", " ".repeat(padding));
            let challenge = "www-authenticate: Bearer realm=t0k3n-value\r\n";
            let headers = format!("content-type: {kind}\r\n{challenge}");
            response("401 Unauthorized", &headers, head)
        };
        let (address, _) = stub(echo).await;
        let said = Said::default();
        let answer = opened(&proxy(&[("s", secretive(&address))], "", &said)).await;
        let all = format!("{answer}\n{}", said.all());
        assert!(all.contains("…"), "{all}");
        // The user and the password as a header has them.
        let basic = data_encoding::BASE64.encode(b"me:pass-word-1");
        for secret in ["pass-word-1", "k3y-in", "t0k3n-value", "h3ader-value", &basic] {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_cannot_be_started_is_told_of_with_a_mend() {
    let program = |command: &str, cwd: Option<&str>| Transport::Command {
        command: command.into(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: cwd.map(Into::into),
    };
    for (server, expected) in [
        (program("/nonexistent/program", None), "hint: check its name and PATH"),
        (program("npx -y my-server", None), "hint: give its arguments as words of their own"),
        (program("~/bin/srv", None), "hint: only a shell reads ~"),
        (program("$HOME/bin/srv -v", None), "hint: only a shell reads ~"),
        (program("true", Some("~/folder")), "hint: only a shell reads ~"),
        (program("/etc/passwd", None), "hint: make it executable"),
        (program("true", Some("/nonexistent/folder")), "hint: correct its cwd"),
    ] {
        let said = Said::default();
        let answer = opened(&proxy(&[("s", server)], "", &said)).await;
        assert!(said.all().contains(expected), "{}", said.all());
        assert!(answer["error"]["message"].is_string(), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_stands_once_before_what_is_said_of_it() {
    let gone = Transport::command("/nonexistent/program", [""; 0]);
    let page = response("404 Not Found", "", "");
    let (address, _) = stub(move |_| page.clone()).await;
    let said = Said::default();
    let servers = [("gone", gone), ("web", plain(&address))];
    opened(&proxy(&servers, "", &said)).await;
    let all = said.all();
    for (beginning, name) in [("gone cannot be started: /non", "gone"), ("web (http://", "web")] {
        let of_it: Vec<&str> = all.lines().filter(|line| line.starts_with(name)).collect();
        assert!(!of_it.is_empty(), "{all}");
        assert!(of_it.iter().all(|line| line.starts_with(beginning)), "{all}");
        assert!(of_it.iter().all(|line| line.matches(name).count() == 1), "{all}");
    }
}
