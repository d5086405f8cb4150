//! The command line of Overspill: reduces what commands print, and reads back what it stored.

mod cli;
mod commands;
mod failure;
mod feed;
mod model;
mod output;
mod settings;
mod shelf;
mod signals;
mod target;
mod wrap;

use std::process::ExitCode;

fn main() -> ExitCode {
    signals::survive_full_files();
    let cli = cli::parse();
    match commands::dispatch(cli) {
        Ok(status) => ExitCode::from(status),
        // Whoever read the output has seen enough of it.
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            output::error(&failure);
            ExitCode::from(failure.status)
        }
    }
}
