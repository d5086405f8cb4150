use proptest::prelude::*;

use super::*;

fn known(model: &str) -> ModelWindow {
    resolve(model, &WindowOptions::default())
}

/// Which row is found, its window, and its input budget where that is less.
fn picture(model: &str) -> String {
    let found = known(model);
    let budget = match found.input_budget {
        budget if budget == found.tokens => String::new(),
        budget => format!(" ({budget} in)"),
    };
    format!("{} {}{budget}", found.known_as.unwrap_or("?"), found.tokens)
}

#[track_caller]
fn check(pictures: &[(&str, &str)]) {
    for (model, expected) in pictures {
        assert_eq!(picture(model), *expected, "{model}");
    }
}

#[test]
fn a_name_may_be_dated() {
    check(&[
        ("gpt-5.2", "gpt-5-2 400000 (272000 in)"),
        ("gpt-5.2-2025-12-11", "gpt-5-2-2025-12-11 400000 (272000 in)"),
        ("gpt-5.2-2026-02-30", "gpt-5-2 400000 (272000 in)"),
        ("claude-opus-4-5-20260101", "claude-opus-4-5 200000"),
        ("claude-opus-4-5@20260101", "claude-opus-4-5 200000"),
        ("gemini-2.5-flash-preview-05-20", "gemini-2-5-flash 1048576"),
        ("gemini-2.0-flash-001", "gemini-2-0-flash 1048576"),
        ("cohere/command-a-plus-07-2026", "? 200000"),
        ("gpt-4-0314", "gpt-4 8192"),
    ]);
}

#[test]
fn a_name_may_say_who_serves_it() {
    check(&[
        ("openai:gpt-4o", "gpt-4o 128000"),
        ("openai/gpt-4o", "gpt-4o 128000"),
        ("OpenAI/GPT-4o", "gpt-4o 128000"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5 200000"),
        ("anthropic:claude-opus-5", "claude-opus-5 1000000"),
        ("openrouter:anthropic/claude-sonnet-4.5", "claude-sonnet-4-5 200000"),
        ("openrouter/qwen/qwen3-coder:free", "qwen3-coder 262144"),
        ("google-gla:gemini-2.5-pro", "gemini-2-5-pro 1048576"),
        ("models/gemini-2.5-pro", "gemini-2-5-pro 1048576"),
        ("xai/grok-4-0709", "grok-4-0709 256000"),
        ("my-host/Llama-3.3-70B-Instruct", "llama-3-3-70b-instruct 131072"),
        ("groq:llama-3.3-70b-versatile", "llama-3-3-70b-versatile 131072"),
        // A host may serve less than the maker.
        ("github_copilot/claude-sonnet-5.5", "github-copilot/claude-sonnet-5-5 200000"),
        ("tensormesh/moonshotai/Kimi-K2.6", "tensormesh/kimi-k2-6 32768"),
        ("github_copilot/claude-opus-9", "? 200000"),
    ]);
}

#[test]
fn bedrock_and_vertex_spell_in_their_own_way() {
    let arn = "arn:aws:bedrock:us-east-1:123456789012:inference-profile/";
    let dated = "claude-sonnet-4-5-20250929";
    check(&[
        ("bedrock:us.anthropic.claude-opus-4-8", "us.anthropic.claude-opus-4-8 1000000"),
        ("bedrock/ca.anthropic.claude-opus-4-8", "anthropic.claude-opus-4-8 1000000"),
        (&format!("{arn}us.anthropic.{dated}-v1:0"), &format!("us.anthropic.{dated}-v1:0 200000")),
        ("sa.anthropic.claude-sonnet-4-5-20260101-v1:0", "claude-sonnet-4-5 200000"),
        ("us.meta.llama3-3-70b-instruct-v1:0", "us.meta.llama3-3-70b-instruct-v1:0 128000"),
        (&format!("vertex_ai/claude-sonnet-4-5@{}", "20250929"), &format!("{dated} 200000")),
        (
            "projects/p/locations/global/publishers/anthropic/models/claude-opus-4-1@20250805",
            "claude-opus-4-1-20250805 200000",
        ),
    ]);
}

#[test]
fn a_fine_tuned_model_has_the_window_of_its_base() {
    check(&[
        ("ft:gpt-4o-mini-2024-07-18:org::id", "ft:gpt-4o-mini-2024-07-18 128000"),
        ("openai:ft:gpt-4.1-2025-04-14:org:name:id", "ft:gpt-4-1-2025-04-14 1047576"),
        ("ft:gpt-5.2-2025-12-11:org::id", "gpt-5-2-2025-12-11 400000 (272000 in)"),
    ]);
}

/// A name is never cut down to that of another family.
#[test]
fn another_model_is_not_taken_for_its_family() {
    let unknown = "? 200000";
    check(&[
        ("", unknown),
        ("unknown-model", unknown),
        ("gpt", unknown),
        ("gpt-", unknown),
        ("gpt-5.9-sol", unknown),
        ("gpt-4.2", unknown),
        ("gpt-4o-mega", unknown),
        ("claude-opus-4-9", unknown),
        ("claude-sonnet-50", unknown),
        ("o5-preview", unknown),
        ("gemini-2.5-flash-image-generation", unknown),
        ("azure/my-deployment", unknown),
        ("llama3.1:8b-of-my-own", unknown),
        ("arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123", unknown),
        ("# Made by tools/models.py", unknown),
        // Retired, and not what their names begin with.
        ("gpt-4-32k", "gpt-4-32k 32768"),
        ("gpt-4-0125-preview", "gpt-4-0125-preview 128000"),
        ("o1-preview-2024-09-12", "o1-preview 128000"),
        ("gemini-2.5-flash-image", "gemini-2-5-flash-image 32768"),
    ]);
}

#[test]
fn the_user_has_the_last_word() {
    let options = WindowOptions::default()
        .context_window("openai:gpt-5", 100_000)
        .context_window("claude-sonnet-4-5", 1_000_000)
        .context_window("azure/my-deployment", 64_000)
        .fallback(32_000);
    let said = |model| {
        let found = resolve(model, &options);
        (found.tokens, found.input_budget, found.source)
    };
    assert_eq!(said("openai/gpt-5-2025-08-07"), (100_000, 100_000, Source::Override));
    assert_eq!(said("anthropic:claude-sonnet-4-5"), (1_000_000, 1_000_000, Source::Override));
    assert_eq!(said("azure:my-deployment"), (64_000, 64_000, Source::Override));
    assert_eq!(said("gpt-5-mini"), (400_000, 272_000, Source::Table));
    assert_eq!(said("who-knows"), (32_000, 32_000, Source::Fallback));
    assert!(resolve("anthropic:claude-sonnet-4-5", &options).prices.input.is_some());

    // What the provider keeps for the response stays kept.
    let larger = WindowOptions::default().context_window("*", 400_000);
    assert_eq!(resolve("gpt-5", &larger).input_budget, 272_000);
    assert_eq!(resolve("who-knows", &larger).input_budget, 400_000);
}

#[test]
fn prices_are_those_of_the_row() {
    let prices = known("anthropic:claude-opus-5").prices;
    assert_eq!(prices.input, Some(5.0));
    assert_eq!(prices.output, Some(25.0));
    assert_eq!(prices.cache_read, Some(0.5));
    assert_eq!(prices.cache_write, Some(6.25));
    // What nothing is known about, or what is given away, has no price.
    assert_eq!(known("my-host/Llama-3.3-70B-Instruct").prices, Prices::default());
}

#[test]
fn every_row_is_found_by_its_own_name() {
    let rows: Vec<Row> = table::rows().collect();
    assert!(rows.len() > 3_000, "{} rows", rows.len());
    assert!(rows.is_sorted_by(|a, b| a.name < b.name));
    for row in rows {
        assert!(row.input <= row.window && row.window > 0, "{row:?}");
        assert_eq!(table::find(row.name), Some(row));
        let keys = name::keys(row.name);
        assert_eq!(keys.iter().find_map(|key| table::find(key)), Some(row));
    }
}

/// Each model is looked up as if the table did not have it: what is then found by a shorter name
/// must not have a larger window, or a trigger set by it would fire too late. The exceptions have
/// rows of their own; look at what is added to them before you believe it.
#[test]
fn a_shorter_name_rarely_promises_more() {
    let exceptions = [
        "codestral-latest",
        "command-a-vision-07-2025",
        "deepseek-v3-2-251201",
        "ft:gpt-3-5-turbo-0613",
        "kimi-k2-thinking-251104",
        "mistral-medium-3-001",
        "mistral-small-2503-001",
        "o1-preview",
        "qwen3-8-max-0902",
    ];
    let is_bare = |name: &&str| !name.contains('/');
    let mut wrong = Vec::new();
    for row in table::rows().filter(|row| is_bare(&row.name)) {
        let keys = name::keys(row.name);
        let shorter =
            keys.iter().map(String::as_str).filter(is_bare).filter(|key| *key != row.name);
        let Some(other) = shorter.into_iter().find_map(table::find) else { continue };
        // Hosts round: 128,000 and 131,072 are one window.
        if other.window > row.window + row.window / 10 {
            wrong.push(row.name);
        }
    }
    assert_eq!(wrong, exceptions);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_text_gets_an_answer(model in any_name(), tokens in any::<u64>()) {
        let options = WindowOptions::default().context_window(&model, tokens);
        let found = known(&model);
        prop_assert!(found.input_budget <= found.tokens);
        prop_assert_eq!(found.known_as.is_some(), found.source == Source::Table);
        let stated = resolve(&model, &options);
        prop_assert!(stated.input_budget <= stated.tokens);
        if !model.trim().is_empty() && model.len() <= 2_048 {
            prop_assert_eq!((stated.tokens, stated.source), (tokens, Source::Override));
        }
    }

    #[test]
    fn a_trigger_is_within_its_window(window in 1_u64..=10_000_000, fraction in 0.0..=1.0) {
        prop_assert!((1..=window).contains(&fraction_trigger(window, fraction)));
    }
}

/// Any text, and texts of the pieces that names are made of.
fn any_name() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "gpt",
        "claude",
        "-",
        "--",
        ".",
        "/",
        ":",
        "@",
        "_",
        " ",
        "é",
        "第",
        "5",
        "20250929",
        "v1",
        "0",
        "us.",
        "anthropic.",
        "ft:",
        "preview",
        "latest",
        "[1m]",
        "2025-08-07",
        "05-20",
        "\t",
        "\n",
        "+5",
    ]);
    let built = prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat());
    prop_oneof![any::<String>(), built]
}

#[test]
fn a_hostile_name_is_soon_refused() {
    for piece in ["-1", "a.", ":", "/", "20250929-", "é"] {
        assert_eq!(known(&piece.repeat(10_000_000)).source, Source::Fallback);
    }
}
