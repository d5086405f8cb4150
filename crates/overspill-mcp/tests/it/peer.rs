//! A server made with the official SDK, as a process of its own and over HTTP.

use std::io::{Read, Write};
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};

/// The server.
#[derive(Debug, Clone)]
pub(crate) struct Peer;

/// Lines that are told apart.
pub(crate) fn lines(n: u64) -> String {
    (0..n).map(|i| format!("line {i} of a long result\n")).collect()
}

/// An answer with so many bytes of text, one of which no text has.
pub(crate) fn broken(id: &str, n: u64) -> Vec<u8> {
    let head = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{}"#,
        "x".repeat(n as usize)
    );
    [head.as_bytes(), b"\xff\"}]}}\n"].concat()
}

fn text(text: impl Into<String>) -> Value {
    json!({ "content": [{ "type": "text", "text": text.into() }] })
}

impl ServerHandler for Peer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object" });
        let tools = [
            "lines",
            "structured",
            "echo",
            "die",
            "garbage",
            "broken",
            "raw",
            "refuse",
            "sleeper",
            "stubborn",
            "hang",
            "chatter",
        ];
        let tool = |name: &str| {
            let mut tool = json!({ "name": name, "inputSchema": schema });
            if name == "structured" {
                tool["outputSchema"] = json!({
                    "type": "object",
                    "properties": { "rows": { "type": "array", "items": { "type": "integer" } } },
                    "required": ["rows"],
                    "additionalProperties": false
                });
            }
            serde_json::from_value::<Tool>(tool).unwrap()
        };
        Ok(ListToolsResult::with_all_items(tools.map(tool).to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let n = arguments["n"].as_u64().unwrap_or(3);
        let result = match request.name.as_ref() {
            "lines" => text(lines(n)),
            "structured" => {
                let rows = json!({ "rows": (0..n).collect::<Vec<_>>() });
                json!({ "content": [{ "type": "text", "text": rows.to_string() }], "structuredContent": rows })
            }
            "echo" => text(arguments["text"].as_str().unwrap_or_default().len().to_string()),
            "die" => std::process::exit(3),
            "garbage" => {
                let mut out = std::io::stdout().lock();
                out.write_all(b"Listening on port 80\n\xff\xfe\n{\"half\": \n").unwrap();
                out.flush().unwrap();
                text("done")
            }
            "broken" => {
                let id = serde_json::to_string(&context.id).unwrap();
                let mut out = std::io::stdout().lock();
                out.write_all(&broken(&id, n)).unwrap();
                out.flush().unwrap();
                text("done")
            }
            // The result as the test spells it, whatever the SDK would make of it.
            "raw" => {
                let id = serde_json::to_string(&context.id).unwrap();
                let result = arguments["result"].as_str().unwrap();
                let result = result.replace("LONG", &"x".repeat(n as usize));
                let mut out = std::io::stdout().lock();
                writeln!(out, r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).unwrap();
                out.flush().unwrap();
                text("done")
            }
            "refuse" => {
                let data = json!({ "rows": (0..n).collect::<Vec<_>>() });
                return Err(ErrorData::internal_error(lines(n), Some(data)));
            }
            "sleeper" => {
                #[expect(clippy::zombie_processes, reason = "that it outlives this is the point")]
                let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
                text(child.id().to_string())
            }
            "stubborn" => {
                let script = "trap '' TERM; echo ready; exec sleep 600";
                #[expect(clippy::zombie_processes, reason = "that it outlives this is the point")]
                let mut child = std::process::Command::new("sh")
                    .args(["-c", script])
                    .stdout(std::process::Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut ready = [0; 6];
                child.stdout.take().unwrap().read_exact(&mut ready).unwrap();
                text(child.id().to_string())
            }
            "hang" => {
                context.ct.cancelled().await;
                text("cancelled")
            }
            "chatter" => {
                let token = context.meta.get_progress_token().unwrap();
                let note = arguments["note"].as_str().unwrap();
                for i in 0..n {
                    let progress =
                        ProgressNotificationParam::new(token.clone(), i as f64).with_message(note);
                    context.peer.notify_progress(progress).await.unwrap();
                }
                if arguments["hang"] == true {
                    context.ct.cancelled().await;
                }
                text(n.to_string())
            }
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        };
        Ok(serde_json::from_value::<CallToolResult>(result).unwrap().into())
    }
}

/// Not a test: the server over standard input and output, in a process of its own.
#[test]
#[ignore = "it is the process that other tests start"]
fn server_process() {
    // The test harness has written to standard output already.
    std::io::stdout().write_all(b"\n").unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        // One whose client leaves at once has nothing to say.
        if let Ok(service) = Peer.serve(rmcp::transport::stdio()).await {
            service.waiting().await.unwrap();
        }
    });
    std::process::exit(0);
}

/// How that process is started.
pub(crate) fn process() -> overspill_mcp::Transport {
    overspill_mcp::Transport::command(
        std::env::current_exe().unwrap(),
        ["peer::server_process", "--exact", "--ignored", "--nocapture", "-q"],
    )
}

/// The server over HTTP, at the address that is given back.
pub(crate) async fn over_http() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    over_http_at(listener);
    format!("http://{address}/mcp")
}

/// The server over HTTP, where that listens.
pub(crate) fn over_http_at(listener: tokio::net::TcpListener) {
    let service: StreamableHttpService<Peer, LocalSessionManager> = StreamableHttpService::new(
        || Ok(Peer),
        Arc::default(),
        StreamableHttpServerConfig::default(),
    );
    let routes = axum::Router::new().nest_service("/mcp", service);
    tokio::spawn(async move { axum::serve(listener, routes).await });
}
