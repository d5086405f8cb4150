//! The proxy with a client made with the official SDK at its front.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use overspill::Config;
use overspill_mcp::{CancellationToken, Log, Options, Proxy, ProxyError, Server, Transport};
use overspill_store::MemoryStore;
use rmcp::model::{CallToolRequestParams, CallToolResult};
use rmcp::service::{RunningService, ServiceError};
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;

/// No test waits longer: what should come has not.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// What the proxy said.
#[derive(Clone, Default)]
pub(crate) struct Said(Arc<Mutex<Vec<String>>>);

impl Said {
    pub(crate) fn log(&self) -> Log {
        let lines = Arc::clone(&self.0);
        Log::new(move |line| lines.lock().unwrap().push(line.to_owned()))
    }

    pub(crate) fn all(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

pub(crate) fn proxy(servers: &[(&str, Transport)], config: &str, said: &Said) -> Proxy {
    let config = Config::parse("overspill.toml", config).unwrap();
    let mut options = Options::new(config, Arc::new(MemoryStore::default()));
    options.servers = servers
        .iter()
        .map(|(name, transport)| Server { name: (*name).to_owned(), transport: transport.clone() })
        .collect();
    options.log = said.log();
    Proxy::new(options).unwrap()
}

/// A client, and the proxy it speaks to through a pipe.
pub(crate) struct Connected {
    pub(crate) client: RunningService<RoleClient, ()>,
    pub(crate) closing: CancellationToken,
    pub(crate) served: JoinHandle<Result<(), ProxyError>>,
}

pub(crate) async fn connect(proxy: Proxy) -> Connected {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(far);
    let closing = CancellationToken::new();
    let on_close = closing.clone();
    let served = tokio::spawn(async move { proxy.serve(input, output, on_close).await });
    let client = within(().serve(near)).await.unwrap();
    Connected { client, closing, served }
}

impl Connected {
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<CallToolResult, ServiceError> {
        call(&self.client, tool, arguments).await
    }

    /// Ends the session; every server has ended then.
    pub(crate) async fn close(self) {
        self.closing.cancel();
        within(self.served).await.unwrap().unwrap();
    }
}

pub(crate) async fn call(
    client: &RunningService<RoleClient, ()>,
    tool: &str,
    arguments: Value,
) -> Result<CallToolResult, ServiceError> {
    let mut params = CallToolRequestParams::new(tool.to_owned());
    params.arguments = arguments.as_object().cloned();
    within(client.call_tool(params)).await
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it came in time")
}

/// The text of a result.
pub(crate) fn text(result: &CallToolResult) -> String {
    serde_json::to_value(result).unwrap()["content"][0]["text"].as_str().unwrap().to_owned()
}

pub(crate) fn handle(view: &str) -> String {
    overspill::Marker::handles(view).next().unwrap_or_else(|| panic!("{view}")).to_string()
}

/// Everything that is stored, read through the read tool.
pub(crate) async fn read_back(
    client: &RunningService<RoleClient, ()>,
    tool: &str,
    view: &str,
) -> String {
    let (handle, mut whole, mut offset) = (handle(view), String::new(), 0);
    loop {
        let arguments = json!({ "handle": handle, "offset": offset, "limit": 1_000 });
        let answer = text(&call(client, tool, arguments).await.unwrap());
        let (head, lines) = answer.split_once('\n').unwrap();
        whole.push_str(lines);
        offset = whole.lines().count();
        // The first line says where to go on, as long as there is more.
        if !head.contains("offset=") {
            return whole;
        }
    }
}

/// A client that writes and reads messages as they are.
pub(crate) struct Raw {
    pub(crate) writer: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub(crate) closing: CancellationToken,
    pub(crate) served: JoinHandle<Result<(), ProxyError>>,
    asked: u64,
}

impl Raw {
    pub(crate) fn open(proxy: Proxy) -> Self {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(far);
        let closing = CancellationToken::new();
        let on_close = closing.clone();
        let served = tokio::spawn(async move { proxy.serve(input, output, on_close).await });
        let (reader, writer) = tokio::io::split(near);
        Self { writer, lines: BufReader::new(reader).lines(), closing, served, asked: 0 }
    }

    pub(crate) async fn send(&mut self, line: &str) {
        within(self.writer.write_all(format!("{line}\n").as_bytes())).await.unwrap();
    }

    pub(crate) async fn tell(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.send(&message.to_string()).await;
    }

    /// The next message for which that holds.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let line = within(self.lines.next_line()).await.unwrap().expect("more comes");
            let message: Value = serde_json::from_str(&line).unwrap();
            if wanted(&message) {
                return message;
            }
        }
    }

    /// The answer to a request.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(&message.to_string()).await;
        self.until(|message| message["id"] == id && message.get("method").is_none()).await
    }

    pub(crate) async fn initialize(&mut self) -> Value {
        let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } });
        let answer = self.ask("initialize", params).await;
        self.tell("notifications/initialized", json!({})).await;
        answer
    }

    /// Says nothing more.
    pub(crate) async fn end(&mut self) {
        self.writer.shutdown().await.unwrap();
    }

    /// All that still comes.
    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(line) = within(self.lines.next_line()).await.unwrap() {
            all.push(serde_json::from_str(&line).unwrap());
        }
        all
    }

    /// Ends the session; every server has ended then.
    pub(crate) async fn close(self) {
        self.closing.cancel();
        within(self.served).await.unwrap().unwrap();
    }
}
