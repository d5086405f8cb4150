//! One file for each command.

mod completions;
mod config;
mod conversation;
mod demo;
mod export;
mod fit;
mod grep;
mod inspect;
mod list;
mod mcp;
mod mcp_wrap;
mod named;
mod pipe;
mod prune;
mod read;
mod read_tool;
mod refit;
mod replay;
mod report;
mod run;
mod show;
mod verify;
mod view;

pub(crate) use fit::{Budget, Name as StrategyName};
pub(crate) use named::Named;

use crate::cli::{Cli, Command, Config, McpAction};
use crate::failure::Failure;

/// Runs the command and returns the exit status.
pub(crate) fn dispatch(cli: Cli) -> Result<u8, Failure> {
    let common = &cli.common;
    match cli.command {
        Command::Run(args) => run::run(common, &args),
        Command::Pipe(args) => pipe::pipe(common, &args),
        Command::Read(args) => read::read(common, args),
        Command::Grep(args) => grep::grep(common, &args),
        Command::List(args) => list::list(common, &args),
        Command::Show(args) => show::show(common, &args),
        Command::Verify(args) => verify::verify(common, &args),
        Command::Prune(args) => prune::prune(common, &args),
        Command::Export(args) => export::export(common, &args),
        Command::Config(Config::Check(args)) => config::check(common, &args),
        Command::Mcp(args) => match &args.action {
            Some(McpAction::Wrap(args)) => mcp_wrap::wrap(common, args),
            Some(McpAction::Unwrap(args)) => mcp_wrap::unwrap(common, args),
            None => mcp::mcp(common, &args),
        },
        Command::Demo(args) => demo::demo(common, &args),
        Command::Completions(args) => completions::completions(&args),
        Command::Fit(args) => fit::fit(common, &args),
        Command::ReadTool(args) => read_tool::read_tool(common, &args),
        Command::Inspect(args) => inspect::inspect(common, &args),
        Command::Replay(args) => replay::replay(common, &args),
    }
}
