//! `mcp wrap` and `mcp unwrap`: a client's configuration, changed in its place and back.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::bench::{Bench, assert_picture};

const CONFIG: &str = r#"{
  // ours
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "files", "/srv"], "env": { "KEY": "s3cret" } },
    "web": { "type": "http", "url": "https://web.example/mcp", "headers": { "X-Key": "s3cret" } },
    "old": { "type": "sse", "url": "https://old.example/sse" },
  },
}
"#;

const WRAP: [&str; 5] = ["mcp", "wrap", "--program", "overspill", "mcp.json"];

#[test]
fn a_configuration_is_wrapped_and_comes_back() {
    let bench = Bench::new();
    let file = bench.write("mcp.json", CONFIG);
    let copy = bench.path("mcp.json.before-overspill");

    let dry: Vec<_> = WRAP.into_iter().chain(["--dry-run"]).collect();
    assert_picture!(bench.picture(&dry));
    assert_eq!(fs::read_to_string(&file).unwrap(), CONFIG, "nothing is done");
    assert!(!copy.exists());

    assert_picture!(bench.picture(&WRAP));
    assert_picture!(fs::read_to_string(&file).unwrap());
    assert_eq!(fs::read_to_string(&copy).unwrap(), CONFIG);

    let wrapped = fs::read(&file).unwrap();
    assert_picture!(bench.picture(&WRAP));
    assert_eq!(fs::read(&file).unwrap(), wrapped, "a second time does nothing");

    assert_picture!(bench.picture(&["mcp", "unwrap", "mcp.json"]));
    assert_eq!(fs::read_to_string(&file).unwrap(), CONFIG);
    assert!(!copy.exists());
    assert_picture!(bench.picture(&["mcp", "unwrap", "mcp.json"]));
}

#[test]
fn a_server_that_was_added_since_is_wrapped_too_and_everything_comes_back() {
    let bench = Bench::new();
    let file = bench.write("mcp.json", CONFIG);
    bench.stdout(&WRAP);
    let more = |text: &str| {
        text.replace("  // ours\n", "  // ours\n  \"servers\": {\"b\": {\"command\":\"b\"}},\n")
    };
    fs::write(&file, more(&fs::read_to_string(&file).unwrap())).unwrap();
    let report = bench.json(&[&WRAP[..], &["--json"]].concat());
    let after: Vec<_> =
        report["servers"].as_array().unwrap().iter().map(|it| &it["after"]).collect();
    assert!(after.iter().any(|after| *after == "overspill mcp -- b"), "{after:?}");
    bench.stdout(&["mcp", "unwrap", "mcp.json"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), more(CONFIG));
    assert!(!bench.path("mcp.json.before-overspill").exists());
}

#[test]
fn by_whatever_name_it_is_called_a_second_time_loses_nothing() {
    for program in ["/opt/x/overspill-bin", "overspill-0.1.0", "/usr/local/bin/ovs"] {
        let bench = Bench::new();
        let file = bench.write("mcp.json", CONFIG);
        let copy = bench.path("mcp.json.before-overspill");
        let by = ["mcp", "wrap", "--program", program, "mcp.json"];
        bench.stdout(&by);
        let once = fs::read_to_string(&file).unwrap();
        for again in [by, WRAP] {
            bench.stdout(&again);
            assert_eq!(fs::read_to_string(&file).unwrap(), once, "{program}");
            assert_eq!(fs::read_to_string(&copy).unwrap(), CONFIG, "{program}");
        }
        bench.stdout(&["mcp", "unwrap", "mcp.json"]);
        assert_eq!(fs::read_to_string(&file).unwrap(), CONFIG, "{program}");
        assert!(!copy.exists());
    }
}

#[test]
fn a_copy_is_neither_overwritten_nor_removed_where_it_has_what_the_file_has_not() {
    let bench = Bench::new();
    let file = bench.write("mcp.json", CONFIG);
    let copy = bench.path("mcp.json.before-overspill");
    bench.stdout(&WRAP);
    let other = r#"{"mcpServers": {"b": {"command": "b"}}}"#;
    bench.write("mcp.json", other);
    assert_picture!(bench.picture(&["mcp", "unwrap", "mcp.json"]));
    assert_eq!(fs::read_to_string(&file).unwrap(), other);
    assert_eq!(fs::read_to_string(&copy).unwrap(), CONFIG);

    bench.stdout(&WRAP);
    let aside = bench.path("mcp.json.before-overspill.1");
    assert_eq!(fs::read_to_string(&aside).unwrap(), CONFIG);
    bench.stdout(&["mcp", "unwrap", "mcp.json"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), other);
    assert!(!copy.exists());
    assert_eq!(fs::read_to_string(&aside).unwrap(), CONFIG);
}

#[test]
fn a_copy_that_differs_is_put_aside_and_named() {
    let bench = Bench::new();
    let file = bench.write("mcp.json", CONFIG);
    let aside = bench.path("mcp.json.before-overspill.1");
    let older = |report: serde_json::Value| report["older_copies"].as_array().unwrap().len();
    assert_eq!(older(bench.json(&[&WRAP[..], &["--json"]].concat())), 0);
    fs::write(&file, fs::read_to_string(&file).unwrap().replacen("s3cret", "other", 1)).unwrap();
    bench.stdout(&["mcp", "unwrap", "mcp.json"]);
    assert!(!aside.exists());

    let said = [bench.stdout(&WRAP), bench.stdout(&["mcp", "unwrap", "mcp.json"])];
    assert_eq!(fs::read_to_string(&aside).unwrap(), CONFIG, "nothing is lost");
    assert!(fs::read_to_string(&file).unwrap().contains("other"), "what was edited stays");
    assert!(!bench.path("mcp.json.before-overspill").exists());
    for said in said {
        assert!(said.contains("older copy") && said.contains("before-overspill.1"), "{said}");
    }
    let report = bench.json(&["mcp", "unwrap", "mcp.json", "--json"]);
    assert_eq!(report["older_copies"][0], aside.canonicalize().unwrap().to_str().unwrap());
}

#[test]
fn what_was_behind_the_proxy_before_stays_there() {
    let bench = Bench::new();
    let own = r#"{"mcpServers": {"a": {"command": "overspill", "args": ["mcp", "--", "a"]}, "b": {"command": "b"}}}"#;
    let file = bench.write("mcp.json", own);
    bench.stdout(&WRAP);
    assert_picture!(bench.picture(&["mcp", "unwrap", "mcp.json"]));
    assert_eq!(fs::read_to_string(&file).unwrap(), own);
    let report = bench.json(&["mcp", "unwrap", "mcp.json", "--json"]);
    assert_eq!(report["servers"][0]["after"], "a", "there is no copy any more");
}

#[test]
fn what_is_left_to_the_person_is_noted() {
    let bench = Bench::new();
    let config = r#"{"mcpServers": {
        "desk": {"url": "https://desk.example/mcp"},
        "web": {"url": "https://web.example/mcp", "headers": {"X-Key": "k"}, "includeTools": ["a"]},
        "files": {"command": "files", "alwaysAllow": ["read"], "autoApprove": []},
        "docs": {"command": "docs", "enabled_tools": ["a", "read_tool_result"]},
        "words": {"command": "npx -y server"}
    }}"#;
    bench.write("mcp.json", config);
    assert_picture!(bench.picture(&WRAP));
}

#[test]
fn servers_are_named_one_by_one_or_with_commas() {
    let bench = Bench::new();
    let server = r#"{"command": "x"}"#;
    let names = ["a", "b", "c", "d, e"];
    let servers: Vec<_> = names.iter().map(|name| format!("{name:?}: {server}")).collect();
    bench.write("mcp.json", format!("{{\"mcpServers\": {{{}}}}}", servers.join(", ")));
    for (said, chosen) in [
        (vec!["--only", "a,b"], vec!["a", "b"]),
        (vec!["--only", "a, c", "--only", "d, e"], vec!["a", "c", "d, e"]),
        (vec!["--except", "a,b"], vec!["c", "d, e"]),
        (vec!["--except", "a", "--except", "b,d, e"], vec![]),
    ] {
        let by = [&WRAP[..], &["--json", "-n"], &said].concat();
        if chosen.is_empty() {
            let output = bench.output(&by);
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(error.contains("no server \"d\""), "{error}");
            continue;
        }
        let report = bench.json(&by);
        let rows = report["servers"].as_array().unwrap().iter();
        assert_eq!(rows.map(|row| row["name"].as_str().unwrap()).collect::<Vec<_>>(), chosen);
    }
}

#[test]
fn the_json_report_holds_no_secret() {
    let bench = Bench::new();
    bench.write("mcp.json", CONFIG);
    let report = bench.json(&[&WRAP[..], &["--json", "-n", "--only", "web"]].concat());
    assert_eq!(
        report["servers"],
        serde_json::json!([{
            "name": "web",
            "before": "https://web.example/mcp  (headers: X-Key)",
            "after": "overspill mcp --url https://web.example/mcp  (env: OVERSPILL_MCP_HEADERS)",
            "left": null,
            "notes": [],
        }])
    );
    assert_eq!((&report["dry_run"], &report["changed"]), (&true.into(), &true.into()));
}

#[test]
fn what_the_readme_shows_is_found_where_it_is_saved_as_it_is() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let mut found = 0;
    for (start, file) in [("```json\n", "mcp.json"), ("```toml\n", "config.toml")] {
        let blocks = readme.split(start).skip(1).filter_map(|rest| rest.split("```").next());
        for block in blocks.filter(|block| block.contains("\"overspill\"")) {
            let bench = Bench::new();
            bench.write(file, block);
            let report =
                bench.json(&["mcp", "wrap", "--program", "overspill", file, "-n", "--json"]);
            for server in report["servers"].as_array().unwrap() {
                assert_eq!(server["left"], "it goes through the proxy already");
                found += 1;
            }
        }
    }
    assert_eq!(found, 4);
}

#[test]
fn links_and_permissions_stay() {
    let bench = Bench::new();
    let real = bench.write("real.json", CONFIG);
    fs::set_permissions(&real, Permissions::from_mode(0o640)).unwrap();
    symlink("real.json", bench.path("mcp.json")).unwrap();
    bench.stdout(&WRAP);
    assert!(fs::symlink_metadata(bench.path("mcp.json")).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("\"overspill\""));
    for name in ["real.json", "real.json.before-overspill"] {
        assert_eq!(fs::metadata(bench.path(name)).unwrap().mode() & 0o777, 0o640, "{name}");
    }
}

#[test]
fn the_servers_get_the_store_and_the_configuration_that_were_named() {
    let bench = Bench::new();
    bench.write("mcp.json", r#"{"mcpServers": {"a": {"command": "b"}}}"#);
    let report = bench.json(&[&WRAP[..], &["--json", "--store", "spilled"]].concat());
    let store = bench.path("spilled").canonicalize().unwrap_or_else(|_| bench.path("spilled"));
    let after = format!("overspill mcp --store {} -- b", store.display());
    assert_eq!(report["servers"][0]["after"], after);
    assert_eq!(bench.json(&["mcp", "unwrap", "mcp.json", "--json"])["servers"][0]["after"], "b");
}

#[test]
fn by_default_the_client_calls_this_very_program() {
    let bench = Bench::new();
    bench.write("config.toml", "[mcp_servers.a]\ncommand = \"b\"\n");
    let report = bench.json(&["mcp", "wrap", "config.toml", "--json"]);
    let program = fs::canonicalize(crate::bench::OVERSPILL).unwrap();
    assert_eq!(report["servers"][0]["after"], format!("{} mcp -- b", program.display()));
}

#[test]
fn the_client_calls_the_link_and_not_what_it_leads_to() {
    let bench = Bench::new();
    bench.write("config.toml", "[mcp_servers.a]\ncommand = \"b\"\n");
    let link = bench.path("ovs");
    symlink(crate::bench::OVERSPILL, &link).unwrap();
    let folder = link.parent().unwrap();
    let path = std::ffi::OsString::from("/nowhere:");
    let path = [path.as_os_str(), folder.as_os_str()].join(std::ffi::OsStr::new(""));
    for program in [link.as_os_str(), "ovs".as_ref(), "./ovs".as_ref()] {
        let mut command = std::process::Command::new(&link);
        std::os::unix::process::CommandExt::arg0(&mut command, program);
        command.args(["mcp", "wrap", "config.toml", "--json", "-n"]).current_dir(folder);
        let output = command.env("PATH", &path).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["servers"][0]["after"], format!("{} mcp -- b", link.display()));
    }
}

#[test]
fn what_is_wrong_is_said_with_its_mend() {
    let bench = Bench::new();
    assert_picture!(bench.picture(&WRAP));
    bench.write("mcp.yaml", "mcpServers: {}");
    assert_picture!(bench.picture(&["mcp", "wrap", "mcp.yaml"]));
    assert_picture!(bench.picture(&["mcp", "npx", "-y", "files"]));
    bench.write("mcp.json", "{\n  \"mcpServers\": {\n");
    assert_picture!(bench.picture(&WRAP));
    bench.write("mcp.json", "{}");
    assert_picture!(bench.picture(&WRAP));
    bench.write("mcp.json", CONFIG);
    assert_picture!(bench.picture(&[&WRAP[..], &["--except", "wen"]].concat()));
    assert_eq!(bench.output(&WRAP).status.code(), Some(0));
}
