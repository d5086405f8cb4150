use proptest::prelude::*;
use serde_json::json;

use super::*;

fn proxy() -> Proxy {
    Proxy { program: "/opt/overspill".to_owned(), options: Vec::new() }
}

fn wrapped(syntax: Syntax, text: &str) -> String {
    wrap(syntax, text, &proxy(), |_| true, |_| true).unwrap().text
}

/// Who reads it, where nothing is known but how it is written.
fn client(syntax: Syntax) -> Client {
    match syntax {
        Syntax::Json => Client::Unknown,
        Syntax::Toml => Client::Codex,
    }
}

/// What a configuration becomes; it must come back, with its copy and in its meaning without.
#[track_caller]
fn check(syntax: Syntax, before: &str, after: &str) {
    let got = wrapped(syntax, before);
    assert_eq!(got, after, "got:\n{got}");
    assert_eq!(unwrap(syntax, client(syntax), &got, Some(before), &[]).unwrap().text, before);
    let entries = |text: &str| -> Vec<_> {
        Document::parse(syntax, text).unwrap().servers().into_iter().map(|it| it.entry).collect()
    };
    let undone = unwrap(syntax, client(syntax), &got, None, &[]).unwrap().text;
    for (undone, before) in entries(&undone).iter().zip(entries(before)) {
        assert!(entry::means_the_same(undone, &before), "{undone:?} from {before:?}");
    }
}

#[test]
fn claude_code() {
    let before = r#"{
  "mcpServers": {
    "files": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"],
      "env": { "DEBUG": "1" }
    },
    "git": {
      "type": "stdio",
      "command": "/usr/bin/mcp-server-git"
    },
    "tickets": {
      "type": "http",
      "url": "https://tickets.example.com/mcp",
      "headers": { "Authorization": "Bearer ${TOKEN}", "X-Team": "a\"b" }
    }
  },
  "other": [1.50, 2e3]
}
"#;
    let after = r#"{
  "mcpServers": {
    "files": {
      "command": "/opt/overspill",
      "args": ["mcp", "--", "npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv"],
      "env": { "DEBUG": "1" }
    },
    "git": {
      "type": "stdio",
      "command": "/opt/overspill",
      "args": ["mcp", "--", "/usr/bin/mcp-server-git"]
    },
    "tickets": {
      "type": "stdio",
      "command": "/opt/overspill",
      "args": ["mcp", "--url", "https://tickets.example.com/mcp"],
      "env": {
        "OVERSPILL_MCP_HEADERS": "Authorization: Bearer ${TOKEN}\nX-Team: a\"b"
      }
    }
  },
  "other": [1.50, 2e3]
}
"#;
    check(Syntax::Json, before, after);
}

#[test]
fn comments_and_trailing_commas_of_vs_code() {
    let before = "{\r\n\t// what we use\r\n\t\"inputs\": [],\r\n\t\"servers\": {\r\n\t\t\"files\": {\r\n\
        \t\t\t\"command\": \"npx\", /* node */\r\n\t\t\t\"args\": [\r\n\t\t\t\t\"-y\", // yes\r\n\
        \t\t\t\t\"files\",\r\n\t\t\t],\r\n\t\t},\r\n\t\t\"web\": { \"url\": \"https://a.example/mcp\" }, // far\r\n\t},\r\n}\r\n";
    let after = "{\r\n\t// what we use\r\n\t\"inputs\": [],\r\n\t\"servers\": {\r\n\t\t\"files\": {\r\n\
        \t\t\t\"command\": \"/opt/overspill\", /* node */\r\n\t\t\t\"args\": [\r\n\t\t\t\t\"mcp\",\r\n\
        \t\t\t\t\"--\",\r\n\t\t\t\t\"npx\",\r\n\t\t\t\t\"-y\", // yes\r\n\
        \t\t\t\t\"files\",\r\n\t\t\t],\r\n\t\t},\r\n\t\t\"web\": { \"command\": \"/opt/overspill\", \
        \"args\": [\"mcp\", \"--url\", \"https://a.example/mcp\"] }, // far\r\n\t},\r\n}\r\n";
    check(Syntax::Json, before, after);
}

#[test]
fn what_is_on_one_line_stays_there() {
    for (before, after) in [
        (r#"{"command":"b"}"#, r#"{"command":"/opt/overspill", "args": ["mcp", "--", "b"]}"#),
        (
            r#"{"command":"b","env":{"A":"b"}}"#,
            r#"{"command":"/opt/overspill","args": ["mcp", "--", "b"],"env":{"A":"b"}}"#,
        ),
        (
            r#"{ "type": "http", "url": "https://a.example/", "headers": { "A": "b" } }"#,
            r#"{ "type": "stdio", "command": "/opt/overspill", "args": ["mcp", "--url", "https://a.example/"], "env": { "OVERSPILL_MCP_HEADERS": "A: b" } }"#,
        ),
        (
            "{\n  \"httpUrl\": \"https://a.example/?k\",\n  \"env\": { \"A\": \"b\" }\n}",
            "{\n  \"command\": \"/opt/overspill\",\n  \"args\": [\"mcp\"],\n  \
             \"env\": { \"A\": \"b\", \"OVERSPILL_MCP_URL\": \"https://a.example/?k\" }\n}",
        ),
    ] {
        for (start, end) in [
            ("{\"mcpServers\":{\"a\":", "}}"),
            (
                "{\n  \"mcpServers\": {\n    \"z\": {\"url\": \"sse\", \"type\": \"sse\"},\n    \"a\": ",
                "\n  }\n}\n",
            ),
        ] {
            if before.contains('\n') && !start.contains('\n') {
                continue;
            }
            let [before, after] = [before, after].map(|it| it.replace('\n', "\n    "));
            let in_file = |entry: &str| format!("{start}{entry}{end}");
            let got = wrapped(Syntax::Json, &in_file(&before));
            assert_eq!(got, in_file(&after), "got:\n{got}");
            let undone = unwrap(Syntax::Json, Client::Unknown, &got, None, &[]).unwrap().text;
            assert_eq!(undone.lines().count(), in_file(&before).lines().count(), "{undone}");
            let undone = unwrap(Syntax::Json, Client::Unknown, &got, Some(&in_file(&before)), &[]);
            assert_eq!(undone.unwrap().text, in_file(&before));
        }
    }
}

#[test]
fn codex() {
    let before = r#"model = "gpt" # the model

[mcp_servers.files] # ours
command = "npx"  # node
args = ["-y", "files"]

[mcp_servers.files.env]
DEBUG = "1"

[mcp_servers.git]
command = "git-server"
startup_timeout_sec = 20

[mcp_servers.web]
# ask for a key
url = "https://a.example/mcp" # far
http_headers = { "X-Key" = "k" }
tool_timeout_sec = 60.5

[mcp_servers.desk]
url = "https://desk.example/mcp"
bearer_token_env_var = "DESK_TOKEN"

[tui]
notifications = true
"#;
    let after = r#"model = "gpt" # the model

[mcp_servers.files] # ours
command = "/opt/overspill"  # node
args = ["mcp", "--", "npx", "-y", "files"]

[mcp_servers.files.env]
DEBUG = "1"

[mcp_servers.git]
command = "/opt/overspill"
args = ["mcp", "--", "git-server"]
startup_timeout_sec = 20

[mcp_servers.web]
# ask for a key
command = "/opt/overspill" # far
args = ["mcp", "--url", "https://a.example/mcp"]
env = { OVERSPILL_MCP_HEADERS = "X-Key: k" }
tool_timeout_sec = 60.5

[mcp_servers.desk]
command = "/opt/overspill"
args = ["mcp", "--token-env", "DESK_TOKEN", "--url", "https://desk.example/mcp"]
env_vars = ["DESK_TOKEN"]

[tui]
notifications = true
"#;
    check(Syntax::Toml, before, after);
}

#[test]
fn every_table_of_servers_is_found() {
    let server = r#"{"command":"a"}"#;
    let text = format!(
        r#"{{"mcpServers":{{"one":{server}}},"mcp":{{"servers":{{"two":{server}}}}},
        "context_servers":{{"three":{server}}},"projects":{{"/p":{{"mcpServers":{{"four":{server}}}}}}}}}"#
    );
    let names = names(Syntax::Json, &text).unwrap();
    assert_eq!(names, ["one", "two", "three", "/p: four"]);
    assert_eq!(names.len(), wrapped(Syntax::Json, &text).matches("/opt/overspill").count());
}

#[test]
fn what_may_be_a_key_is_on_no_command_line_and_in_no_message() {
    for url in [
        "https://a.example/mcp?key=s3cret",
        "https://u:s3cret@a.example/mcp",
        "https://a.example/${s3cret}",
        "https://a.example/mcp/s/5b1f-s3cret-2c77d0/mcp",
    ] {
        let text = json!({"mcpServers": {"a": {
            "url": url, "headers": {"Authorization": "Bearer s3cret"}, "env": {"KEY": "s3cret"},
        }}});
        let changed = wrap(Syntax::Json, &text.to_string(), &proxy(), |_| true, |_| true).unwrap();
        let value: serde_json::Value = serde_json::from_str(&changed.text).unwrap();
        let entry = &value["mcpServers"]["a"];
        assert_eq!(entry["args"], json!(["mcp"]));
        assert_eq!(entry["env"]["OVERSPILL_MCP_URL"], url);
        assert_eq!(entry["env"]["OVERSPILL_MCP_HEADERS"], "Authorization: Bearer s3cret");
        assert!(!format!("{:?}", changed.servers).contains("s3cret"), "{:?}", changed.servers);
        let undone = unwrap(Syntax::Json, Client::Unknown, &changed.text, None, &[]).unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(&undone.text).unwrap(), text);
        assert!(!format!("{:?}", undone.servers).contains("s3cret"), "{:?}", undone.servers);
    }
}

#[test]
fn the_proxy_is_known_by_its_subcommand() {
    for (args, is_proxy) in [
        (json!(["mcp", "--", "a"]), true),
        (json!(["--store", "mcp", "mcp", "--url", "https://a.example/"]), true),
        (json!(["--json", "--config=c.toml", "mcp", "--", "a"]), true),
        (json!(["--url", "mcp", "a"]), false),
        (json!(["run", "--", "mcp", "--", "a"]), false),
    ] {
        let entry = json!({"command": "overspill", "args": args});
        let entry = entry.as_object().unwrap();
        let is_unwrapped = entry::unwrap(entry, None, Client::Unknown, &[]).is_some();
        assert_eq!(is_unwrapped, is_proxy, "{args}");
        assert_eq!(entry::wrap(entry, &proxy()).is_ok(), !is_proxy, "{args}");
    }
}

#[test]
fn what_cannot_go_through_the_proxy_stays_and_it_is_said_why() {
    let otherwise = || Left::Otherwise("/opt/overspill mcp".to_owned());
    let of_kind = |key, is, wanted| Left::OtherKind { key, is, wanted };
    let cases = [
        (json!({"type": "sse", "url": "https://a.example/"}), Left::ServerSentEvents),
        (json!({"type": "SSE", "url": "https://a.example/"}), Left::ServerSentEvents),
        (json!({"type": "ws", "url": "ws://a.example/"}), Left::NoHttp("ws".to_owned())),
        (json!({"url": "WSS://a.example/"}), Left::NoHttp("wss".to_owned())),
        (json!({"command": "a", "args": ["--port", 80]}), Left::NotText("args")),
        (json!({"command": "a", "args": [null]}), Left::NotText("args")),
        (json!({"url": "https://a.example/sse"}), Left::ServerSentEvents),
        (json!({"url": "https://a.example/", "oauth": {}}), Left::ClientLogin("oauth")),
        (json!({"command": 1}), of_kind("command", "a number", "a text")),
        (json!({"command": {"path": "a"}}), of_kind("command", "an object", "a text")),
        (json!({"command": ["npx", "a"]}), of_kind("command", "a list", "a text")),
        (json!({"command": null}), of_kind("command", "null", "a text")),
        (json!({"httpUrl": ["a"]}), of_kind("httpUrl", "a list", "a text")),
        (json!({"disabled": true}), Left::NoServer),
        (
            json!({"url": "https://a.example/mcp", "env": {"OVERSPILL_MCP_URL": "b"}}),
            Left::OwnVariable,
        ),
        (json!({"command": "a", "args": "b"}), of_kind("args", "a text", "a list")),
        (json!({"url": "https://a.example/", "headers": {"a": 1}}), Left::NotText("headers")),
        (
            json!({"url": "https://a.example/", "headers": {"a": "b\nc: d"}}),
            Left::HeaderLine { name: "a".to_owned(), has: "a line break" },
        ),
        (
            json!({"url": "https://a.example/", "headers": {"a:b": "c"}}),
            Left::HeaderLine { name: "a:b".to_owned(), has: "a colon in its name" },
        ),
        (
            json!({"url": "https://a.example/", "headers": "a: b"}),
            of_kind("headers", "a text", "an object"),
        ),
        (
            json!({"url": "https://a.example/?a=b", "env": []}),
            of_kind("env", "a list", "an object"),
        ),
        (
            json!({"url": "https://a.example/", "headersHelper": "x"}),
            Left::ClientHeaders("headersHelper"),
        ),
        (
            json!({"url": "https://a.example/", "env_http_headers": {"A": "B"}}),
            Left::ClientHeaders("env_http_headers"),
        ),
        (json!({"command": "/x/overspill", "args": ["mcp"]}), Left::OfItsOwn),
        (json!({"command": "overspill.exe", "args": ["mcp", "--", "a"]}), otherwise()),
        (json!({"command": "overspill", "args": ["mcp", "--store", "s", "--url=u"]}), otherwise()),
    ];
    let more = [
        (json!({"command": "/opt/x/overspill-bin", "args": ["mcp", "--", "a"]}), otherwise()),
        (json!({"command": "overspill-0.1.0", "args": ["mcp", "--", "a"]}), otherwise()),
        (json!({"command": "/bin/ovs", "args": ["mcp", "--store", "s", "--", "a"]}), otherwise()),
        (
            json!({"command": "ovs", "args": ["mcp"], "env": {"OVERSPILL_MCP_URL": "u"}}),
            otherwise(),
        ),
        (json!({"command": "ovs", "args": ["mcp", "--url", "u"]}), Left::Alike),
        (json!({"command": "npx", "args": ["overspill", "mcp", "--", "a"]}), Left::Already),
        (json!({"command": "env", "args": ["A=b", "overspill", "mcp", "--", "a"]}), Left::Already),
        (json!({"command": "npx", "args": ["-y", "overspill", "mcp"]}), Left::OfItsOwn),
    ];
    for (entry, why) in cases.into_iter().chain(more) {
        let text = json!({"mcpServers": {"a": entry}}).to_string();
        let changed = wrap(Syntax::Json, &text, &proxy(), |_| true, |_| true).unwrap();
        assert_eq!(changed.text, text);
        assert_eq!(changed.servers[0].after, Err(why));
    }
    let twice = r#"{"mcpServers":{"a":{"command":"b","command":"c"}}}"#;
    let changed = wrap(Syntax::Json, twice, &proxy(), |_| true, |_| true).unwrap();
    assert_eq!(changed.servers[0].after, Err(Left::Twice("command".to_owned())));
}

/// The entry that the guide has people write by hand, in each client's file and table.
#[test]
fn a_token_comes_back_in_the_way_its_client_has() {
    let url = "https://a.example/mcp";
    let token = json!({"Authorization": "Bearer s3cret"});
    let usual = json!({"url": url, "headers": token});
    let claude = json!({"type": "http", "url": url, "headers": token});
    let cases = [
        ("/p/.mcp.json", "mcpServers", claude.clone()),
        ("/home/u/.claude.json", "mcpServers", claude),
        ("/p/.cursor/mcp.json", "mcpServers", usual.clone()),
        ("/p/.vscode/mcp.json", "servers", usual.clone()),
        ("/p/.zed/settings.json", "context_servers", usual.clone()),
        ("/p/.gemini/settings.json", "mcpServers", json!({"httpUrl": url, "headers": token})),
        ("/p/windsurf/mcp_config.json", "mcpServers", json!({"serverUrl": url, "headers": token})),
        ("/p/other.json", "mcpServers", usual),
    ];
    for (path, table, after) in cases {
        let client = Client::of(path.as_ref());
        let by_hand = |env: serde_json::Value| {
            let args = ["mcp", "--url", url, "--token-env", "TOKEN"];
            json!({table: {"a": {"command": "overspill", "args": args, "env": env}}}).to_string()
        };
        let undone = |env| unwrap(Syntax::Json, client, &by_hand(env), None, &[]).unwrap();
        let entry = |changed: &Changed| {
            let value: serde_json::Value = serde_json::from_str(&changed.text).unwrap();
            value[table]["a"].clone()
        };
        let changed = undone(json!({"TOKEN": "s3cret"}));
        assert_eq!(entry(&changed), after, "{path}");
        let has_note =
            changed.servers[0].notes.iter().any(|note| note.starts_with("check the key"));
        assert_eq!(has_note, client == Client::Unknown && table == "mcpServers", "{path}");
        assert!(!format!("{:?}", changed.servers).contains("s3cret"), "{:?}", changed.servers);

        let changed = undone(json!({
            "A": "b", "TOKEN": "s3cret", "OVERSPILL_MCP_HEADERS": "X-Key: k",
        }));
        let (entry, mut headers) = (entry(&changed), token.clone());
        headers["X-Key"] = json!("k");
        assert_eq!((&entry["headers"], &entry["env"]), (&headers, &json!({"A": "b"})), "{path}");

        let elsewhere = undone(json!({"A": "b"}));
        assert_eq!(elsewhere.servers[0].after, Err(Left::TokenElsewhere("TOKEN".to_owned())));
        assert_eq!(elsewhere.text, by_hand(json!({"A": "b"})), "{path}");
    }
    let desk = r#"{"mcpServers":{"a":{"command":"overspill","args":["mcp","--url","https://a.example/"]}}}"#;
    let client = Client::of("/p/claude_desktop_config.json".as_ref());
    let changed = unwrap(Syntax::Json, client, desk, None, &[]).unwrap();
    assert_eq!(changed.servers[0].after, Err(Left::NoAddresses));
}

#[test]
fn codex_has_a_token_by_its_name_unless_the_entry_has_its_value() {
    let by_hand = |more: &str| {
        format!(
            "[mcp_servers.a]\ncommand = \"overspill\"\n\
             args = [\"mcp\", \"--url\", \"https://a.example/\", \"--token-env\", \"T\"]\n{more}\n"
        )
    };
    for (more, after) in [
        ("env_vars = [\"T\"]", "bearer_token_env_var = \"T\"\n"),
        ("env = { T = \"s\" }", "http_headers = { Authorization = \"Bearer s\" }\n"),
    ] {
        let text = unwrap(Syntax::Toml, Client::Codex, &by_hand(more), None, &[]).unwrap().text;
        assert_eq!(text, format!("[mcp_servers.a]\nurl = \"https://a.example/\"\n{after}"));
    }
}

#[test]
fn what_stood_beside_the_command_is_not_there_twice() {
    let text = r#"{"mcpServers":{"a":{"command":"overspill","args":["mcp","--url","https://a.example/"],
        "url":"https://old.example/","headers":{"A":"b"}}}}"#;
    let changed = unwrap(Syntax::Json, Client::Usual, text, None, &[]).unwrap();
    let value: serde_json::Value = serde_json::from_str(&changed.text).unwrap();
    assert_eq!(
        value["mcpServers"]["a"],
        json!({"url": "https://a.example/", "headers": {"A": "b"}})
    );
    assert_eq!(changed.text.matches("\"url\"").count(), 1, "{}", changed.text);
}

#[test]
fn how_to_call_the_proxy_otherwise_is_said_where_it_is_called_otherwise() {
    let by = |program: &str, options: &[&str]| Proxy {
        program: program.to_owned(),
        options: options.iter().map(|&it| it.to_owned()).collect(),
    };
    let text = r#"{"mcpServers":{"a":{"command":"b"},"c":{"url":"https://c.example/"}}}"#;
    let first = by("/opt/overspill", &["--store", "/s"]);
    let once = wrap(Syntax::Json, text, &first, |_| true, |_| true).unwrap().text;
    for (again, left) in [
        (&first, Left::Already),
        (&by("/opt/overspill", &[]), Left::Already),
        (
            &by("/new/overspill", &["--store", "/s"]),
            Left::Otherwise("/new/overspill mcp --store /s".into()),
        ),
        (
            &by("/opt/overspill", &["--store", "/t"]),
            Left::Otherwise("/opt/overspill mcp --store /t".into()),
        ),
        (
            &by("/opt/overspill", &["--config", "/c"]),
            Left::Otherwise("/opt/overspill mcp --config /c".into()),
        ),
    ] {
        let changed = wrap(Syntax::Json, &once, again, |_| true, |_| true).unwrap();
        assert_eq!(changed.text, once);
        for server in changed.servers {
            assert_eq!(server.after, Err(left.clone()));
        }
    }
}

#[test]
fn what_was_changed_since_stays_changed() {
    let copy = r#"{"mcpServers":{
    "same": {"command":"a",   "args":[ "1" ]},
    "more": {"command":"b"},
    "gone": {"command":"c"}
}}"#;
    let now = wrapped(Syntax::Json, copy)
        .replace(r#""--", "b""#, r#""--", "b", "--verbose""#)
        .replace(r#""gone""#, r#""renamed""#)
        .replace("{\"mcpServers\":{\n", "{\"mcpServers\":{\n    \"new\":  {\"command\": \"d\"},\n");
    assert_eq!(
        unwrap(Syntax::Json, Client::Unknown, &now, Some(copy), &[]).unwrap().text,
        r#"{"mcpServers":{
    "new":  {"command": "d"},
    "same": {"command":"a",   "args":[ "1" ]},
    "more": {"command":"b", "args": ["--verbose"]},
    "renamed": {"command":"c"}
}}"#
    );
}

#[test]
fn words_in_one_are_noted_unless_a_program_has_that_name() {
    let notes = |command: &str| {
        let text = json!({"mcpServers": {"a": {"command": command}}}).to_string();
        let is_program = |name: &str| name == "/Applications/My Tool";
        wrap(Syntax::Json, &text, &proxy(), |_| true, is_program).unwrap().servers[0].notes.len()
    };
    for command in ["npx -y server", "npx\tserver", "/usr/bin/env node x.js"] {
        assert_eq!(notes(command), 1, "{command}");
    }
    for command in ["npx", "nowhere", "/Applications/My Tool", "${HOME}/my tool", " npx"] {
        assert_eq!(notes(command), 0, "{command}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_refused_by_its_line() {
    let error = names(Syntax::Json, "{\n  \"mcpServers\": {\n").unwrap_err();
    assert!(error.contains("line"), "{error}");
    let error = names(Syntax::Toml, "[mcp_servers\n").unwrap_err();
    assert!(error.contains("line 1"), "{error}");
}

/// A server as a client may have it.
fn entries() -> impl Strategy<Value = serde_json::Value> {
    let text = "[a-z\"\\\\/é -]{0,8}";
    let texts = proptest::collection::vec(text, 0..3);
    let map = || proptest::collection::btree_map("[A-Z-]{1,4}", text, 0..3);
    let option = proptest::option::of::<BoxedStrategy<Vec<String>>>;
    let stdio = (text, option(texts.boxed()), proptest::option::of(map()), any::<bool>());
    let stdio = stdio.prop_map(|(command, args, env, typed)| {
        let mut entry = json!({"command": command});
        if typed {
            entry = json!({"type": "stdio", "disabled": false, "command": entry["command"]});
        }
        args.inspect(|args| entry["args"] = json!(args));
        env.inspect(|env| entry["env"] = json!(env));
        entry
    });
    let key = prop::sample::select(vec!["url", "httpUrl", "serverUrl"]);
    let url = "https://[a-z]{1,5}\\.example/[a-z]{0,2}(\\?[a-z]=[a-z])?";
    let http = (key, url, proptest::option::of(map()), proptest::option::of(map()), any::<bool>());
    let http = http.prop_map(|(key, url, headers, env, typed)| {
        let mut entry = json!({"timeout": 5});
        if typed {
            entry["type"] = json!("http");
        }
        env.inspect(|env| entry["env"] = json!(env));
        entry[key] = json!(url);
        headers.inspect(|headers| entry["headers"] = json!(headers));
        entry
    });
    let wrapped = prop::sample::select(vec![
        json!({"command": "/bin/overspill", "args": ["mcp", "--", "x"]}),
        json!({"command": "overspill", "args": ["mcp", "--url", "https://x.example/"]}),
        json!({"command": "npx", "args": ["-y", "overspill@0.1.0", "mcp", "--", "x"]}),
        json!({"command": "env", "args": ["A=b", "/bin/overspill", "mcp", "--", "x"]}),
        json!({"command": "tool", "args": ["mcp", "--url", "https://x.example/"]}),
    ]);
    let strange = prop::sample::select(vec![json!(null), json!([]), json!({}), json!("x")]);
    prop_oneof![4 => stdio, 4 => http, 1 => wrapped, 1 => strange]
}

/// What the client may call overspill by.
fn programs() -> impl Strategy<Value = Proxy> {
    let known = prop::sample::select(vec![
        "/opt/overspill",
        "/opt/x/overspill-bin",
        "overspill-0.1.0",
        "/usr/local/bin/ovs",
        r"C:\tools\ovs.exe",
    ]);
    let program = prop_oneof![known.prop_map(str::to_owned), "[a-z/. -]{1,8}"];
    let store = prop::sample::select(vec![vec![], vec!["--store", "s"]]);
    (program, store).prop_map(|(program, options)| Proxy {
        program,
        options: options.into_iter().map(str::to_owned).collect(),
    })
}

/// Writes JSON as people do: with more or fewer blanks, comments and commas.
fn written(
    value: &serde_json::Value,
    taste: &mut impl FnMut(usize) -> usize,
    line: &str,
) -> String {
    let (open, close, parts): (_, _, Vec<String>) = match value {
        serde_json::Value::Array(items) => {
            ("[", "]", items.iter().map(|it| written(it, taste, line)).collect())
        }
        serde_json::Value::Object(members) => {
            let blank = ["", " ", "  "][taste(3)];
            let member = |(key, it): (&String, _)| {
                format!("{}:{blank}{}", json!(key), written(it, taste, line))
            };
            ("{", "}", members.iter().map(member).collect())
        }
        other => return other.to_string(),
    };
    let gap = |n: usize| match n {
        0 => String::new(),
        1 => " ".to_owned(),
        2 => format!("{line}    "),
        3 => format!(" // why{line}\t"),
        _ => format!("{line}{line}  /* so */ "),
    };
    let gaps = taste(5);
    let mut text = open.to_owned();
    for (i, part) in parts.iter().enumerate() {
        let comma = if i + 1 < parts.len() || taste(3) == 0 { "," } else { "" };
        text.push_str(&format!("{}{part}{comma}", gap(gaps)));
    }
    text + &gap(gaps) + close
}

proptest! {
    #[test]
    fn unwrap_undoes_wrap(
        entries in proptest::collection::vec(("[ab]", entries()), 0..4),
        tastes in proptest::collection::vec(0_usize..60, 1..40),
        crlf in any::<bool>(),
        mark in any::<bool>(),
        by in programs(),
        again in programs(),
    ) {
        let members: Map = entries.into_iter().collect();
        let value = json!({"a": 1.5, "mcpServers": members, "servers": {"z": {"command": "y"}}});
        let mut next = tastes.iter().cycle();
        let mut taste = |n: usize| next.next().unwrap() % n;
        let mut text = written(&value, &mut taste, if crlf { "\r\n" } else { "\n" });
        if mark {
            text.insert(0, '\u{feff}');
        }

        let once = wrap(Syntax::Json, &text, &by, |_| true, |_| true).unwrap();
        for proxy in [&by, &again] {
            let twice = wrap(Syntax::Json, &once.text, proxy, |_| true, |_| true).unwrap();
            prop_assert_eq!(&twice.text, &once.text, "a second time does nothing");
        }
        prop_assert_eq!(&unwrap(Syntax::Json, Client::Unknown, &once.text, Some(&text), &[]).unwrap().text, &text);

        let read = |text: &str| Document::parse(Syntax::Json, text).unwrap().servers();
        let own = [by.program.clone()];
        let lost = unwrap(Syntax::Json, Client::Unknown, &once.text, None, &own).unwrap().text;
        for ((before, now), undone) in read(&text).iter().zip(read(&once.text)).zip(read(&lost)) {
            let was_wrapped = entry::unwrap(&before.entry, None, Client::Unknown, &[]).is_some();
            let is_server = !was_wrapped && !before.entry.is_empty();
            let command = now.entry.get("command").and_then(|it| it.as_str());
            prop_assert_eq!(is_server, command == Some(&*by.program) && !was_wrapped);
            let url = |entry: &serde_json::Map<String, serde_json::Value>| {
                ["url", "httpUrl", "serverUrl"].iter().find_map(|key| entry.get(*key).cloned())
            };
            if !was_wrapped {
                prop_assert_eq!(url(&before.entry), url(&undone.entry));
            }
            if before.entry.contains_key("command") && !was_wrapped {
                prop_assert!(entry::means_the_same(&before.entry, &undone.entry));
            }
        }
    }
}

/// Writes servers as Codex has them, with inner tables inline or under a head of their own.
fn toml_written(members: &Map, taste: &mut impl FnMut(usize) -> usize) -> String {
    let mut text = "# ours\nmodel = \"m\"\n\n".to_owned();
    for (name, entry) in members {
        let mut below = String::new();
        text.push_str(&format!("[mcp_servers.{name}]{}\n", ["", " # why", "\n"][taste(3)]));
        for (key, value) in entry.as_object().into_iter().flatten() {
            let key = if key == "headers" { "http_headers" } else { key };
            let blank = ["", " ", "   "][taste(3)];
            match value {
                serde_json::Value::Object(inner) => {
                    let lines = inner.iter().map(|(key, it)| format!("{key:?}{blank}={blank}{it}"));
                    let lines: Vec<_> = lines.collect();
                    if taste(2) == 0 {
                        text.push_str(&format!("{key} = {{ {} }}\n", lines.join(", ")));
                    } else {
                        let lines = lines.join(" # so\n");
                        below.push_str(&format!("[mcp_servers.{name}.{key}]\n{lines}\n\n"));
                    }
                }
                other => {
                    let comment = ["", " # so", "\n"][taste(3)];
                    text.push_str(&format!("{key}{blank}={blank}{other}{comment}\n"));
                }
            }
        }
        text.push_str(&below);
    }
    text + "[tui]\nnotifications = true"
}

proptest! {
    #[test]
    fn unwrap_undoes_wrap_in_toml(
        entries in proptest::collection::vec(("[a-d]", entries()), 0..4),
        tastes in proptest::collection::vec(0_usize..60, 1..40),
        crlf in 0..3,
        by in programs(),
        again in programs(),
    ) {
        let members: Map = entries.into_iter().filter(|(_, entry)| entry.is_object()).collect();
        let mut next = tastes.iter().cycle();
        let text = toml_written(&members, &mut |n| next.next().unwrap() % n);
        let text = match crlf {
            0 => text,
            1 => text.replace('\n', "\r\n"),
            _ => text.replacen('\n', "\r\n", 2),
        };
        let once = wrap(Syntax::Toml, &text, &by, |_| true, |_| true).unwrap().text;
        for proxy in [&by, &again] {
            let twice = wrap(Syntax::Toml, &once, proxy, |_| true, |_| true).unwrap().text;
            prop_assert_eq!(&twice, &once, "a second time does nothing");
        }
        prop_assert_eq!(&unwrap(Syntax::Toml, Client::Codex, &once, Some(&text), &[]).unwrap().text, &text);
        let since = format!("[mcp_servers.z]\ncommand = \"z\"\n\n{once}").replace("model = \"m\"", "");
        let undone = unwrap(Syntax::Toml, Client::Codex, &since, Some(&text), &[]).unwrap().text;
        let servers = |text: &str| -> Vec<_> {
            let servers = Document::parse(Syntax::Toml, text).unwrap().servers().into_iter();
            servers.map(|it| (it.name, it.entry)).filter(|(name, _)| name != "z").collect()
        };
        prop_assert_eq!(servers(&undone), servers(&text), "{}", undone);
    }
}

type Map = serde_json::Map<String, serde_json::Value>;
