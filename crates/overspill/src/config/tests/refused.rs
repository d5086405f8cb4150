//! A table of bad files: each goes in, and what its writer reads comes out.

use super::errors;

#[test]
fn unknown_keys_at_any_depth() {
    insta::assert_snapshot!(errors(r#"[[bands]]
over = 10_000
action = "spill"


preveiw_chars = 1"#), @r#"
    overspill.toml:6: unknown key "preveiw_chars" in [[bands]]
    hint: did you mean "preview_chars"?
    "#);
    insta::assert_snapshot!(errors(r#"enabeld = true

[retention]
days = 3

[retentoin]"#), @r#"
    overspill.toml:1: unknown key "enabeld" at the top level
    hint: did you mean "enabled"?
    overspill.toml:4: unknown key "days" in [retention]
    hint: known keys: "max_age", "max_size"
    overspill.toml:6: unknown key "retentoin" at the top level
    hint: did you mean "retention"?
    "#);
    insta::assert_snapshot!(errors(r#"[store]
root = "x"

[tools]
onyl = ["bash"]"#), @r#"
    overspill.toml:2: unknown key "root" in [store]
    hint: known keys: "kind", "path"
    overspill.toml:5: unknown key "onyl" in [tools]
    hint: did you mean "only"?
    "#);
    insta::assert_snapshot!(errors(r#"[[tool.bash.bands]]
over = 1
action = "spill"
then = { action = "truncate", tail_lines = 3 }"#), @r#"
    overspill.toml:4: unknown key "tail_lines" in then of [[tool.bash.bands]]
    hint: did you mean "keep_tail_lines"?
    "#);
    insta::assert_snapshot!(errors(r#"[[bands]]
over = 1
action = "spill"
[bands.then]
action = "truncate"
over = 3"#), @r#"
    overspill.toml:6: unknown key "over" in then of [[bands]]
    hint: known keys: "action", "preview_chars", "max_chars", "keep", "keep_tail_lines", "then"
    "#);
}

#[test]
fn words_that_stand_for_nothing() {
    insta::assert_snapshot!(errors(r#"preset = "leen"
unit = "tokens"
json = "pretty"

[store]
kind = "s3""#), @r#"
    overspill.toml:1: unknown preset "leen"
    hint: did you mean "lean"?
    overspill.toml:2: unknown unit "tokens"
    hint: did you mean "estimated_tokens"?
    overspill.toml:3: unknown json style "pretty"
    hint: write one of "compact", "indented", "lines"
    overspill.toml:6: unknown store "s3" in [store]
    hint: write one of "local", "memory"
    "#);
    insta::assert_snapshot!(errors(r#"[[bands]]
over = 1
action = "Spil"
then = { action = "truncate", keep = "middle" }"#), @r#"
    overspill.toml:3: unknown action "Spil" in [[bands]]
    hint: did you mean "spill"?
    overspill.toml:4: unknown part to keep "middle" in then of [[bands]]
    hint: write one of "head", "tail", "head_and_tail"
    "#);
}

#[test]
fn values_of_the_wrong_type() {
    insta::assert_snapshot!(errors(r#"enabled = "yes"
strip_ansi = 1
unit = 1979-05-27
json = 1.5
read_tool = []
tools = "bash"
store = true"#), @r#"
    overspill.toml:1: "enabled" must be true or false, not a text
    hint: write enabled = true or enabled = false, without quotes
    overspill.toml:2: "strip_ansi" must be true or false, not a number
    hint: write strip_ansi = true or strip_ansi = false, without quotes
    overspill.toml:3: "unit" must be a text, not a date or time
    hint: write unit = "…", in quotes
    overspill.toml:4: "json" must be a text, not a number with a fraction
    hint: write json = "…", in quotes
    overspill.toml:5: "read_tool" must be a text, not a list
    hint: write read_tool = "…", in quotes
    overspill.toml:6: "tools" must be a table, not a text
    hint: write [tools] on a line of its own and its keys below
    overspill.toml:7: "store" must be a table, not true or false
    hint: write [store] on a line of its own and its keys below
    "#);
    insta::assert_snapshot!(errors(r#"[tools]
only = "bash""#), @r#"
    overspill.toml:2: "only" in [tools] must be a list of texts, not a text
    hint: write only = ["…", "…"]
    "#);
    insta::assert_snapshot!(errors(r#"[tools]
except = ["bash",
  3, "a["]"#), @r#"
    overspill.toml:3: "except" in [tools] must be a list of texts, not a number
    hint: write except = ["…", "…"]
    overspill.toml:3: "a[" in "except" in [tools] is no name or glob: unclosed character class; missing ']'
    hint: write a tool's name, or a glob such as "mcp__*"; [[] stands for a bracket
    "#);
    insta::assert_snapshot!(errors(r#"[bands]
over = 10_000
action = "spill""#), @r#"
    overspill.toml:1: "bands" must be a list of tables, not a table
    hint: write [[bands]], with two brackets, before each entry
    "#);
    insta::assert_snapshot!(errors("bands = [3]"), @r#"
    overspill.toml:1: [[bands]] must be a list of tables, not a number
    hint: write [[bands]], with two brackets, before each entry
    "#);
    insta::assert_snapshot!(errors(r#"[[bands]]
over = 1
action = "spill"
then = ["truncate"]"#), @r#"
    overspill.toml:4: "then" in [[bands]] must be an action's name or a table, not a list
    hint: write then = "truncate", or then = { action = "truncate", … }
    "#);
    insta::assert_snapshot!(errors("tool = { bash = 3 }"), @r#"
    overspill.toml:1: "bash" in [tool] must be a table, not a number
    hint: write [[tool.bash.bands]] and the band's keys below
    "#);
}

#[test]
fn cuts_without_room_to_say_so() {
    insta::assert_snapshot!(errors(r#"[[bands]]
over = 1
action = "truncate"
max_chars = 159

[[tool.bash.bands]]
over = 1
action = "spill"
then = { action = "truncate", max_chars = 40, keep = "head" }

[[tool.sh.bands]]
over = 1
action = "truncate"
max_chars = 160"#), @r#"
    overspill.toml:4: "max_chars" in [[bands]] is 159, which leaves no room to say what was left out
    hint: write 160 at least, such as 4000
    overspill.toml:9: "max_chars" in then of [[tool.bash.bands]] is 40, which leaves no room to say what was left out
    hint: write 160 at least, such as 4000
    "#);
}

#[test]
fn numbers_that_are_no_sizes() {
    insta::assert_snapshot!(errors(r#"[[bands]]
over = -1
action = "truncate"
max_chars = 0
keep_tail_lines = 1.0"#), @r#"
    overspill.toml:2: "over" in [[bands]] is negative
    hint: write a whole number, such as 10_000
    overspill.toml:4: "max_chars" in [[bands]] is 0, which leaves no room to say what was left out
    hint: write 160 at least, such as 4000
    overspill.toml:5: "keep_tail_lines" in [[bands]] must be a whole number, not a number with a fraction
    hint: write a whole number, such as 10_000
    "#);
    insta::assert_snapshot!(errors(r#"[[bands]]
over = 0
action = "spill"
preview_chars = "1k""#), @r#"
    overspill.toml:2: "over" in [[bands]] is 0, but an empty return needs no action
    hint: write over = 1 for every return that is not empty
    overspill.toml:4: "preview_chars" in [[bands]] must be a whole number, not a text
    hint: write a whole number, such as 10_000
    "#);
    insta::assert_snapshot!(errors(r#"[[bands]]
over = 99_999_999_999_999_999_999
action = "spill"
preview_chars = inf"#), @r#"
    overspill.toml:2: "over" in [[bands]] is too big
    hint: write a whole number, such as 10_000
    overspill.toml:4: "preview_chars" in [[bands]] must be a whole number, not a number with a fraction
    hint: write a whole number, such as 10_000
    "#);
}

#[test]
fn bands_that_lack_something() {
    insta::assert_snapshot!(errors(r#"[[bands]]

[[bands]]
over = 1
then = {}"#), @r#"
    overspill.toml:1: [[bands]] lacks "action"
    hint: add action = "spill", or another of "passthrough", "truncate", "spill", "summarize"
    overspill.toml:1: [[bands]] lacks "over"
    hint: add the smallest size it applies to, such as over = 10_000
    overspill.toml:3: [[bands]] lacks "action"
    hint: add action = "spill", or another of "passthrough", "truncate", "spill", "summarize"
    overspill.toml:5: then of [[bands]] lacks "action"
    hint: add action = "spill", or another of "passthrough", "truncate", "spill", "summarize"
    "#);
    insta::assert_snapshot!(errors(r#"[tool.bash]
over = 10_000
action = "spill""#), @r#"
    overspill.toml:1: [tool.bash] lacks "bands"
    hint: write [[tool.bash.bands]]; a name with dots needs quotes
    overspill.toml:2: unknown key "over" in [tool.bash]
    hint: known keys: "bands"
    overspill.toml:3: unknown key "action" in [tool.bash]
    hint: known keys: "bands"
    "#);
    insta::assert_snapshot!(errors(r#"[[tool.mcp.read.bands]]
over = 1
action = "spill""#), @r#"
    overspill.toml:1: [tool.mcp] lacks "bands"
    hint: write [[tool.mcp.bands]]; a name with dots needs quotes
    overspill.toml:1: unknown key "read" in [tool.mcp]
    hint: known keys: "bands"
    "#);
}

#[test]
fn options_of_another_action() {
    insta::assert_snapshot!(errors(r#"[[bands]]
over = 1
action = "truncate"
preview_chars = 10"#), @r#"
    overspill.toml:4: "preview_chars" in [[bands]] is an option of spill, not of truncate
    hint: leave it out; truncate takes "max_chars", "keep", "keep_tail_lines"
    "#);
    insta::assert_snapshot!(errors(r#"[[bands]]
over = 1
action = "spill"
max_chars = 10
then = { action = "summarize", keep = "head" }"#), @r#"
    overspill.toml:4: "max_chars" in [[bands]] is an option of truncate, not of spill
    hint: leave it out; spill takes "preview_chars"
    overspill.toml:5: "keep" in then of [[bands]] is an option of truncate, not of summarize
    hint: leave it out; summarize takes no options
    "#);
}

#[test]
fn a_passthrough_never_fails() {
    insta::assert_snapshot!(errors(r#"[[bands]]
over = 1
action = "passthrough"
then = "spill""#), @r#"
    overspill.toml:4: "then" in [[bands]] follows a passthrough, which never fails
    hint: leave "then" out
    "#);
    insta::assert_snapshot!(errors(r#"[[bands]]
over = 1
action = "spill"
then = { action = "passthrough", then = { action = "truncate" } }"#), @r#"
    overspill.toml:4: then of [[bands]] follows a passthrough, which never fails
    hint: leave "then" out
    "#);
}

#[test]
fn two_bands_with_one_threshold() {
    insta::assert_snapshot!(errors(r#"[[bands]]
over = 10_000
action = "spill"

[[bands]]
over = 10000
action = "truncate""#), @r#"
    overspill.toml:6: "over" in [[bands]] is 10000, as on line 2
    hint: give each threshold one band; "then" names what runs when it cannot
    "#);
    insta::assert_snapshot!(errors(r#"[[tool.bash.bands]]
over = 5
action = "spill"
[[tool.bash.bands]]
over = 0x5
action = "spill""#), @r#"
    overspill.toml:5: "over" in [[tool.bash.bands]] is 5, as on line 2
    hint: give each threshold one band; "then" names what runs when it cannot
    "#);
}

#[test]
fn tools_that_are_no_tools() {
    insta::assert_snapshot!(errors(r#"[tools]
only = []"#), @r#"
    overspill.toml:2: "only" in [tools] is empty
    hint: leave it out for all tools; enabled = false applies to none
    "#);
    insta::assert_snapshot!(errors(r#"[tools]
except = []"#), @r#"
    overspill.toml:2: "except" in [tools] is empty
    hint: leave it out for all tools; enabled = false applies to none
    "#);
    insta::assert_snapshot!(errors(r#"[tools]
only = ["bash"]
except = ["grep"]"#), @r#"
    overspill.toml:3: "only" and "except" stand together in [tools]
    hint: keep one: "only" lists the tools it applies to, "except" those it spares
    "#);
    insta::assert_snapshot!(errors(r#"[tools]
only = [
  "bash",
  "mcp__[",
  "",
]"#), @r#"
    overspill.toml:4: "mcp__[" in "only" in [tools] is no name or glob: unclosed character class; missing ']'
    hint: write a tool's name, or a glob such as "mcp__*"; [[] stands for a bracket
    overspill.toml:5: "" in "only" in [tools] is no name or glob: it is empty
    hint: write a tool's name, or a glob such as "mcp__*"; [[] stands for a bracket
    "#);
    insta::assert_snapshot!(errors(r#"[[tool."{a".bands]]
over = 1
action = "spill""#), @r#"
    overspill.toml:1: "{a" is no name or glob of a tool: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
    hint: write [[tool.NAME.bands]], or a glob: [[tool."mcp__*".bands]]
    "#);
}

#[test]
fn models_that_cannot_be_asked() {
    insta::assert_snapshot!(errors(r#"[summarize]
model = "gpt-5-mini""#), @r#"
    overspill.toml:2: "model" in [summarize] is "gpt-5-mini": it does not begin with openai:, anthropic: or ollama:
    hint: write how it is asked before its name, as in "openai:gpt-5-mini"; vLLM, llama.cpp and others are asked as openai: with a base_url
    "#);
    insta::assert_snapshot!(errors(r#"[summarize]
model = "openai:gpt 5""#), @r#"
    overspill.toml:2: "model" in [summarize] is "openai:gpt 5": what stands behind the provider is no name of a model
    hint: write one such as "openai:gpt-5-mini"
    "#);
    insta::assert_snapshot!(errors(r#"[summarize]
base_url = "http://localhost:8000/v1""#), @r#"
    overspill.toml:2: "base_url" in [summarize] is for a model, and none is named
    hint: write model = "openai:…" beside it, or leave it out
    "#);
    insta::assert_snapshot!(errors(r#"[summarize]
model = "openai:m"
base_url = "localhost:8000"
api_key_env = "OPENAI-KEY""#), @r#"
    overspill.toml:3: "base_url" in [summarize]: it does not begin with https:// or http:// and a host
    hint: write one such as "http://localhost:8000/v1"
    overspill.toml:4: "api_key_env" in [summarize] is no name of an environment variable
    hint: write the variable's name, such as "OPENAI_API_KEY", and never the key itself
    "#);
    // What may be secret is not repeated.
    let text = "[summarize]\nmodel = \"openai:m\"\napi_key_env = \"sk-proj-1234\"\n\
                base_url = \"https://me:sk-5678@example.com\"";
    insta::assert_snapshot!(errors(text), @r#"
    overspill.toml:3: "api_key_env" in [summarize] is no name of an environment variable
    hint: write the variable's name, such as "OPENAI_API_KEY", and never the key itself
    overspill.toml:4: "base_url" in [summarize]: it holds a user name, a password, a query, a fragment or white space
    hint: write only scheme, host, port and path; a key belongs in a variable, whose name is api_key_env
    "#);
    assert!(!errors(text).contains("1234") && !errors(text).contains("5678"));
}

#[test]
fn names_prompts_and_paths_that_cannot_work() {
    insta::assert_snapshot!(errors(r#"read_tool = """#), @r#"
    overspill.toml:1: "read_tool" is empty, so no host can register it
    hint: write the name the host registers it under, such as "read_tool_result"
    "#);
    insta::assert_snapshot!(errors(r#"read_tool = "read it""#), @r#"
    overspill.toml:1: "read_tool" holds white space, so no host can register it
    hint: write the name the host registers it under, such as "read_tool_result"
    "#);
    insta::assert_snapshot!(errors(r#"[summarize]
prompt = "Sum up {output}""#), @r#"
    overspill.toml:2: "prompt" in [summarize] lacks {tool_name}
    hint: write {tool_name} where the tool's name belongs and {output} where its output does
    "#);
    insta::assert_snapshot!(errors(r#"[summarize]
prompt = """
Sum up
""""#), @r#"
    overspill.toml:2: "prompt" in [summarize] lacks {tool_name} and {output}
    hint: write {tool_name} where the tool's name belongs and {output} where its output does
    "#);
    insta::assert_snapshot!(errors(r#"[store]
kind = "memory"
path = "spills""#), @r#"
    overspill.toml:3: "path" in [store] belongs to a local store, and this one is in memory
    hint: leave it out, or write kind = "local"
    "#);
    insta::assert_snapshot!(errors(r#"[store]
path = """#), @r#"
    overspill.toml:2: "path" in [store] is empty
    hint: write a folder, or leave it out for the default one
    "#);
}

#[test]
fn limits_that_are_none() {
    insta::assert_snapshot!(errors(r#"[retention]
max_age = 30
max_size = true"#), @r#"
    overspill.toml:2: "max_age" in [retention] must be a text, not a number
    hint: write max_age = "…", in quotes
    overspill.toml:3: "max_size" in [retention] must be a text, not true or false
    hint: write max_size = "…", in quotes
    "#);
    insta::assert_snapshot!(errors(r#"[retention]
max_age = "30 days"
max_size = "10G""#), @r#"
    overspill.toml:2: "max_age" in [retention] is "30 days", which is no age
    hint: write a whole number and a unit, s, m, h, d or w, such as "30d"
    overspill.toml:3: "max_size" in [retention] is "10G", which is no size
    hint: write a whole number and a unit, B, KB, MB, GB or TB (or KiB, MiB, …), such as "10GB"
    "#);
    insta::assert_snapshot!(errors(r#"[retention]
max_age = "0d"
max_size = "0 GB""#), @r#"
    overspill.toml:2: "max_age" in [retention] is 0, which keeps nothing
    hint: leave it out to keep everything
    overspill.toml:3: "max_size" in [retention] is 0, which keeps nothing
    hint: leave it out to keep everything
    "#);
    insta::assert_snapshot!(errors(r#"[store]
kind = "memory"
[retention]
max_size = "1GB""#), @r#"
    overspill.toml:4: "max_size" in [retention] is for a local store, and this one is in memory
    hint: leave [retention] out; a store in memory ends with the program
    "#);
}

#[test]
fn text_that_is_not_toml() {
    insta::assert_snapshot!(errors(r#"enabled = true
unit = characters"#), @r#"
    overspill.toml:2: not TOML: string values must be quoted, expected literal string
    hint: write key = value with texts in quotes; https://toml.io has the rules
    "#);
    insta::assert_snapshot!(errors(r#"[tools
only = ["a"]
enabled == true"#), @r#"
    overspill.toml:1: not TOML: unclosed table, expected `]`
    hint: write key = value with texts in quotes; https://toml.io has the rules
    overspill.toml:3: not TOML: extra `=`, expected nothing
    hint: write key = value with texts in quotes; https://toml.io has the rules
    "#);
    insta::assert_snapshot!(errors(r#"unit = "characters"
unit = "characters""#), @r#"
    overspill.toml:2: the key "unit" stands twice
    hint: keep one of the two
    "#);
    insta::assert_snapshot!(errors(r#"[store]
[store]"#), @r#"
    overspill.toml:2: the key "store" stands twice
    hint: keep one of the two
    "#);
}
