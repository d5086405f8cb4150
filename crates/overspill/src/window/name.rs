//! Names of models as users write them, and the names under which the table knows the same model.
//!
//! | written | looked for, in turn |
//! |---|---|
//! | `gpt-5.2-2025-12-11` | `gpt-5-2-2025-12-11`, `gpt-5-2` |
//! | `openrouter:anthropic/claude-sonnet-4.5` | `openrouter/claude-sonnet-4-5`, `claude-sonnet-4-5` |
//! | `us.anthropic.claude-opus-4-8-v1:0` | itself, `anthropic.claude-opus-4-8-v1:0`, `claude-opus-4-8` |
//! | `models/gemini-2.5-flash-preview-05-20` | …, `gemini-2-5-flash-preview`, `gemini-2-5-flash` |
//! | `ft:gpt-4o-mini-2024-07-18:org::id` | `ft:gpt-4o-mini-2024-07-18`, `gpt-4o-mini-2024-07-18`, … |

/// Longer than any name: Bedrock's identifiers have at most 2,048 characters. The bound keeps the
/// work of a hostile name small.
const MAX_NAME_BYTES: usize = 2_048;

/// What may stand after a name without making it another model: variants of OpenRouter, and the
/// tag that Ollama takes for the default.
const TAGS: [&str; 9] =
    ["beta", "exacto", "extended", "floor", "free", "latest", "nitro", "online", "thinking"];

/// Words for how finished a model is, and the version numbers of Gemini.
const STAGES: [&str; 7] = ["latest", "preview", "exp", "experimental", "default", "001", "002"];

/// Hosts that serve other makers' models in windows of their own, mostly smaller ones: their models
/// are known only under their names. `tools/models.py` has the same list.
const OWN_WINDOWS: [&str; 2] = ["chatgpt", "github-copilot"];

/// The names under which the table may know a model, the most exact first; none where the text
/// cannot be a name.
pub(crate) fn keys(model: &str) -> Vec<String> {
    let mut keys = Vec::new();
    for (host, name) in places(model) {
        for name in without_makers(&name) {
            for name in shortened(&name) {
                let hosted = host.as_deref().map(|host| format!("{host}/{name}"));
                let own = host.as_deref().is_some_and(|host| OWN_WINDOWS.contains(&host));
                for key in hosted.into_iter().chain((!own).then_some(name)) {
                    if !keys.contains(&key) {
                        keys.push(key);
                    }
                }
            }
        }
    }
    keys
}

/// The bare name: without host, region and maker, but with its date. Families are told by it.
pub(crate) fn plain(model: &str) -> String {
    let places = places(model);
    let name = places.first().map_or("", |(_, name)| name);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    without_makers(name).pop().unwrap_or_default()
}

/// Whether a bare name is that of a family, or of a variant: `o3`, `o3-pro`, not `o300`.
pub(crate) fn is_of(name: &str, family: &str) -> bool {
    name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// What follows `gpt-` in a bare name of one of OpenAI's numbered models, and its version:
/// `chatgpt-4o-latest` → `4o-latest`, 4.0. None for `gpt-oss-120b` and `gpt-j-6b`.
pub(crate) fn gpt(name: &str) -> Option<(&str, (u32, u32))> {
    let (before, rest) = name.split_once("gpt-")?;
    let is_whole = matches!(before, "" | "chat") || before.ends_with('-');
    let is_numbered = rest.starts_with(|sign: char| sign.is_ascii_digit());
    Some((rest, version(rest)?)).filter(|_| is_whole && is_numbered)
}

/// The version in a name, major and minor: `opus-4-7-20260416` → 4.7, `4o-mini` → 4.0.
pub(crate) fn version(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.split('-').skip_while(|part| short_number(part).is_none());
    let major = short_number(parts.next()?)?;
    let minor = parts.next().filter(|part| part.len() <= 2).and_then(short_number);
    Some((major, minor.unwrap_or(0)))
}

/// The number that a part of a name begins with, unless it is so long that it is a date.
fn short_number(part: &str) -> Option<u32> {
    let digits = part.len() - part.trim_start_matches(|sign: char| sign.is_ascii_digit()).len();
    if digits <= 2 { part[..digits].parse().ok() } else { None }
}

/// Lower case, and one sign where hosts differ: `claude-sonnet-4.5`, `claude-sonnet-4-5`;
/// `claude-haiku-4-5@20251001`; `Llama-3_1`. A period before a letter stays: it ends Bedrock's
/// region or maker. `tools/models.py` spells the table alike.
fn spell(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let mut rest = name.chars().peekable();
    let mut spelled = String::with_capacity(name.len());
    while let Some(sign) = rest.next() {
        let digit_follows = rest.peek().is_some_and(char::is_ascii_digit);
        spelled.push(match sign {
            '.' if digit_follows => '-',
            '_' | '@' | ' ' => '-',
            other => other,
        });
    }
    spelled
}

/// The hosts and names that a text may mean, spelled, the likeliest first. Only `:` is ambiguous: it
/// stands between a provider and a name (`openai:gpt-5`) and before a tag (`llama3.1:8b`).
fn places(model: &str) -> Vec<(Option<String>, String)> {
    let model = model.trim();
    if model.is_empty() || model.len() > MAX_NAME_BYTES {
        return Vec::new();
    }
    if let Some((path, name)) = model.rsplit_once('/') {
        let host = path.split(['/', ':']).next().map(spell);
        return vec![(host, spell(name))];
    }
    let whole = (None, spell(model));
    match model.split_once(':') {
        Some((host, name)) if !host.eq_ignore_ascii_case("ft") && is_name(name) => {
            vec![(Some(spell(host)), spell(name)), whole]
        }
        _ => vec![whole],
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && !TAGS.contains(&text)
}

/// The name, then ever shorter ones that can only be the same model: without its tag, its date,
/// its stage. Nothing else is ever cut: `gpt-5.7-sol` is no `gpt-5`.
fn shortened(name: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    for shorten in [without_tag, without_date, without_stage] {
        let shortest = names.last().map_or(name, String::as_str);
        if let Some(shorter) = shorten(shortest).filter(|shorter| !shorter.is_empty()) {
            names.push(shorter.to_owned());
        }
    }
    // A model of one's own has the window of the one it was made from.
    let bases = names.iter().filter_map(|name| name.strip_prefix("ft:")).map(str::to_owned);
    let bases: Vec<String> = bases.collect();
    names.extend(bases);
    names
}

/// `qwen3-coder:free`, `claude-opus-4-8[1m]`, `ft:gpt-4o:org:name:id`.
fn without_tag(name: &str) -> Option<&str> {
    if let Some(base) = name.strip_prefix("ft:") {
        return base.find(':').map(|at| &name[.."ft:".len() + at]);
    }
    name.strip_suffix("[1m]").or_else(|| {
        let (name, tag) = name.rsplit_once(':')?;
        TAGS.contains(&tag).then_some(name)
    })
}

/// `-20250929`, `-2025-09-29`, `-09-2025`, `-05-20`, `-0613`, `-250922`.
fn without_date(name: &str) -> Option<&str> {
    let (head, last) = name.rsplit_once('-').filter(|(_, last)| is_number(last))?;
    match last.len() {
        8 if is_year(&last[..4]) && is_day(&last[4..]) => Some(head),
        6 if is_year(&format!("20{}", &last[..2])) && is_day(&last[2..]) => Some(head),
        4 if is_day(last) => Some(head),
        4 if is_year(last) => head.rsplit_once('-').filter(|(_, month)| is_month(month)).map(first),
        2 => {
            let (head, month) = head.rsplit_once('-')?;
            let is_date = month.len() == 2 && is_day(&format!("{month}{last}"));
            let dated = head.rsplit_once('-').filter(|(_, year)| is_year(year)).map(first);
            is_date.then(|| dated.unwrap_or(head))
        }
        _ => None,
    }
}

fn first<'a>((first, _): (&'a str, &'a str)) -> &'a str {
    first
}

/// `gemini-2-5-flash-preview`, `claude-3-5-haiku-latest`, `gemini-2-0-flash-001`.
fn without_stage(name: &str) -> Option<&str> {
    let (head, stage) = name.rsplit_once('-')?;
    STAGES.contains(&stage).then_some(head)
}

/// The name, and, where it is one of Bedrock's, the name without region, then without maker and
/// version: `us.anthropic.claude-opus-4-8-v1:0`.
fn without_makers(name: &str) -> Vec<String> {
    let mut names = vec![name.to_owned()];
    let mut rest = name;
    while let Some((prefix, name)) = rest.split_once('.') {
        let is_prefix = prefix.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_prefix || name.is_empty() || names.len() > 2 {
            break;
        }
        names.push(name.to_owned());
        rest = name;
    }
    if names.len() > 1
        && let Some(name) = without_version(rest)
    {
        names.push(name.to_owned());
    }
    names
}

/// `-v1:0`, `-v1`.
fn without_version(name: &str) -> Option<&str> {
    let (head, version) = name.rsplit_once("-v")?;
    (version.split(':').all(is_number) && !head.is_empty()).then_some(head)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_year(text: &str) -> bool {
    text.len() == 4 && is_number(text) && matches!(text.parse(), Ok(2020_u32..=2039))
}

fn is_month(text: &str) -> bool {
    text.len() == 2 && is_number(text) && matches!(text.parse(), Ok(1_u32..=12))
}

/// A month and a day in four digits.
fn is_day(text: &str) -> bool {
    text.len() == 4
        && is_number(text)
        && is_month(&text[..2])
        && matches!(text[2..].parse(), Ok(1_u32..=31))
}
