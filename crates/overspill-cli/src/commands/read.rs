//! `overspill read`: what the read tool answers.

use futures_lite::future::block_on;
use overspill::read::{self, MAX_CONTEXT, MAX_LIMIT, Pattern, ReadArgs};
use serde_json::json;

use crate::cli;
use crate::failure::{Failure, USAGE};
use crate::output::Out;
use crate::settings::Settings;
use crate::shelf::Shelf;

pub(crate) fn read(common: &cli::Common, args: cli::Read) -> Result<u8, Failure> {
    if let Some(pattern) = args.pattern.as_ref().filter(|_| args.regex) {
        Pattern::regex(pattern).map_err(|error| Failure::from(error).with_status(USAGE))?;
    }
    let settings = Settings::of_reader(common)?;
    let shelf = Shelf::open(&settings)?;
    let handle = shelf.handle(&args.handle)?;
    let mut asked = ReadArgs::new(handle.as_str());
    asked.offset = args.offset;
    asked.limit = args.limit.min(MAX_LIMIT);
    asked.from_end = args.from_end;
    asked.pattern = args.pattern.filter(|pattern| !pattern.is_empty());
    asked.regex = args.regex;
    asked.context = args.context.min(MAX_CONTEXT);
    asked.json_path = args.json_path;
    let answer = block_on(read::try_read(&shelf.port, &asked, settings.config.strip_ansi))
        .map_err(|sentence| shelf.explain_sentence(&handle, sentence))?;
    let mut out = Out::new();
    match common.json {
        true => out.json(&json!({ "handle": handle, "answer": answer }))?,
        false => out.text(&answer)?,
    }
    Ok(out.flush().map(|()| 0)?)
}
