//! What `[mcp]` says and means: the servers behind the MCP proxy, and its bounds.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::problem::{Problem, quoted};
use super::section::{Given, Said, Section};
use crate::filter::ToolFilter;
use crate::store::ByteSize;

/// What the MCP proxy stands in front of, and how.
#[derive(Debug, Clone)]
pub struct McpConfig {
    /// The servers, in the order of the file; none where the command line names one.
    pub servers: Vec<McpServer>,
    /// How many bytes of JSON the result of a call that failed may have and still passes whole.
    pub max_error: u64,
    /// Whether what `resources/read` gives is reduced too.
    pub resources: bool,
    /// The tools that take handles as arguments; none where it is `None`.
    pub handle_arguments: Option<ToolFilter>,
    /// The names and globs of `handle_arguments`, as they were given.
    pub handle_argument_tools: Vec<String>,
    /// Whether an argument that is a handle, and nothing else, is taken for one too.
    pub bare_handles: bool,
    /// How many bytes all payloads put into the arguments of one call may have together.
    pub max_argument: u64,
    /// What holds where the proxy listens for HTTP.
    pub listen: McpListen,
}

/// A server behind the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// What its names are prefixed with where there are several.
    pub name: String,
    /// How it is reached.
    pub transport: McpTransport,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// It is started, and spoken to through its standard input and output.
    Command {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// What is added to its environment.
        env: Vec<(String, String)>,
        /// The folder it is started in; that of the proxy where it is `None`.
        cwd: Option<PathBuf>,
    },
    /// It is spoken to over streamable HTTP.
    Url {
        /// Its address.
        url: String,
        /// The environment variable that holds the bearer token it wants.
        token_env: Option<String>,
        /// What is sent with every request.
        headers: Vec<(String, String)>,
    },
}

/// What holds where the proxy listens for HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpListen {
    /// The environment variable that holds the bearer token that clients must send.
    pub token_env: Option<String>,
    /// The names by which clients may call the proxy, beside those of the loopback interface and
    /// the address it listens on.
    pub hosts: Vec<String>,
    /// How many bytes a request may have.
    pub max_body: u64,
    /// How many sessions there may be at once; each has server processes of its own.
    pub max_sessions: usize,
}

impl Default for McpConfig {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            // About 25,000 tokens: an error is read whole, but none should fill a window.
            max_error: 100_000,
            resources: false,
            handle_arguments: None,
            handle_argument_tools: Vec::new(),
            bare_handles: false,
            max_argument: 16_000_000,
            listen: McpListen::default(),
        }
    }
}

impl Default for McpListen {
    fn default() -> Self {
        Self { token_env: None, hosts: Vec::new(), max_body: 16_000_000, max_sessions: 64 }
    }
}

/// `[mcp]`, key by key.
#[derive(Debug, Default)]
pub(super) struct RawMcp {
    max_error: Said<String>,
    resources: Said<bool>,
    handle_arguments: Said<Vec<Given<String>>>,
    bare_handles: Said<bool>,
    max_argument: Said<String>,
    token_env: Said<String>,
    hosts: Said<Vec<Given<String>>>,
    max_body: Said<String>,
    max_sessions: Said<usize>,
    servers: Vec<(Given<String>, RawServer)>,
}

#[derive(Debug)]
struct RawServer {
    command: Said<String>,
    args: Said<Vec<Given<String>>>,
    env: Option<Given<Vec<(String, String)>>>,
    cwd: Said<String>,
    url: Said<String>,
    token_env: Said<String>,
    headers: Option<Given<Vec<(String, String)>>>,
}

impl RawMcp {
    pub(super) fn read(mut mcp: Section<'_, '_>) -> Self {
        let mut raw = Self {
            max_error: mcp.text("max_error"),
            resources: mcp.boolean("resources"),
            handle_arguments: mcp.texts("handle_arguments"),
            bare_handles: mcp.boolean("bare_handles"),
            max_argument: mcp.text("max_argument"),
            ..Self::default()
        };
        if let Some(mut listen) = mcp.table("listen") {
            raw.token_env = listen.text("token_env");
            raw.hosts = listen.texts("hosts");
            raw.max_body = listen.text("max_body");
            raw.max_sessions = listen.count("max_sessions");
            listen.close();
        }
        if let Some(servers) = mcp.table("servers") {
            for (name, mut server) in
                servers.named_tables(|key| format!("write [{key}] and its keys below"))
            {
                let mut texts = |key| {
                    server.table(key).map(|table| {
                        let at = table.at.clone();
                        Given { value: table.all_texts(), at }
                    })
                };
                let (env, headers) = (texts("env"), texts("headers"));
                let read = RawServer {
                    command: server.text("command"),
                    args: server.texts("args"),
                    env,
                    cwd: server.text("cwd"),
                    url: server.text("url"),
                    token_env: server.text("token_env"),
                    headers,
                };
                server.close();
                raw.servers.push((name, read));
            }
        }
        mcp.close();
        raw
    }

    pub(super) fn resolve(&self, problems: &mut Vec<Problem>) -> McpConfig {
        let default = McpConfig::default();
        let mut size = |said: &Said<String>, default: u64| {
            let Some(Given { value, at }) = said.given() else { return default };
            value.parse::<ByteSize>().map_or_else(
                |_| {
                    let what = format!("{} is {}, which is no size", at.name, quoted(value));
                    problems.push(at.problem(what, ByteSize::HINT));
                    default
                },
                |size| size.0,
            )
        };
        let max_error = size(&self.max_error, default.max_error);
        let max_argument = size(&self.max_argument, default.max_argument);
        let max_body = size(&self.max_body, default.listen.max_body);
        let tools = values(&self.handle_arguments);
        let handle_arguments = match (self.handle_arguments.given(), tools.is_empty()) {
            (Some(Given { at, .. }), false) => match ToolFilter::only(&tools) {
                Ok(filter) => Some(filter),
                Err(error) => {
                    let hint = "write tools' names, or globs such as \"files__*\"";
                    problems.push(at.problem(error.to_string(), hint));
                    None
                }
            },
            _ => None,
        };
        if let Some(Given { value: 0, at }) = self.max_sessions.given() {
            let what = format!("{} is 0, so nobody could connect", at.name);
            problems.push(at.problem(what, "write how many sessions there may be, such as 64"));
        }
        let servers = self.servers.iter();
        McpConfig {
            servers: servers.filter_map(|(name, raw)| raw.resolve(name, problems)).collect(),
            max_error,
            resources: self.resources.given().is_some_and(|given| given.value),
            handle_arguments,
            handle_argument_tools: tools,
            bare_handles: self.bare_handles.given().is_some_and(|given| given.value),
            max_argument,
            listen: McpListen {
                token_env: text(&self.token_env),
                hosts: values(&self.hosts),
                max_body,
                max_sessions: self
                    .max_sessions
                    .given()
                    .map_or(default.listen.max_sessions, |given| given.value),
            },
        }
    }
}

impl RawServer {
    fn resolve(&self, name: &Given<String>, problems: &mut Vec<Problem>) -> Option<McpServer> {
        let Given { value, at } = name;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if value.is_empty() || value.len() > 32 || !value.chars().all(is_name) {
            problems.push(at.problem(
                format!("{} cannot stand before the names of tools", at.name),
                "use letters, digits, _ and -, at most 32 of them",
            ));
        }
        let transport = match (text(&self.command), text(&self.url)) {
            (Some(command), None) => {
                let of_url = [self.token_env.at(), self.headers.as_ref().map(|it| &it.at)];
                for at in of_url.into_iter().flatten() {
                    let what = format!("{} belongs to a server with a url", at.name);
                    problems.push(at.problem(what, "give a command its secrets through env"));
                }
                McpTransport::Command {
                    command,
                    args: values(&self.args),
                    env: pairs(&self.env),
                    cwd: text(&self.cwd).map(PathBuf::from),
                }
            }
            (None, Some(url)) => {
                let env = self.env.as_ref().map(|it| &it.at);
                let of_command = [self.args.at(), self.cwd.at(), env];
                for at in of_command.into_iter().flatten() {
                    let what = format!("{} belongs to a server with a command", at.name);
                    problems
                        .push(at.problem(what, "leave it out, or write command instead of url"));
                }
                if !url.starts_with("http://") && !url.starts_with("https://") {
                    problems.push(at.problem(
                        format!("the url of {} is {}, which is no address", at.name, quoted(&url)),
                        "write url = \"https://…\"",
                    ));
                }
                McpTransport::Url {
                    url,
                    token_env: text(&self.token_env),
                    headers: pairs(&self.headers),
                }
            }
            (Some(_), Some(_)) => {
                let what = format!("{} has a command and a url", at.name);
                problems.push(at.problem(what, "keep one: command for a program, url for HTTP"));
                return None;
            }
            (None, None) => {
                if self.command.at().is_none() && self.url.at().is_none() {
                    let what = format!("{} lacks command or url", at.name);
                    problems.push(at.problem(what, "add command = \"…\" or url = \"https://…\""));
                }
                return None;
            }
        };
        Some(McpServer { name: value.clone(), transport })
    }
}

impl McpConfig {
    /// In the shape of the file; what is as it is without the table is left out.
    pub(super) fn shape(&self) -> Map<String, Value> {
        let default = Self::default();
        let mut shape = Map::new();
        let mut put = |key: &str, value: Value| shape.insert(key.to_owned(), value);
        let size = |bytes: u64| Value::from(ByteSize(bytes).to_string());
        if self.max_error != default.max_error {
            put("max_error", size(self.max_error));
        }
        if self.resources {
            put("resources", true.into());
        }
        if !self.handle_argument_tools.is_empty() {
            put("handle_arguments", self.handle_argument_tools.clone().into());
        }
        if self.bare_handles {
            put("bare_handles", true.into());
        }
        if self.max_argument != default.max_argument {
            put("max_argument", size(self.max_argument));
        }
        let mut listen = Map::new();
        if let Some(token_env) = &self.listen.token_env {
            listen.insert("token_env".into(), token_env.clone().into());
        }
        if !self.listen.hosts.is_empty() {
            listen.insert("hosts".into(), self.listen.hosts.clone().into());
        }
        if self.listen.max_body != default.listen.max_body {
            listen.insert("max_body".into(), size(self.listen.max_body));
        }
        if self.listen.max_sessions != default.listen.max_sessions {
            listen.insert("max_sessions".into(), self.listen.max_sessions.into());
        }
        if !listen.is_empty() {
            put("listen", listen.into());
        }
        let servers: Map<String, Value> =
            self.servers.iter().map(|server| (server.name.clone(), server.shape())).collect();
        if !servers.is_empty() {
            put("servers", servers.into());
        }
        shape
    }
}

impl McpServer {
    fn shape(&self) -> Value {
        let pairs = |pairs: &[(String, String)]| -> Map<String, Value> {
            pairs.iter().map(|(key, value)| (key.clone(), value.clone().into())).collect()
        };
        let mut shape = Map::new();
        match &self.transport {
            McpTransport::Command { command, args, env, cwd } => {
                shape.insert("command".into(), command.clone().into());
                if !args.is_empty() {
                    shape.insert("args".into(), args.clone().into());
                }
                if let Some(cwd) = cwd {
                    shape.insert("cwd".into(), json!(cwd.to_string_lossy()));
                }
                if !env.is_empty() {
                    shape.insert("env".into(), pairs(env).into());
                }
            }
            McpTransport::Url { url, token_env, headers } => {
                shape.insert("url".into(), url.clone().into());
                if let Some(token_env) = token_env {
                    shape.insert("token_env".into(), token_env.clone().into());
                }
                if !headers.is_empty() {
                    shape.insert("headers".into(), pairs(headers).into());
                }
            }
        }
        shape.into()
    }
}

fn text(said: &Said<String>) -> Option<String> {
    said.given().map(|given| given.value.clone())
}

fn pairs(given: &Option<Given<Vec<(String, String)>>>) -> Vec<(String, String)> {
    given.as_ref().map(|given| given.value.clone()).unwrap_or_default()
}

fn values(said: &Said<Vec<Given<String>>>) -> Vec<String> {
    let given = said.given().map_or(&[][..], |given| &given.value);
    given.iter().map(|text| text.value.clone()).collect()
}
