//! One server of a client's configuration: what to change so that it goes through the proxy, and
//! so that it no longer does. Decided on plain values, whatever the file is written in.

use std::collections::BTreeMap;

use overspill_mcp::shown;
use serde_json::{Map, Value};

use super::Client;
use super::left::Left;

/// The headers of a server's requests, one `Name: value` a line: what is in the environment is seen by
/// the user alone, what is on a command line by everyone on the machine.
pub(crate) const HEADERS: &str = "OVERSPILL_MCP_HEADERS";

/// The address of a server, where it may hold a key.
pub(crate) const URL: &str = "OVERSPILL_MCP_URL";

/// Under which keys clients put an address of a server that speaks streamable HTTP.
const URL_KEYS: [&str; 3] = ["url", "httpUrl", "serverUrl"];

/// Under which keys clients put request headers.
const HEADER_KEYS: [&str; 2] = ["headers", "http_headers"];

/// Under which key Codex has the name of the variable that holds a server's token, and under which the
/// names of those it hands on to a server that it starts.
const TOKEN_VARIABLE: &str = "bearer_token_env_var";
const HANDED_ON: &str = "env_vars";

/// What a client does for a server it speaks HTTP with, and cannot do through a proxy that it starts.
const CLIENT_LOGINS: [&str; 4] = ["oauth", "auth", "authProviderType", "oauth_resource"];

/// From what a client makes request headers by itself: a program of Claude Code's, variables of Codex's.
const MADE_HEADERS: [&str; 2] = ["headersHelper", "env_http_headers"];

/// Under which keys clients list the tools of a server that the model may see.
const OFFERED: [&str; 2] = ["enabled_tools", "includeTools"];

/// Under which keys clients list the tools of a server that are called without a question.
const APPROVED: [&str; 2] = ["alwaysAllow", "autoApprove"];

/// How the proxy is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) program: String,
    /// What stands between `mcp` and the server.
    pub(crate) options: Vec<String>,
}

/// A change to one server, small enough to leave all else of it as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Edit {
    /// These members stand where `key` stood.
    Replace { key: String, with: Vec<(String, Value)> },
    /// These words stand before what is in the array `key`.
    Prepend { key: String, words: Vec<String> },
    /// The first words of the array `key` are gone.
    DropFirst { key: String, count: usize },
    /// A member of the object `key`, which exists.
    SetIn { key: String, name: String, value: String },
    /// A member of the object `key` is gone, and the object too if it held nothing else.
    RemoveFrom { key: String, name: String },
}

/// What the person must know or do about a server that was brought behind the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// It is reached without a word of who asks.
    MayLogIn,
    /// Its tools are those on this list alone.
    Offered(&'static str),
    /// The tools on this list alone are called without a question.
    Approved(&'static str),
    /// Its address stands under this key, and which one the client reads is not known.
    Key(&'static str),
    /// It is started by words that no program is called by.
    Words,
}

impl Note {
    /// In words, about the server of that name.
    pub(crate) fn of(self, name: &str) -> String {
        match self {
            Self::MayLogIn => format!(
                "if the client logs in at {name} through a browser, undo with unwrap and use \
                 --except {name:?}"
            ),
            Self::Offered(key) => {
                format!("add read_tool_result to its {key}, or the model cannot read back")
            }
            Self::Words => {
                "its command is several words, and no program has such a name: arguments \
                            stand in args, each by itself"
                    .to_owned()
            }
            Self::Key(key) => {
                let others: Vec<_> =
                    URL_KEYS.iter().filter(|it| **it != key).map(|it| format!("{it:?}")).collect();
                format!(
                    "check the key: its address is now under {key:?}, and some clients read {}",
                    others.join(" or ")
                )
            }
            Self::Approved(key) => format!(
                "add read_tool_result to its {key}, or the client asks each time the model reads back"
            ),
        }
    }
}

/// What to note about the key under which a server that is behind the proxy no more has its address.
pub(crate) fn note_of_key(
    entry: &Map<String, Value>,
    before: Option<&Map<String, Value>>,
    client: Client,
) -> Option<Note> {
    let is_known = client != Client::Unknown || before.is_some_and(|it| url_of(it).is_some());
    let (key, _) = url_of(entry).filter(|_| !is_known && !entry.contains_key("command"))?;
    Some(Note::Key(key))
}

/// What to note about a server, as it is before the proxy stands before it.
///
/// A client may give the words of its command to a shell; the proxy starts a program.
pub(crate) fn notes(entry: &Map<String, Value>, is_program: impl Fn(&str) -> bool) -> Vec<Note> {
    let command = entry.get("command").and_then(Value::as_str).unwrap_or_default();
    // A client may fill it in.
    let is_words = command.trim().contains(char::is_whitespace) && !command.contains('$');
    let words = (is_words && !is_program(command)).then_some(Note::Words);
    let is_remote = !entry.contains_key("command") && url_of(entry).is_some();
    let says_who = |key: &&str| match entry.get(*key) {
        Some(Value::Object(headers)) => !headers.is_empty(),
        other => other.is_some(),
    };
    let may_log_in = is_remote && !HEADER_KEYS.iter().chain([&TOKEN_VARIABLE]).any(says_who);
    let lists = |key: &&str| {
        let tools = entry.get(*key).and_then(Value::as_array);
        tools.is_some_and(|tools| {
            !tools.is_empty() && tools.iter().all(|tool| tool != "read_tool_result" && tool != "*")
        })
    };
    let offered = OFFERED.into_iter().filter(lists).map(Note::Offered);
    let approved = APPROVED.into_iter().filter(lists).map(Note::Approved);
    let first = words.into_iter().chain(may_log_in.then_some(Note::MayLogIn));
    first.chain(offered).chain(approved).collect()
}

/// What brings a server behind the proxy.
pub(crate) fn wrap(entry: &Map<String, Value>, proxy: &Proxy) -> Result<Vec<Edit>, Left> {
    if let Some(call) = Call::of(entry, std::slice::from_ref(&proxy.program)) {
        return Err(match call {
            Call { has_server: false, .. } => Left::OfItsOwn,
            Call { is_certain: false, .. } => Left::Alike,
            Call { is_launched: false, .. } if !is_called_by(entry, proxy) => {
                Left::Otherwise(proxy.line())
            }
            _ => Left::Already,
        });
    }
    if let Some(command) = entry.get("command") {
        let command = command.as_str().ok_or_else(|| other_kind("command", command, "a text"))?;
        let mut words = proxy.words();
        words.extend(["--".to_owned(), command.to_owned()]);
        let program = ("command".to_owned(), Value::from(proxy.program.as_str()));
        return match entry.get("args") {
            Some(Value::Array(args)) if args.iter().all(Value::is_string) => Ok(vec![
                Edit::replace("command", vec![program]),
                Edit::Prepend { key: "args".to_owned(), words },
            ]),
            Some(Value::Array(_)) => Err(Left::NotText("args")),
            Some(other) => Err(other_kind("args", other, "a list")),
            None => {
                Ok(vec![Edit::replace("command", vec![program, ("args".to_owned(), words.into())])])
            }
        };
    }
    let no_address = || {
        let other = URL_KEYS.iter().find_map(|&key| Some((key, entry.get(key)?)));
        other.map_or(Left::NoServer, |(key, value)| other_kind(key, value, "a text"))
    };
    let (key, url) = url_of(entry).ok_or_else(no_address)?;
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    let is_other = |scheme: &String| !["http", "https"].contains(&scheme.as_str());
    // A client may fill it in.
    if let Some(scheme) = scheme.filter(|scheme| is_other(scheme) && !scheme.contains('$')) {
        return Err(Left::NoHttp(scheme));
    }
    let kind = entry.get("type").and_then(Value::as_str);
    let is_sse = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("sse"));
    // Where the kind is not said, the address of such a server ends by custom in its name.
    let path = url.split(['?', '#']).next().unwrap_or_default();
    if is_sse || (kind.is_none() && path.trim_end_matches('/').ends_with("/sse")) {
        return Err(Left::ServerSentEvents);
    }
    if let Some(login) = CLIENT_LOGINS.iter().find(|&&login| entry.contains_key(login)) {
        return Err(Left::ClientLogin(login));
    }
    if let Some(made_from) = MADE_HEADERS.iter().find(|&&key| entry.contains_key(key)) {
        return Err(Left::ClientHeaders(made_from));
    }

    let mut words = proxy.words();
    let mut variables = Map::new();
    if may_hold_a_key(url) {
        variables.insert(URL.to_owned(), url.into());
    } else {
        words.extend(["--url".to_owned(), url.to_owned()]);
    }
    let headers = HEADER_KEYS.iter().find_map(|&key| Some((key, entry.get(key)?)));
    if let Some((key, headers)) = headers {
        let lines = header_lines(key, headers)?;
        if !lines.is_empty() {
            variables.insert(HEADERS.to_owned(), lines.into());
        }
    }

    let mut edits = Vec::new();
    if let Some(token) = entry.get(TOKEN_VARIABLE) {
        let name = token.as_str().ok_or_else(|| other_kind(TOKEN_VARIABLE, token, "a text"))?;
        let name = name.to_owned();
        words.splice(1..1, ["--token-env".to_owned(), name.clone()]);
        let mut handed_on = Vec::new();
        match entry.get(HANDED_ON) {
            Some(Value::Array(_)) => {
                edits.push(Edit::Prepend { key: HANDED_ON.to_owned(), words: vec![name] });
            }
            Some(other) => return Err(other_kind(HANDED_ON, other, "a list")),
            None => handed_on.push((HANDED_ON.to_owned(), vec![name].into())),
        }
        edits.push(Edit::replace(TOKEN_VARIABLE, handed_on));
    }

    let program = Value::from(proxy.program.as_str());
    let mut server = vec![("command".to_owned(), program), ("args".to_owned(), words.into())];
    if kind.is_some() {
        edits.push(Edit::replace("type", vec![("type".to_owned(), "stdio".into())]));
    }
    for key in headers.map(|(key, _)| key).into_iter().chain(["args"]) {
        if entry.contains_key(key) {
            edits.push(Edit::replace(key, Vec::new()));
        }
    }
    match entry.get("env") {
        Some(Value::Object(env)) if [URL, HEADERS].iter().any(|name| env.contains_key(*name)) => {
            return Err(Left::OwnVariable);
        }
        Some(Value::Object(_)) => edits.extend(variables.into_iter().map(|(name, value)| {
            let value = value.as_str().unwrap_or_default().to_owned();
            Edit::SetIn { key: "env".to_owned(), name, value }
        })),
        Some(other) => return Err(other_kind("env", other, "an object")),
        None if variables.is_empty() => {}
        None => server.push(("env".to_owned(), variables.into())),
    }
    edits.push(Edit::replace(key, server));
    Ok(edits)
}

/// What takes the proxy away from before a server; nothing if it is not behind one.
///
/// `programs` are names of this program that are not known by their look.
/// `before` is the server as it was before it was wrapped, where that is known: it says under which
/// keys its client has what the proxy has in its own way. Where it is not, `client` says it.
pub(crate) fn unwrap(
    entry: &Map<String, Value>,
    before: Option<&Map<String, Value>>,
    client: Client,
    programs: &[String],
) -> Option<Result<Vec<Edit>, Left>> {
    let call = Call::of(entry, programs).filter(|call| call.has_server)?;
    if call.is_launched {
        return Some(Err(Left::Launched));
    }
    if !call.is_certain && before.is_none() {
        return Some(Err(Left::Alike));
    }
    let words = words(entry)?;
    if let Some(end) = words.iter().position(|word| *word == "--") {
        let command = words.get(end + 1)?;
        let command = vec![("command".to_owned(), Value::from(*command))];
        let mut edits = vec![Edit::replace("command", command)];
        if words.len() == end + 2 {
            edits.push(Edit::replace("args", Vec::new()));
        } else {
            edits.push(Edit::DropFirst { key: "args".to_owned(), count: end + 2 });
        }
        return Some(Ok(edits));
    }

    let empty = Map::new();
    let env = entry.get("env").and_then(Value::as_object).unwrap_or(&empty);
    let variable = |name: &str| env.get(name).and_then(Value::as_str);
    let url = option(&words, "--url").or_else(|| variable(URL))?;
    let key_of = |keys: &[&'static str], usual: &'static str| {
        let known = before.and_then(|it| keys.iter().find(|&&key| it.contains_key(key)));
        (*known.unwrap_or(&usual)).to_owned()
    };
    if client == Client::ClaudeDesktop && before.is_none() {
        return Some(Err(Left::NoAddresses));
    }
    let mut server = Vec::new();
    let mut edits = Vec::new();
    let kind = before.and_then(|it| it.get("type")).and_then(Value::as_str);
    if entry.contains_key("type") {
        let kind = kind.unwrap_or("http");
        edits.push(Edit::replace("type", vec![("type".to_owned(), kind.into())]));
    } else if client == Client::ClaudeCode && before.is_none() {
        // Without it, an address is not looked at.
        server.push(("type".to_owned(), "http".into()));
    }
    server.push((key_of(&URL_KEYS, client.url_key()), Value::from(url)));

    let headers_key = key_of(&HEADER_KEYS, client.headers_key());
    let beside = entry.get(&headers_key).and_then(Value::as_object);
    let mut headers = beside.cloned().unwrap_or_default();
    let mut own = vec![HEADERS, URL];
    if let Some(lines) = variable(HEADERS) {
        let lines = lines.lines().filter_map(|line| line.split_once(": "));
        headers.extend(lines.map(|(name, it)| (name.to_owned(), it.into())));
    }
    if let Some(name) = option(&words, "--token-env") {
        let knows_names = client == Client::Codex;
        match variable(name) {
            _ if before.is_some_and(|it| it.contains_key(TOKEN_VARIABLE)) => {
                server.push((TOKEN_VARIABLE.to_owned(), name.into()));
            }
            Some(token) => {
                headers.insert("Authorization".to_owned(), format!("Bearer {token}").into());
                own.push(name);
            }
            None if knows_names => server.push((TOKEN_VARIABLE.to_owned(), name.into())),
            None => return Some(Err(Left::TokenElsewhere(name.to_owned()))),
        }
        let handed_on = entry.get(HANDED_ON).and_then(Value::as_array);
        match handed_on.filter(|names| names.first().is_some_and(|first| first == name)) {
            Some(names) if names.len() == 1 => edits.push(Edit::replace(HANDED_ON, Vec::new())),
            Some(_) => edits.push(Edit::DropFirst { key: HANDED_ON.to_owned(), count: 1 }),
            None => {}
        }
    }
    if !headers.is_empty() || env.contains_key(HEADERS) {
        server.push((headers_key, headers.into()));
    }
    // What stood there beside the command, where no client looks at it.
    for (key, _) in server.iter().filter(|(key, _)| entry.contains_key(key)) {
        edits.push(Edit::replace(key, Vec::new()));
    }
    for name in own.into_iter().filter(|name| env.contains_key(*name)) {
        edits.push(Edit::RemoveFrom { key: "env".to_owned(), name: name.to_owned() });
    }
    edits.push(Edit::replace("args", Vec::new()));
    edits.push(Edit::replace("command", server));
    Some(Ok(edits))
}

/// Whether two entries say the same of a server: what is empty says nothing.
pub(crate) fn means_the_same(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    let says_something = |(_, value): &(&String, &Value)| match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    };
    let sorted = |map: &Map<String, Value>| -> BTreeMap<String, Value> {
        let said = map.iter().filter(says_something);
        said.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    sorted(a) == sorted(b)
}

/// How a server is started or reached, on one line, without the values of headers and variables, nor
/// what may be a key in an address.
pub(crate) fn summary(entry: &Map<String, Value>) -> String {
    let mut line = match (entry.get("command").and_then(Value::as_str), words(entry)) {
        (Some(command), args) => {
            let words = std::iter::once(command).chain(args.unwrap_or_default());
            words.map(quoted).collect::<Vec<_>>().join(" ")
        }
        (None, _) => match url_of(entry) {
            Some((_, url)) => public_part(url),
            None => String::new(),
        },
    };
    for (what, keys) in [("headers", &HEADER_KEYS[..]), ("env", &["env"])] {
        let members = keys.iter().find_map(|&key| entry.get(key)?.as_object());
        if let Some(members) = members.filter(|members| !members.is_empty()) {
            let names: Vec<_> = members.keys().map(String::as_str).collect();
            line.push_str(&format!("  ({what}: {})", names.join(", ")));
        }
    }
    line
}

/// Whether a server that goes through the proxy calls it by that program with those options.
fn is_called_by(entry: &Map<String, Value>, proxy: &Proxy) -> bool {
    let words = words(entry).unwrap_or_default();
    let own = words.split(|word| *word == "--").next().unwrap_or_default();
    entry.get("command").is_some_and(|command| *command == proxy.program)
        && proxy.options.chunks(2).all(|pair| match pair {
            [name, value] => option(own, name) == Some(value),
            _ => true,
        })
}

impl Proxy {
    fn line(&self) -> String {
        let words = std::iter::once(self.program.clone()).chain(self.words());
        words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
    }

    fn words(&self) -> Vec<String> {
        std::iter::once("mcp".to_owned()).chain(self.options.iter().cloned()).collect()
    }
}

impl Edit {
    fn replace(key: &str, with: Vec<(String, Value)>) -> Self {
        Self::Replace { key: key.to_owned(), with }
    }
}

/// A server that is started by `overspill mcp`.
struct Call {
    /// Whether the line says which server stands behind the proxy.
    has_server: bool,
    /// Whether it is the proxy beyond doubt: others may have an `mcp --url` as well.
    is_certain: bool,
    /// Whether it is another program, such as `npx` or `env`, that starts the proxy.
    is_launched: bool,
}

impl Call {
    /// Recognises the proxy by its name, and by how it is called where it goes by another: a link, a
    /// version in its name, and a package's own folder are all usual.
    fn of(entry: &Map<String, Value>, programs: &[String]) -> Option<Self> {
        let command = entry.get("command")?.as_str()?;
        let words = words(entry)?;
        let env = entry.get("env").and_then(Value::as_object);
        let has_variable = |name: &str| env.is_some_and(|env| env.contains_key(name));
        let has_server = |words: &[&str]| {
            let end = words.iter().position(|word| *word == "--").unwrap_or(words.len());
            let is_command = end + 1 < words.len();
            (is_command, is_command || has_variable(URL) || option(words, "--url").is_some())
        };

        let own = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let (is_command, has_server_behind) = has_server(&words);
        let is_named = is_overspill(command) || programs.iter().any(|program| program == command);
        let has_variables = has_variable(URL) || has_variable(HEADERS);
        if (is_named || has_variables) && is_mcp(&words[..own]) {
            let has_server = has_server_behind;
            return Some(Self { has_server, is_certain: true, is_launched: false });
        }
        let is_called_alike = words.first() == Some(&"mcp")
            && words.get(1).is_some_and(|word| word.starts_with("--"))
            && has_server_behind;
        if is_called_alike {
            return Some(Self { has_server: true, is_certain: is_command, is_launched: false });
        }
        let launched = words.windows(2).position(|it| is_overspill(it[0]) && it[1] == "mcp")?;
        let (_, has_server) = has_server(&words[launched..]);
        Some(Self { has_server, is_certain: true, is_launched: true })
    }
}

/// Whether words after the program's name are those of `overspill mcp`: before it there may be global
/// options.
fn is_mcp(words: &[&str]) -> bool {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "mcp" => return true,
            "--json" => {}
            "--config" | "--store" => {
                words.next();
            }
            word if word.starts_with("--config=") || word.starts_with("--store=") => {}
            _ => return false,
        }
    }
    false
}

fn quoted(word: &str) -> String {
    match word.is_empty() || word.contains(char::is_whitespace) {
        true => format!("{word:?}"),
        false => word.to_owned(),
    }
}

/// Whether a program is overspill by its name, whatever version or ending is written behind it.
fn is_overspill(program: &str) -> bool {
    // As Windows spells it, too.
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
    let rest = name.strip_prefix("overspill");
    rest.is_some_and(|rest| !rest.starts_with(|it: char| it.is_alphanumeric() || it == '_'))
}

fn words(entry: &Map<String, Value>) -> Option<Vec<&str>> {
    entry.get("args")?.as_array()?.iter().map(Value::as_str).collect()
}

fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    let after = words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
    let joined = || words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    after.copied().or_else(joined)
}

/// The address of a server, and under which key it stands.
fn url_of(entry: &Map<String, Value>) -> Option<(&'static str, &str)> {
    URL_KEYS.iter().find_map(|&key| Some((key, entry.get(key)?.as_str()?)))
}

/// A query, a user, a variable that the client fills in or a part of the path that is no short word may
/// be a key.
fn may_hold_a_key(url: &str) -> bool {
    shown(url) != url
}

/// An address without what may be a key.
fn public_part(url: &str) -> String {
    match shown(url) {
        shown if shown == url || shown.contains('…') => shown,
        shown => format!("{shown}…"),
    }
}

/// Headers, one a line.
fn header_lines(key: &'static str, headers: &Value) -> Result<String, Left> {
    let headers = headers.as_object().ok_or_else(|| other_kind(key, headers, "an object"))?;
    let lines = headers.iter().map(|(name, value)| {
        let line = format!("{name}: {}", value.as_str().ok_or(Left::NotText(key))?);
        let has = match line.contains(['\n', '\r']) {
            true => Some("a line break"),
            false => name.contains(':').then_some("a colon in its name"),
        };
        has.map_or(Ok(line), |has| Err(Left::HeaderLine { name: name.clone(), has }))
    });
    Ok(lines.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

fn other_kind(key: &'static str, value: &Value, wanted: &'static str) -> Left {
    let is = match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Left::OtherKind { key, is, wanted }
}
