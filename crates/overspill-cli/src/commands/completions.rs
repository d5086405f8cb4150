//! `overspill completions`: a script for a shell.

use clap::CommandFactory;

use crate::cli::{Cli, Completions};
use crate::failure::Failure;
use crate::output::Out;

pub(crate) fn completions(args: &Completions) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "overspill", &mut script);
    let mut out = Out::new();
    out.bytes(&script)?;
    Ok(out.flush().map(|()| 0)?)
}
