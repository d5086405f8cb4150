//! A conversation from a file or standard input, for the commands that take one.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use overspill::count::Counter;
use overspill::image::{ImageRule, Provider};
use overspill_wire::{Conversation, Format, WireError};

use crate::failure::Failure;

/// Reads a conversation; `-` and nothing mean standard input.
pub(super) fn read(
    file: Option<&PathBuf>,
    format: Option<Format>,
) -> Result<Conversation, Failure> {
    let (name, bytes) = match file.filter(|file| file.as_path() != Path::new("-")) {
        Some(file) => {
            let name = file.display().to_string();
            let bytes = fs::read(file)
                .map_err(|error| Failure::from(error).context(format!("cannot read {name}")))?;
            (name, bytes)
        }
        None => {
            let mut bytes = Vec::new();
            if io::stdin().is_terminal() {
                return Err(Failure::usage("no conversation is given")
                    .hint("name a file, or put one on standard input"));
            }
            io::stdin().lock().read_to_end(&mut bytes)?;
            ("standard input".to_owned(), bytes)
        }
    };
    let formats = || Format::ALL.map(Format::name).join(", ");
    let found = format.or_else(|| Format::detect(&bytes));
    Conversation::parse(found.unwrap_or(Format::Chat), bytes.into()).map_err(|error| match found {
        Some(format) if matches!(error, WireError::Shape { .. }) => Failure::from(error)
            .context(format!("{name} is no conversation of format {}", format.name()))
            .hint(format!("other formats are {}", formats())),
        None if matches!(error, WireError::Shape { .. }) => {
            Failure::usage(format!("{name} is of no format that is known"))
                .hint(format!("say which with --format: {}", formats()))
        }
        // No format has what is no JSON at all.
        _ => Failure::from(error).context(format!("cannot read {name}")),
    })
}

/// Counts as the model that the conversation is for does.
pub(super) fn counter(conversation: &Conversation, model: &str) -> Counter {
    let provider = match conversation.format() {
        Format::Anthropic => Provider::Anthropic,
        Format::Gemini => Provider::Google,
        _ => Provider::OpenAi,
    };
    Counter::default().images(ImageRule::of(model, provider))
}
