//! What a configuration file means: names become values, and what makes no sense is refused.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use super::problem::{Problem, did_you_mean, list, quoted};
use super::raw::{RawAction, RawBand, RawConfig};
use super::section::{Given, Said};
use super::{Config, ModelConfig, Preset, StoreConfig};
use crate::action::{Action, Spill, Summarize};
use crate::band::{Band, Bands};
use crate::cut::{Keep, Truncate};
use crate::filter::{Pattern, PatternError, ToolBands, ToolFilter};
use crate::measure::Unit;
use crate::render::JsonStyle;
use crate::store::{Age, ByteSize, Retention};
use crate::summary::{BaseUrl, BaseUrlError, ModelName, ModelNameError, PromptTemplate};

/// The longest name the read tool can have: MCP's bound on tool names.
const MAX_TOOL_NAME_CHARS: usize = 128;

/// The options of each action, in the order the documentation lists them.
const OPTIONS: &[(&str, &[&str])] = &[
    ("passthrough", &[]),
    ("truncate", &["max_chars", "keep", "keep_tail_lines"]),
    ("spill", &["preview_chars"]),
    ("summarize", &[]),
];

pub(super) const KEEPS: &[(&str, Keep)] =
    &[("head", Keep::Head), ("tail", Keep::Tail), ("head_and_tail", Keep::HeadAndTail)];

pub(super) const JSON_STYLES: &[(&str, JsonStyle)] = &[
    ("compact", JsonStyle::Compact),
    ("indented", JsonStyle::Indented),
    ("lines", JsonStyle::Lines),
];

/// Builds the configuration that `raw` means; what it does not say keeps its default, and so
/// does, for want of better, what makes no sense and is told of in `problems`.
pub(super) fn resolve(raw: &RawConfig, problems: &mut Vec<Problem>) -> Config {
    let mut meaning = Meaning { problems };
    let presets = Preset::ALL.map(|preset| (preset.name(), preset));
    let preset = meaning.choose("preset", &raw.preset, &presets).unwrap_or_default();
    let unit = meaning.unit(&raw.unit);
    let bands = match raw.bands.given() {
        Some(given) => meaning.bands(&given.value),
        None => preset.bands(&unit),
    };
    let mcp = raw.mcp.resolve(meaning.problems);
    Config {
        mcp,
        enabled: raw.enabled.given().is_none_or(|given| given.value),
        preset,
        strip_ansi: raw.strip_ansi.given().is_some_and(|given| given.value),
        json: meaning.choose("json style", &raw.json, JSON_STYLES).unwrap_or_default(),
        read_tool: meaning.read_tool(&raw.read_tool),
        tools: meaning.tools(&raw.only, &raw.except),
        bands,
        tool_bands: meaning.tool_bands(&raw.tools),
        prompt: meaning.prompt(&raw.prompt),
        model: meaning.model(raw),
        store: meaning.store(&raw.store_kind, &raw.store_path),
        retention: meaning.retention(raw),
        unit,
    }
}

struct Meaning<'p> {
    problems: &'p mut Vec<Problem>,
}

impl Meaning<'_> {
    fn choose<T: Clone>(
        &mut self,
        what: &str,
        said: &Said<String>,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let Given { value, at } = said.given()?;
        if let Some((_, choice)) = choices.iter().find(|(name, _)| name == value) {
            return Some(choice.clone());
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let place = at.name.find(" in ").map_or("", |start| &at.name[start..]);
        self.problems.push(at.problem(
            format!("unknown {what} {}{place}", quoted(value)),
            did_you_mean(value, &names, "write one of"),
        ));
        None
    }

    fn unit(&mut self, said: &Said<String>) -> Unit {
        let units = [("characters", Unit::Characters), ("estimated_tokens", Unit::EstimatedTokens)];
        self.choose("unit", said, &units).unwrap_or_default()
    }

    fn read_tool(&mut self, said: &Said<String>) -> String {
        let Some(Given { value, at }) = said.given() else {
            return Config::READ_TOOL.to_owned();
        };
        let fault = if value.is_empty() {
            "is empty"
        } else if value.chars().any(|c| c.is_whitespace() || c.is_control()) {
            "holds white space"
        } else if value.chars().count() > MAX_TOOL_NAME_CHARS {
            "is longer than 128 characters"
        } else {
            return value.clone();
        };
        self.problems.push(at.problem(
            format!("{} {fault}, so no host can register it", at.name),
            format!("write the name the host registers it under, such as {:?}", Config::READ_TOOL),
        ));
        value.clone()
    }

    fn tools(
        &mut self,
        only: &Said<Vec<Given<String>>>,
        except: &Said<Vec<Given<String>>>,
    ) -> ToolFilter {
        if let (Some(only), Some(except)) = (only.at(), except.at()) {
            let later = if only.line > except.line { only } else { except };
            self.problems.push(later.problem(
                "\"only\" and \"except\" stand together in [tools]",
                "keep one: \"only\" lists the tools it applies to, \"except\" those it spares",
            ));
        }
        let mut texts = |said: &Said<Vec<Given<String>>>| -> Vec<String> {
            let given = said.given().map_or(&[][..], |given| &given.value);
            given.iter().filter(|text| self.is_pattern(text)).map(|t| t.value.clone()).collect()
        };
        let (named, spared) = (texts(only), texts(except));
        for said in [only, except] {
            if let Some(Given { value, at }) = said.given()
                && value.is_empty()
            {
                self.problems.push(at.problem(
                    format!("{} is empty", at.name),
                    "leave it out for all tools; enabled = false applies to none",
                ));
            }
        }
        // Every pattern is sound by now, so what fails is an empty list, told of above.
        if only.at().is_some() {
            ToolFilter::only(named).unwrap_or_default()
        } else {
            ToolFilter::except(spared).unwrap_or_default()
        }
    }

    fn is_pattern(&mut self, Given { value, at }: &Given<String>) -> bool {
        match Pattern::new(value) {
            Ok(_) => true,
            Err(error) => {
                let reason = match error {
                    PatternError::BadPattern { reason, .. } => reason,
                    other => other.to_string(),
                };
                self.problems.push(at.problem(
                    format!("{} in {} is no name or glob: {reason}", quoted(value), at.name),
                    "write a tool's name, or a glob such as \"mcp__*\"; [[] stands for a bracket",
                ));
                false
            }
        }
    }

    fn tool_bands(&mut self, tools: &[(Given<String>, Vec<RawBand>)]) -> ToolBands {
        let mut entries = Vec::new();
        for (name, bands) in tools {
            let bands = self.bands(bands);
            match Pattern::new(&name.value) {
                Ok(pattern) => entries.push((pattern.is_name(), &name.value, bands)),
                Err(PatternError::BadPattern { reason, .. }) => {
                    self.problems.push(name.at.problem(
                        format!("{} is no name or glob of a tool: {reason}", quoted(&name.value)),
                        "write [[tool.NAME.bands]], or a glob: [[tool.\"mcp__*\".bands]]",
                    ))
                }
                Err(_) => {}
            }
        }
        // A name is the closer word on a tool than a glob, wherever in the file it stands: TOML
        // gives the order of tables no meaning, and programs that write it sort them.
        entries.sort_by_key(|(is_name, ..)| !is_name);
        // TOML refuses a table that stands twice, and every pattern is sound.
        ToolBands::new(entries.into_iter().map(|(_, name, bands)| (name, bands)))
            .unwrap_or_default()
    }

    fn bands(&mut self, raw: &[RawBand]) -> Bands {
        let mut bands = BTreeMap::new();
        for band in raw {
            let action = self.chain(&band.chain);
            let over = match &band.over {
                Said::This(over) => over,
                Said::Nonsense(_) => continue,
                Said::Nothing => {
                    self.problems.push(band.at.problem(
                        format!("{} lacks \"over\"", band.at.name),
                        "add the smallest size it applies to, such as over = 10_000",
                    ));
                    continue;
                }
            };
            if over.value == 0 {
                self.problems.push(over.at.problem(
                    format!("{} is 0, but an empty return needs no action", over.at.name),
                    "write over = 1 for every return that is not empty",
                ));
            }
            if let Some((line, _)) = bands.get(&over.value) {
                self.problems.push(over.at.problem(
                    format!("{} is {}, as on line {line}", over.at.name, over.value),
                    "give each threshold one band; \"then\" names what runs when it cannot",
                ));
                continue;
            }
            bands.insert(over.value, (over.at.line, action.unwrap_or(Action::Passthrough)));
        }
        let bands = bands.into_iter().map(|(over, (_, action))| Band::new(over, action));
        Bands::new(bands).unwrap_or_default()
    }

    fn chain(&mut self, raw: &[RawAction]) -> Option<Action> {
        for (action, then) in raw.iter().zip(raw.iter().skip(1)) {
            if action.action.given().is_some_and(|name| name.value == "passthrough") {
                self.problems.push(then.at.problem(
                    format!("{} follows a passthrough, which never fails", then.at.name),
                    "leave \"then\" out",
                ));
            }
        }
        let actions: Vec<_> = raw.iter().map(|action| self.action(action)).collect();
        // Built from the end, so that each link is put on once.
        actions.into_iter().rev().flatten().reduce(|then, action| action.or(then))
    }

    fn action(&mut self, raw: &RawAction) -> Option<Action> {
        if let Said::Nothing = raw.action {
            self.problems.push(raw.at.problem(
                format!("{} lacks \"action\"", raw.at.name),
                format!("add action = \"spill\", or another of {}", list(&names(OPTIONS))),
            ));
        }
        let &own = self.choose("action", &raw.action, OPTIONS).as_ref()?;
        let name = raw.action.given()?.value.as_str();
        self.refuse_options_of_others(raw, name, own);
        Some(match name {
            "truncate" => {
                let default = Truncate::default();
                let keep = self.choose("part to keep", &raw.keep, KEEPS);
                if let Some(Given { value, at }) = raw.max_chars.given()
                    && *value < Truncate::MIN_CHARS
                {
                    let name = &at.name;
                    self.problems.push(at.problem(
                        format!("{name} is {value}, which leaves no room to say what was left out"),
                        format!(
                            "write {} at least, such as {}",
                            Truncate::MIN_CHARS,
                            default.max_chars
                        ),
                    ));
                }
                Truncate {
                    max_chars: number(&raw.max_chars, default.max_chars),
                    keep: keep.unwrap_or(default.keep),
                    keep_tail_lines: number(&raw.keep_tail_lines, default.keep_tail_lines),
                }
                .into()
            }
            "spill" => {
                let preview_chars = number(&raw.preview_chars, Spill::PREVIEW_CHARS);
                Spill { preview_chars }.into()
            }
            "summarize" => Summarize::default().into(),
            _ => Action::Passthrough,
        })
    }

    fn refuse_options_of_others(&mut self, raw: &RawAction, name: &str, own: &[&str]) {
        let options = [
            ("preview_chars", raw.preview_chars.at()),
            ("max_chars", raw.max_chars.at()),
            ("keep", raw.keep.at()),
            ("keep_tail_lines", raw.keep_tail_lines.at()),
        ];
        for (option, at) in options {
            let Some(at) = at else { continue };
            if own.contains(&option) {
                continue;
            }
            let owner = OPTIONS.iter().find(|(_, own)| own.contains(&option));
            let owner = owner.map_or("another action", |(owner, _)| owner);
            let takes = match own {
                [] => "takes no options".to_owned(),
                own => format!("takes {}", list(own)),
            };
            self.problems.push(at.problem(
                format!("{} is an option of {owner}, not of {name}", at.name),
                format!("leave it out; {name} {takes}"),
            ));
        }
    }

    fn prompt(&mut self, said: &Said<String>) -> PromptTemplate {
        let Some(Given { value, at }) = said.given() else {
            return PromptTemplate::default();
        };
        PromptTemplate::new(value.as_str()).unwrap_or_else(|error| {
            self.problems.push(at.problem(
                format!("{} lacks {}", at.name, error.missing.join(" and ")),
                "write {tool_name} where the tool's name belongs and {output} where its output does",
            ));
            PromptTemplate::default()
        })
    }

    fn model(&mut self, raw: &RawConfig) -> Option<ModelConfig> {
        let base_url = self.base_url(&raw.base_url);
        let api_key_env = self.api_key_env(&raw.api_key_env);
        let Some(Given { value, at }) = raw.model.given() else {
            // What makes no sense is told of already.
            let of_none = [raw.base_url.at(), raw.api_key_env.at()].into_iter().flatten().next();
            if let (Said::Nothing, Some(at)) = (&raw.model, of_none) {
                self.problems.push(at.problem(
                    format!("{} is for a model, and none is named", at.name),
                    "write model = \"openai:…\" beside it, or leave it out",
                ));
            }
            return None;
        };
        match value.parse::<ModelName>() {
            Ok(model) => Some(ModelConfig { model, base_url, api_key_env }),
            Err(error) => {
                let hint = match error {
                    ModelNameError::NoProvider => {
                        "write how it is asked before its name, as in \"openai:gpt-5-mini\"; vLLM, \
                         llama.cpp and others are asked as openai: with a base_url"
                    }
                    _ => "write one such as \"openai:gpt-5-mini\"",
                };
                let message = format!("{} is {}: {error}", at.name, quoted(value));
                self.problems.push(at.problem(message, hint));
                None
            }
        }
    }

    fn base_url(&mut self, said: &Said<String>) -> Option<BaseUrl> {
        let Given { value, at } = said.given()?;
        let error = match value.parse() {
            Ok(url) => return Some(url),
            Err(error) => error,
        };
        let hint = match error {
            BaseUrlError::NotHttp => "write one such as \"http://localhost:8000/v1\"",
            _ => {
                "write only scheme, host, port and path; a key belongs in a variable, whose name is \
                 api_key_env"
            }
        };
        self.problems.push(at.problem(format!("{}: {error}", at.name), hint));
        None
    }

    fn api_key_env(&mut self, said: &Said<String>) -> Option<String> {
        let Given { value, at } = said.given()?;
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_name =
            value.starts_with(is_first) && value.chars().all(|c| is_first(c) || c.is_ascii_digit());
        if !is_name {
            // It may be a key, so it is not repeated.
            self.problems.push(at.problem(
                format!("{} is no name of an environment variable", at.name),
                "write the variable's name, such as \"OPENAI_API_KEY\", and never the key itself",
            ));
            return None;
        }
        Some(value.clone())
    }

    fn store(&mut self, kind: &Said<String>, path: &Said<String>) -> StoreConfig {
        let memory = self.choose("store", kind, &[("local", false), ("memory", true)]);
        let Some(Given { value, at }) = path.given() else {
            let memory = memory.unwrap_or_default();
            return if memory { StoreConfig::Memory } else { StoreConfig::default() };
        };
        if memory == Some(true) {
            self.problems.push(at.problem(
                format!("{} belongs to a local store, and this one is in memory", at.name),
                "leave it out, or write kind = \"local\"",
            ));
        }
        if value.is_empty() {
            self.problems.push(at.problem(
                format!("{} is empty", at.name),
                "write a folder, or leave it out for the default one",
            ));
        }
        StoreConfig::Local { path: Some(PathBuf::from(value)) }
    }

    fn retention(&mut self, raw: &RawConfig) -> Retention {
        if raw.store_kind.given().is_some_and(|kind| kind.value == "memory")
            && let Some(at) = raw.max_age.at().or(raw.max_size.at())
        {
            self.problems.push(at.problem(
                format!("{} is for a local store, and this one is in memory", at.name),
                "leave [retention] out; a store in memory ends with the program",
            ));
        }
        let age = self.limit::<Age>("age", Age::HINT, &raw.max_age, |age| age.0.is_zero());
        let size =
            self.limit::<ByteSize>("size", ByteSize::HINT, &raw.max_size, |size| size.0 == 0);
        Retention { max_age: age.map(|age| age.0), max_bytes: size.map(|size| size.0) }
    }

    fn limit<T: FromStr>(
        &mut self,
        what: &str,
        hint: &str,
        said: &Said<String>,
        is_zero: impl FnOnce(&T) -> bool,
    ) -> Option<T> {
        let Given { value, at } = said.given()?;
        match value.parse() {
            Ok(limit) if is_zero(&limit) => self.problems.push(at.problem(
                format!("{} is 0, which keeps nothing", at.name),
                "leave it out to keep everything",
            )),
            Ok(limit) => return Some(limit),
            Err(_) => self.problems.push(
                at.problem(format!("{} is {}, which is no {what}", at.name, quoted(value)), hint),
            ),
        }
        None
    }
}

fn number(said: &Said<usize>, default: usize) -> usize {
    said.given().map_or(default, |given| given.value)
}

fn names<T>(choices: &[(&'static str, T)]) -> Vec<&'static str> {
    choices.iter().map(|(name, _)| *name).collect()
}
