//! Files go in; what they mean, or what is wrong with them, comes out.

mod refused;

use proptest::prelude::*;

use super::*;
use crate::cut::Keep;

/// What is wrong with a file, as it is displayed.
fn errors(text: &str) -> String {
    Config::parse("overspill.toml", text).unwrap_err().to_string()
}

fn parse(text: &str) -> Config {
    Config::parse("overspill.toml", text).unwrap()
}

/// The actions of the bands, one a line.
fn bands(bands: &Bands) -> String {
    bands.iter().map(|band| format!("{}: {}\n", band.over, band.action)).collect()
}

/// Every key there is.
const COMPLETE: &str = r#"
enabled = false
preset = "lean"
unit = "estimated_tokens"
strip_ansi = true
json = "lines"
read_tool = "files__read_tool_result"

[tools]
except = ["ask_user", "todo_*"]

[[bands]]
over = 10_000
action = "summarize"
then = { action = "spill", preview_chars = 0, then = { action = "truncate", max_chars = 9_000 } }

[[bands]]
over = 0x10
action = "truncate"
max_chars = 2_500
keep = "tail"
keep_tail_lines = 3
then = "passthrough"

[[tool."mcp__*".bands]]
over = 1
action = "passthrough"

[[tool.mcp__grep.bands]]
over = 7
action = "spill"
[tool.mcp__grep.bands.then]
action = "truncate"
keep = "head"

[tool."a.b"]
bands = []

[summarize]
model = "anthropic:claude-haiku-4-5"
base_url = "https://models.example/anthropic/"
api_key_env = "MY_KEY"
prompt = """
Use of "{tool_name}":
{output}
"""

[store]
path = 'C:\spills'

[retention]
max_age = "48h"
max_size = "1_500 MB"
"#;

#[test]
fn an_empty_file_means_the_defaults() {
    assert_eq!(parse("").to_string(), Config::default().to_string());
    assert_eq!(parse("\u{feff}# nothing\r\n").to_string(), Config::default().to_string());
    insta::assert_snapshot!(Config::default(), @r#"
    enabled = true
    preset = "default"
    unit = "characters"
    strip_ansi = false
    json = "compact"
    read_tool = "read_tool_result"

    [[bands]]
    over = 10_000
    action = "spill"
    preview_chars = 2_000
    then = { action = "truncate", max_chars = 4_000, keep = "head_and_tail", keep_tail_lines = 0 }

    [store]
    kind = "local"
    "#);
}

#[test]
fn every_key_means_something() {
    let config = parse(COMPLETE);
    assert!(!config.enabled && config.strip_ansi);
    assert!(matches!(config.unit, Unit::EstimatedTokens));
    assert_eq!(config.json, JsonStyle::Lines);
    assert_eq!(config.read_tool, "files__read_tool_result");
    assert!(config.tools.applies_to("bash") && !config.tools.applies_to("todo_add"));
    assert_eq!(
        bands(&config.bands),
        "16: truncate, else passthrough\n10000: summarize, else spill, else truncate\n"
    );
    let Action::Truncate(truncate, _) = &config.bands.fit(16).unwrap().action else { panic!() };
    let expected = Truncate { max_chars: 2_500, keep: Keep::Tail, keep_tail_lines: 3 };
    assert_eq!(truncate, &expected);
    let Action::Spill(spill, _) = config.bands.fit(10_000).unwrap().action.then().unwrap() else {
        panic!()
    };
    assert_eq!(spill.preview_chars, 0);
    assert_eq!(config.prompt.as_str(), "Use of \"{tool_name}\":\n{output}\n");
    let expected = ModelConfig {
        model: "anthropic:claude-haiku-4-5".parse().unwrap(),
        base_url: Some("https://models.example/anthropic".parse().unwrap()),
        api_key_env: Some("MY_KEY".to_owned()),
    };
    assert_eq!(config.model, Some(expected));
    assert_eq!(parse("[summarize]").model, None);
    assert_eq!(config.store, StoreConfig::Local { path: Some(PathBuf::from(r"C:\spills")) });
    assert_eq!(parse("store.kind = \"memory\"").store, StoreConfig::Memory);
    let (two_days, bytes) = (std::time::Duration::from_secs(2 * 86_400), 1_500_000_000);
    assert_eq!(config.retention, Retention { max_age: Some(two_days), max_bytes: Some(bytes) });
    assert!(parse("[retention]").retention.is_forever());
}

#[test]
fn a_tools_name_goes_before_a_glob_wherever_it_stands() {
    let config = parse(COMPLETE);
    let of = |tool| config.tool_bands.for_tool(tool).map(bands);
    assert_eq!(of("mcp__grep").unwrap(), "7: spill, else truncate\n");
    assert_eq!(of("mcp__find").unwrap(), "1: passthrough\n");
    assert_eq!(of("a.b").unwrap(), "");
    assert_eq!(of("bash"), None);
}

#[test]
fn of_globs_the_first_in_the_file_counts() {
    let glob =
        |glob, over| format!("[[tool.\"{glob}\".bands]]\nover = {over}\naction = \"spill\"\n");
    let over =
        |text: String| parse(&text).tool_bands.for_tool("zz").unwrap().largest().unwrap().over;
    assert_eq!(over(glob("z*", 1) + &glob("*z", 2)), 1);
    assert_eq!(over(glob("*z", 2) + &glob("z*", 1)), 2);
}

#[test]
fn what_is_shown_is_a_file_that_means_the_same() {
    let shown = parse(COMPLETE).to_string();
    assert_eq!(parse(&shown).to_string(), shown);
    insta::assert_snapshot!(shown, @r##"
    enabled = false
    preset = "lean"
    unit = "estimated_tokens"
    strip_ansi = true
    json = "lines"
    read_tool = "files__read_tool_result"

    [tools]
    except = ["ask_user", "todo_*"]

    [[bands]]
    over = 16
    action = "truncate"
    max_chars = 2_500
    keep = "tail"
    keep_tail_lines = 3
    then = { action = "passthrough" }

    [[bands]]
    over = 10_000
    action = "summarize"
    then = { action = "spill", preview_chars = 0, then = { action = "truncate", max_chars = 9_000, keep = "head_and_tail", keep_tail_lines = 0 } }

    [[tool.mcp__grep.bands]]
    over = 7
    action = "spill"
    preview_chars = 1_000
    then = { action = "truncate", max_chars = 4_000, keep = "head", keep_tail_lines = 0 }

    [tool."a.b"]
    bands = []

    [[tool."mcp__*".bands]]
    over = 1
    action = "passthrough"

    [summarize]
    model = "anthropic:claude-haiku-4-5"
    base_url = "https://models.example/anthropic"
    api_key_env = "MY_KEY"
    prompt = """
    Use of "{tool_name}":
    {output}
    """

    [store]
    kind = "local"
    path = 'C:\spills'

    [retention]
    max_age = "2d"
    max_size = "1500MB"
    "##);
}

#[test]
fn serialized_it_has_the_shape_of_the_file() {
    let config = parse("[tools]\nonly = [\"bash\"]");
    insta::assert_snapshot!(serde_json::to_string_pretty(&config).unwrap(), @r#"
    {
      "enabled": true,
      "preset": "default",
      "unit": "characters",
      "strip_ansi": false,
      "json": "compact",
      "read_tool": "read_tool_result",
      "tools": {
        "only": [
          "bash"
        ]
      },
      "bands": [
        {
          "over": 10000,
          "action": "spill",
          "preview_chars": 2000,
          "then": {
            "action": "truncate",
            "max_chars": 4000,
            "keep": "head_and_tail",
            "keep_tail_lines": 0
          }
        }
      ],
      "store": {
        "kind": "local"
      }
    }
    "#);
}

#[test]
fn what_no_file_can_hold_is_shown_as_a_comment() {
    struct Bytes;
    impl crate::measure::Tokenizer for Bytes {
        fn count(&self, text: &str) -> u64 {
            text.len() as u64
        }
    }
    let config = Config {
        unit: Unit::Tokens(std::sync::Arc::new(Bytes)),
        tools: ToolFilter::matching(|_| true),
        ..Config::default()
    };
    let shown = config.to_string();
    assert!(shown.contains("# unit: tokens, as the program's tokenizer counts them\n"));
    assert!(shown.contains("# tools: those that the program's predicate chooses\n"));
    parse(&shown);
}

#[test]
fn a_preset_means_the_same_in_every_unit() {
    for preset in Preset::ALL {
        let by_chars = preset.bands(&Unit::Characters);
        let by_tokens = preset.bands(&Unit::EstimatedTokens);
        for chars in [0, 1_999, 2_000, 2_003, 9_999, 10_000, 1_000_000] {
            assert_eq!(
                by_chars.fit(chars).is_some(),
                by_tokens.fit(crate::measure::estimate_tokens(chars)).is_some(),
                "{preset:?}, {chars}"
            );
        }
        assert_eq!(preset.name().parse(), Ok(preset));
    }
    assert_eq!(bands(&parse("preset = \"lean\"").bands), "2000: spill, else truncate\n");
    let error = "lena".parse::<Preset>().unwrap_err().to_string();
    assert_eq!(error, r#"unknown preset "lena"; there are "default" and "lean""#);
}

#[test]
fn a_preset_from_a_flag_goes_before_the_files_bands() {
    let mut config = parse("[[bands]]\nover = 5\naction = \"spill\"");
    assert_eq!(bands(&config.bands), "5: spill\n");
    config.use_preset(Preset::Lean);
    assert_eq!(bands(&config.bands), "2000: spill, else truncate\n");
}

#[test]
fn problems_can_be_read_one_by_one() {
    let text = "[[bands]]\nover = 1\naction = \"spill\"\nthen = { action = \"truncate\", max_chars = -1 }\n\n[[tool.\"a.b\".bands]]\n";
    let error = Config::parse("f", text).unwrap_err();
    let keys: Vec<_> = error.problems.iter().map(|p| (p.line, p.key.as_str())).collect();
    assert_eq!(
        keys,
        [
            (4, "bands[0].then.max_chars"),
            (6, r#"tool."a.b".bands[0]"#),
            (6, r#"tool."a.b".bands[0]"#)
        ]
    );
    assert_eq!(error.problems[0].hint, "write a whole number, such as 10_000");
}

#[test]
fn a_chain_is_as_long_as_the_file_makes_it_within_reason() {
    let chain = |links: usize| {
        let then = "then = { action = \"spill\", ".repeat(links);
        let text = format!("[[bands]]\nover = 1\naction = \"spill\"\n{then}{}", "}".repeat(links));
        text.replace(", }", " }")
    };
    let config = parse(&chain(40));
    assert_eq!(config.bands.fit(1).unwrap().action.chain().count(), 41);
    assert_eq!(parse(&config.to_string()).to_string(), config.to_string());

    // Keys with dots nest deeper than TOML's own bound lets tables nest.
    let dots = format!("then{} = ", ".then".repeat(70));
    let deep = format!("[[bands]]\n{}{dots}1{}", format!("{dots}{{ ").repeat(9), " }".repeat(9));
    assert!(errors(&deep).contains("a chain of more than 64 actions in [[bands]]"));
}

#[test]
fn hostile_files_are_refused_in_time_and_on_few_lines() {
    const MANY: usize = 20_000;
    for text in [
        "[".repeat(MANY),
        "a.".repeat(MANY),
        format!("[{}]", "a.".repeat(MANY)),
        "a = {".repeat(MANY),
        "[[bands]]\n".repeat(MANY),
        format!("\"{}\" = 1", "x".repeat(MANY)),
        format!("read_tool = \"{}\"", "x".repeat(MANY)),
        format!("preset = \"{}\"", "\\n".repeat(MANY)),
        (0..MANY / 10).map(|i| format!("k{i} = {i}\n")).collect(),
    ] {
        let error = Config::parse("f", &text).unwrap_err();
        assert!(error.problems.iter().all(|p| p.message.len() < 400 && !p.message.contains('\n')));
    }
}

/// Pieces that files are made of; put together at random they come near to being one.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "[[bands]]",
        "[tools]",
        "[store]",
        "[retention]",
        "max_age",
        "max_size",
        "\"7d\"",
        "\"1GB\"",
        "[summarize]",
        "[[tool.bash.bands]]",
        "[[tool.\"m*\".bands]]",
        "[bands.then]",
        "[tool.x]",
        "over",
        "action",
        "then",
        "only",
        "except",
        "keep",
        "prompt",
        "model",
        "base_url",
        "api_key_env",
        "path",
        "kind",
        "unit",
        "enabled",
        "max_chars",
        "preview_chars",
        " = ",
        " = ",
        " = ",
        "\n",
        "\n",
        "\n",
        "1",
        "0",
        "-3",
        "1.5",
        "true",
        "\"spill\"",
        "\"truncate\"",
        "'passthrough'",
        "\"head\"",
        "\"{output}\"",
        "[",
        "]",
        "{",
        "}",
        ",",
        ".",
        "\"",
        "#",
        "é",
        "\u{0}",
        "inf",
        "\"a[\"",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// The complete file with a part cut out of it.
fn mutilated() -> impl Strategy<Value = String> {
    (0..COMPLETE.len(), 0..30_usize, "[a-z=\"\\[\\]{}\n0-9.-]{0,3}").prop_map(|(at, gone, put)| {
        let end = (at + gone).min(COMPLETE.len());
        format!("{}{put}{}", &COMPLETE[..at], &COMPLETE[end..])
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in prop_oneof!["(?s).{0,80}", pieces(), mutilated()]) {
        match Config::parse("f", &text) {
            Ok(config) => {
                let shown = config.to_string();
                prop_assert_eq!(Config::parse("f", &shown).unwrap().to_string(), shown);
            }
            Err(error) => {
                prop_assert!(!error.problems.is_empty());
                let lines = text.split('\n').count();
                for problem in &error.problems {
                    prop_assert!((1..=lines).contains(&problem.line), "{:?}", problem);
                    prop_assert!(!problem.message.contains('\n') && !problem.hint.is_empty());
                }
            }
        }
    }

    #[test]
    fn every_text_that_files_may_hold_is_shown_so_that_it_reads_back(
        name in "\\PC{1,12}", prompt in "(?s).{0,40}", path in "(?s).{1,20}",
    ) {
        let mut config = Config {
            prompt: PromptTemplate::new(format!("{{tool_name}}{{output}}{prompt}")).unwrap(),
            store: StoreConfig::Local { path: Some(path.clone().into()) },
            ..Config::default()
        };
        if let Ok(tool_bands) = ToolBands::new([(name, Bands::default())]) {
            config.tool_bands = tool_bands;
        }
        let read = Config::parse("f", &config.to_string()).unwrap();
        prop_assert_eq!(read.to_string(), config.to_string());
        prop_assert_eq!(read.prompt, config.prompt);
        prop_assert_eq!(read.store, config.store);
    }
}

/// The guide's examples are read as they stand there.
#[test]
fn the_guides_examples_are_sound() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let Ok(guide) = std::fs::read_to_string(path) else {
        println!("skipped: no docs/configuration.md beside the crate");
        return;
    };
    let examples: Vec<_> = guide.split("```toml\n").skip(1).collect();
    assert!(examples.len() >= 3);
    for example in examples {
        let text = example.split("```").next().unwrap();
        assert!(Config::parse("example", text).is_ok(), "{text}\n{}", errors(text));
    }
}

/// Every key of the MCP proxy.
const MCP: &str = r#"[mcp]
max_error = "200KB"
resources = true
handle_arguments = ["write_*"]
bare_handles = true
max_argument = "1MB"

[mcp.listen]
token_env = "T"
hosts = ["a.example"]
max_body = "2MB"
max_sessions = 3

[mcp.servers.files]
command = "npx"
args = ["-y", "files"]
cwd = "/srv"
env = { "A.B" = "c" }

[mcp.servers.tickets]
url = "https://a.example/mcp"
token_env = "U"
headers = { X-Team = "core" }
"#;

#[test]
fn what_is_shown_of_mcp_servers_means_the_same() {
    let config = parse(MCP);
    let again = parse(&config.to_string());
    assert_eq!(again.mcp.servers, config.mcp.servers);
    assert_eq!(again.mcp.listen, config.mcp.listen);
    assert_eq!(again.to_string(), config.to_string());
    let mcp = &config.mcp;
    assert_eq!((mcp.max_error, mcp.max_argument), (200_000, 1_000_000));
    assert!(mcp.resources && mcp.bare_handles);
    assert!(mcp.handle_arguments.as_ref().is_some_and(|tools| tools.applies_to("write_file")));
    assert!(parse("").mcp.handle_arguments.is_none());
}

#[test]
fn what_belongs_to_the_other_kind_of_mcp_server_is_refused() {
    let of_command = ["args = [\"x\"]", "cwd = \"/\"", "env = { A = \"b\" }"];
    let of_url = ["token_env = \"T\"", "headers = { A = \"b\" }"];
    for (kind, keys, of) in [
        ("command = \"a\"", &of_url[..], "belongs to a server with a url"),
        ("url = \"https://a\"", &of_command[..], "belongs to a server with a command"),
    ] {
        for key in keys {
            let errors = errors(&format!("[mcp.servers.a]\n{kind}\n{key}"));
            assert!(
                errors.starts_with("overspill.toml:3: ") && errors.contains(of),
                "{key}: {errors}"
            );
        }
    }
}

#[test]
fn mcp_servers_that_make_no_sense_are_refused() {
    for (text, said) in [
        ("[mcp.servers.a]\nargs = []", "lacks command or url"),
        ("[mcp.servers.a]\ncommand = \"a\"\nurl = \"https://a\"", "has a command and a url"),
        ("[mcp.servers.a]\nurl = \"a.example\"", "which is no address"),
        ("[mcp.servers.\"a b\"]\ncommand = \"a\"", "cannot stand before the names of tools"),
        ("[mcp.listen]\nmax_sessions = 0", "so nobody could connect"),
        ("[mcp]\nmax_error = \"much\"", "which is no size"),
        ("[mcp]\nservers = 1", "must be a table"),
    ] {
        let errors = errors(text);
        assert!(errors.contains(said), "{text}: {errors}");
    }
}
