//! Flags, environment, file and defaults; help and completions.

use std::fs;

use crate::bench::{Bench, assert_picture, numbers};

#[test]
fn without_anything_there_are_defaults() {
    let bench = Bench::new();
    assert_picture!(bench.picture(&["config", "check"]));
    assert_picture!(bench.picture(&["config", "check", "--json"]));
}

#[test]
fn a_wrong_file_is_refused_with_key_line_and_mend() {
    let bench =
        Bench::with_file("enabled = true\n\n[[bands]]\nover = 1_000\naction = \"spil\"\nmax = 3\n");
    assert_picture!(bench.picture(&["config", "check"]));
    assert_picture!(bench.picture(&["config", "check", "--json"]));
    assert_picture!(bench.picture(&["run", "--", "touch", "ran"]));
    assert!(!bench.path("ran").exists());
    assert_picture!(bench.picture(&["config", "check", "no-such-file.toml"]));
    bench.write("other.toml", "unit = \"estimated_tokens\"\n");
    bench.assert(&["config", "check", "other.toml"]).assert().success();
}

#[test]
fn a_flag_goes_before_the_environment_and_that_before_the_file() {
    let bench = Bench::with_file("[store]\nkind = \"local\"\npath = \"from-file\"\n");
    let store = |env: Option<&str>, flags: &[&str]| {
        let mut command = bench.command(&[flags, &["config", "check", "--json"]].concat());
        command.envs(env.map(|path| ("OVERSPILL_STORE", path)));
        let json: serde_json::Value =
            serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        let path = json["store"]["path"].as_str().unwrap();
        let path = std::path::Path::new(path).strip_prefix(bench.path("")).unwrap();
        format!("{} {}", path.display(), json["store"]["from"].as_str().unwrap())
    };
    assert_eq!(store(None, &[]), "from-file the file");
    assert_eq!(store(Some("from-env"), &[]), "from-env OVERSPILL_STORE");
    assert_eq!(store(Some(""), &[]), "from-file the file");
    assert_eq!(store(Some("from-env"), &["--store", "from-flag"]), "from-flag --store");
}

#[test]
fn presets_and_the_switch_go_before_the_file() {
    let bench =
        Bench::with_file("enabled = false\n[[bands]]\nover = 1_000_000\naction = \"spill\"\n");
    let mut command = bench.command(&["run", "--", "seq", "1000"]);
    command
        .env("OVERSPILL_ENABLED", "1")
        .env("OVERSPILL_PRESET", "lean")
        .env("OVERSPILL_RUN", "r2");
    let view = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(view.contains("stored as r2/seq."), "{view}");
    command.env("OVERSPILL_ENABLED", "maybe");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "overspill: error: OVERSPILL_ENABLED: \"maybe\" is neither true nor false\n\
         hint: correct or unset OVERSPILL_ENABLED\n"
    );
    assert_picture!(bench.picture(&["config", "check", "--preset", "lean", "--enabled", "true"]));
    assert_picture!(bench.picture(&["run", "--preset", "leen", "--", "true"]));
}

#[test]
fn the_nearest_file_counts_and_its_store_is_beside_it() {
    let bench = Bench::new();
    let user = bench.home().join(".config/overspill");
    fs::create_dir_all(&user).unwrap();
    fs::write(user.join("overspill.toml"), "preset = \"lean\"\n").unwrap();
    let from = |bench: &Bench| bench.json(&["config", "check", "--json"])["file"]["from"].clone();
    assert_eq!(from(&bench), "in the user's configuration folder");

    let above = bench.home().join("overspill.toml");
    fs::write(&above, "[store]\nkind = \"local\"\npath = \"spills\"\n").unwrap();
    assert_eq!(from(&bench), "in a directory above the current one");
    bench.assert(&["pipe"]).write_stdin(numbers(5_000)).assert().success();
    assert!(bench.home().join("spills").join(bench.handle()).exists());

    bench.write("overspill.toml", "");
    assert_eq!(from(&bench), "in the current directory");
    let named = bench.write("named.toml", "");
    let mut command = bench.command(&["config", "check"]);
    let output = command.env("OVERSPILL_CONFIG", named).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("(OVERSPILL_CONFIG)"));
}

#[test]
fn notes_say_what_will_not_be_done() {
    let bench = Bench::with_file(
        "[[bands]]\nover = 10\naction = \"summarize\"\nthen = \"spill\"\n[store]\nkind = \"memory\"\n",
    );
    assert_picture!(bench.picture(&["config", "check"]));
}

#[test]
fn what_config_check_prints_is_a_file_that_means_the_same() {
    let bench =
        Bench::with_file("strip_ansi = true\n[tools]\nonly = [\"seq\"]\n[store]\npath = \"s\"\n");
    let text = bench.stdout(&["config", "check"]);
    let again = bench.write("again.toml", &text);
    let printed = bench.stdout(&["config", "check", again.to_str().unwrap()]);
    let settings = |text: &str| {
        text.lines()
            .filter(|line| !line.starts_with('#') && !line.starts_with("path"))
            .collect::<String>()
    };
    assert_eq!(settings(&printed), settings(&text));
}

#[test]
fn every_command_has_help_with_examples() {
    let bench = Bench::new();
    assert_picture!(bench.picture(&["--help"]));
    for command in [
        "run",
        "pipe",
        "read",
        "grep",
        "list",
        "show",
        "verify",
        "prune",
        "export",
        "completions",
        "demo",
        "replay",
        "fit",
        "inspect",
        "read-tool",
        "mcp",
    ] {
        let help = bench.stdout(&[command, "--help"]);
        assert!(help.contains("Examples:\n  "), "{help}");
    }
    assert!(bench.stdout(&["config", "check", "--help"]).contains("Examples:"));
    assert_picture!(bench.picture(&["run", "--help"]));
}

#[test]
fn completions_are_written_for_each_shell() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(bench.stdout(&["completions", shell]).contains("overspill"), "{shell}");
    }
    assert_eq!(bench.output(&["completions", "cmd"]).status.code(), Some(2));
}

#[test]
fn nothing_is_coloured_where_nobody_sees_it() {
    let bench = Bench::new();
    for args in [&["read", "cli/nothing"][..], &["run", "--nonsense"], &["--help"]] {
        for no_colour in ["", "1"] {
            let output = bench.command(args).env("NO_COLOR", no_colour).output().unwrap();
            assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b), "{args:?}");
        }
    }
}
