//! `overspill config check`: what the configuration comes to, and from where.

use overspill::Action;
use overspill::config::{Config, Problem};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli;
use crate::failure::{Failure, USAGE};
use crate::output::Out;
use crate::settings::{Origin, Settings, SettingsError, StoreRoot};
use crate::signals::Interrupt;

/// A problem as `--json` writes it.
#[derive(Debug, Serialize)]
struct InFile<'a> {
    file: &'a str,
    #[serde(flatten)]
    problem: &'a Problem,
}

pub(crate) fn check(common: &cli::Common, args: &cli::ConfigCheck) -> Result<u8, Failure> {
    let mut out = Out::new();
    let settings = match Settings::load(common, &args.policy, args.file.as_deref()) {
        Ok(settings) => settings,
        Err(SettingsError::File(error)) if common.json => {
            let in_file = |problem| InFile { file: &error.file, problem };
            let problems: Vec<_> = error.problems.iter().map(in_file).collect();
            out.json(&json!({ "problems": problems }))?;
            out.flush()?;
            return Ok(USAGE);
        }
        Err(error) => return Err(error.into()),
    };
    // Bands and the read tool's name are checked together only here.
    settings.limits(&Interrupt::default())?;
    match common.json {
        true => out.json(&report(&settings))?,
        false => out.text(&text(&settings))?,
    }
    Ok(out.flush().map(|()| 0)?)
}

fn report(settings: &Settings) -> Value {
    let from = |origin: &Origin| origin.to_string();
    let file = settings.file.as_ref();
    let file = file
        .map(|file| json!({ "path": file.path.display().to_string(), "from": from(&file.origin) }));
    let store = match &settings.store {
        StoreRoot::At(path, origin) => {
            json!({ "path": path.display().to_string(), "from": from(origin) })
        }
        StoreRoot::Memory | StoreRoot::Homeless => Value::Null,
    };
    let overrides = settings.overrides.iter();
    let overrides: Vec<_> =
        overrides.map(|(key, origin)| json!({ "key": key, "from": from(origin) })).collect();
    json!({
        "file": file,
        "store": store,
        "overrides": overrides,
        "notes": notes(settings),
        "config": settings.config,
    })
}

/// A complete configuration file, opened by comments that say where it comes from.
fn text(settings: &Settings) -> String {
    let mut text = match &settings.file {
        Some(file) => format!("# file: {} ({})\n", file.path.display(), file.origin),
        None => "# file: none; these are the defaults\n".to_owned(),
    };
    if let StoreRoot::At(path, origin) = &settings.store {
        text.push_str(&format!("# store: {} ({origin})\n", path.display()));
    }
    for (key, origin) in &settings.overrides {
        text.push_str(&format!("# {key}: {origin} goes before the file\n"));
    }
    for note in notes(settings) {
        text.push_str(&format!("# note: {}\n", note.replace('\n', "\n#   ")));
    }
    let config = &settings.config;
    if config.bands == config.preset.bands(&config.unit) {
        text.push_str("# bands: the preset's; behind `overspill mcp` they truncate nothing\n");
    }
    format!("{text}\n{}", settings.config)
}

/// What is well said and still will not be done.
fn notes(settings: &Settings) -> Vec<String> {
    let mut notes = Vec::new();
    if let Err(failure) = settings.open_store() {
        notes.push(failure.to_string());
    }
    if let Err(why) = settings.retention() {
        notes.push(why.to_owned());
    }
    if let Some(keys) = settings.unheeded().keys(true) {
        notes.push(format!(
            "{keys} of a project's file do not count for `overspill mcp`; name the file with --config, \
             or move them to the file in the user's configuration folder"
        ));
    }
    if summarizes(&settings.config)
        && let Err(failure) = settings.model(None)
    {
        notes.push(format!("{failure}\nuntil then, what stands behind `then` runs instead"));
    }
    notes
}

fn summarizes(config: &Config) -> bool {
    let of_tools = config.tool_bands.iter().flat_map(|(_, bands)| bands.iter());
    let mut actions = config.bands.iter().chain(of_tools).flat_map(|band| band.action.chain());
    actions.any(|action| matches!(action, Action::Summarize(..)))
}
