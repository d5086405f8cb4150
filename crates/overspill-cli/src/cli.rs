//! What can be said on the command line.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use overspill::config::Preset;
use overspill::store::{Age, ByteSize};
use overspill_wire::Format;

/// Reads the command line; where it is wrong, says so and ends.
pub(crate) fn parse() -> Cli {
    let words = std::env::args_os().skip(1);
    let words: Vec<_> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let parsed = Cli::try_parse().and_then(|cli| match &cli.command {
        // Nothing stands behind the dashes, where a variable was empty for instance.
        Command::Mcp(mcp)
            if mcp.command.is_empty() && words.last().is_some_and(|it| it == "--") =>
        {
            let mut program = Cli::command();
            program.build();
            let what = "no command stands behind --; write the server's there, or leave -- out";
            let of = program
                .find_subcommand_mut("mcp")
                .map(|mcp| mcp.error(ErrorKind::MissingRequiredArgument, what));
            Err(of.unwrap_or_else(|| program.error(ErrorKind::MissingRequiredArgument, what)))
        }
        _ => Ok(cli),
    });
    parsed.unwrap_or_else(|mut error| {
        let tip = two_servers(&words, &error)
            .or_else(|| unknown_option(&words, &error))
            .or_else(|| forgotten_dashes(&words, &error));
        if let Some((kind, word)) = similar(&words, &error) {
            error.remove(ContextKind::Suggested);
            error.insert(kind, ContextValue::String(word));
        } else if let Some(tip) = tip {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
        error.exit()
    })
}

/// What to say where `mcp` is given servers in more than one way.
fn two_servers(words: &[String], error: &clap::Error) -> Option<String> {
    let mut options = words.iter().take_while(|word| *word != "--");
    let names_server = |word: &String| word.starts_with("--url") || word.starts_with("--server");
    let is_mcp = words.first()? == "mcp" && error.kind() == ErrorKind::ArgumentConflict;
    (is_mcp && options.any(names_server)).then(|| {
        "to stand before both, name them under [mcp.servers] in overspill.toml, and give neither here"
            .to_owned()
    })
}

/// The command or the option of `mcp` that was meant.
fn similar(words: &[String], error: &clap::Error) -> Option<(ContextKind, String)> {
    let mut program = Cli::command();
    program.build();
    let invalid = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    if let Some(word) = invalid(ContextKind::InvalidSubcommand) {
        let mut names = program.get_subcommands().map(clap::Command::get_name);
        let meant = names.find(|name| is_slip_of(name, word))?;
        return Some((ContextKind::SuggestedSubcommand, meant.to_owned()));
    }
    let word = invalid(ContextKind::InvalidArg).filter(|_| is_of_mcp(words, error))?;
    let mcp = program.find_subcommand("mcp")?;
    if !word.starts_with('-') {
        let is_action = words.get(1).is_some_and(|it| it == word);
        let mut names = mcp.get_subcommands().map(clap::Command::get_name);
        let meant = names.find(|name| is_action && is_slip_of(name, word))?;
        return Some((ContextKind::SuggestedSubcommand, meant.to_owned()));
    }
    let near = |long: &&str| is_slip_of(long, word.trim_start_matches('-'));
    let known = match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(known)) => Some(known.clone()),
        _ => None,
    };
    let found =
        || Some(format!("--{}", mcp.get_arguments().filter_map(|it| it.get_long()).find(near)?));
    Some((ContextKind::SuggestedArg, known.or_else(found)?))
}

/// Whether one word has the other's letters in another order, or but for one.
fn is_slip_of(meant: &str, word: &str) -> bool {
    let mut left: Vec<char> = word.chars().collect();
    let mut missing = 0;
    for letter in meant.chars() {
        match left.iter().position(|it| *it == letter) {
            Some(at) => drop(left.swap_remove(at)),
            None => missing += 1,
        }
    }
    missing + left.len() <= 1
}

/// Whether `mcp` itself was given a word that it does not know.
fn is_of_mcp(words: &[String], error: &clap::Error) -> bool {
    let is_action = words.get(1).is_some_and(|it| it == "wrap" || it == "unwrap");
    let is_mcp = words.first().is_some_and(|it| it == "mcp");
    error.kind() == ErrorKind::UnknownArgument && is_mcp && !is_action
}

/// What to say where `mcp` is given an option that it has not, and nothing like it.
fn unknown_option(words: &[String], error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    if !is_of_mcp(words, error) || !word.starts_with('-') {
        return None;
    }
    let is_header = ["-H", "--header", "--headers"].contains(&word.as_str());
    Some(match is_header {
        true => "headers are given in OVERSPILL_MCP_HEADERS, one `Name: value` a line".to_owned(),
        false => format!(
            "an option of the server's own stands behind its command: overspill mcp -- COMMAND {word}"
        ),
    })
}

/// What to say where a server's command stands behind `mcp` without `--`.
fn forgotten_dashes(words: &[String], error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    if !is_of_mcp(words, error) || words.iter().any(|it| it == "--") || word.starts_with('-') {
        return None;
    }
    let (options, command) = words.split_at(words.iter().position(|it| it == word)?);
    let line = [&["overspill".to_owned()], options, &["--".to_owned()], command].concat();
    Some(format!("put -- before the server's command: {}", line.join(" ")))
}

/// Keeps an LLM agent's context window small without losing anything.
///
/// Runs a command, stores what it prints, and shows an excerpt with a handle by which any part
/// can be read back.
#[derive(Debug, Parser)]
#[command(name = "overspill", version, after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  overspill run -- cargo test            run a command; a long output is stored and cut short
  overspill read cli/cargo --offset 400  read on from line 400 of what it printed
  overspill grep panicked cli/cargo      search all of it

Exit status:
  0  done
  1  not found, no match, damaged, or failed
  2  the command line or the configuration is wrong
  `run` ends with the command's own status: 128 + n if signal n ended it, 127 if it was not
  found, 126 if it could not be run.

Settings: a flag goes before the environment (OVERSPILL_CONFIG, OVERSPILL_STORE, \
OVERSPILL_PRESET, OVERSPILL_ENABLED, OVERSPILL_RUN), the environment before the file, the file \
before the defaults. The file is overspill.toml in the current directory or the nearest one \
above it, else in ~/.config/overspill. NO_COLOR turns colours off.";

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// The configuration file [env: OVERSPILL_CONFIG]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,
    /// The folder payloads are stored in [env: OVERSPILL_STORE]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) store: Option<PathBuf>,
    /// Answer in JSON, for scripts
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Pipe(Pipe),
    Read(Read),
    Grep(Grep),
    List(List),
    Show(Show),
    Verify(Verify),
    Prune(Prune),
    Export(Export),
    #[command(subcommand)]
    Config(Config),
    Mcp(Mcp),
    Demo(Demo),
    Completions(Completions),
    Replay(Replay),
    Fit(Fit),
    Inspect(Inspect),
    ReadTool(ReadTool),
}

/// What `run` and `pipe` may lay over the configuration.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Policy {
    /// The bands to use instead of those configured: default, lean [env: OVERSPILL_PRESET]
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<Preset>,
    /// Whether to do anything at all; with false, every byte passes as it came
    /// [env: OVERSPILL_ENABLED]
    #[arg(long, value_name = "BOOL")]
    pub(crate) enabled: Option<bool>,
    /// The run that handles begin with, by default "cli" [env: OVERSPILL_RUN]
    #[arg(long = "run", value_name = "ID")]
    pub(crate) run_id: Option<String>,
}

fn at_least_one(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("it must be a whole number of lines from 1 to 1000".to_owned()),
        Ok(lines) => Ok(lines),
    }
}

/// An address, or a port of this machine's own, by number or behind `localhost`.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").unwrap_or(text).parse();
    if let Ok(port) = port {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| {
        "it must be a port, such as 8931, or an address of this machine and a port, such as \
         127.0.0.1:8931"
            .to_owned()
    })
}

fn some_age(text: &str) -> Result<Age, String> {
    match text.parse::<Age>().map_err(|error| error.to_string())? {
        age if age.0.is_zero() => Err(keeps_nothing()),
        age => Ok(age),
    }
}

fn some_size(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>().map_err(|error| error.to_string())? {
        ByteSize(0) => Err(keeps_nothing()),
        size => Ok(size),
    }
}

fn keeps_nothing() -> String {
    "it is 0, which keeps nothing; leave it out to keep everything".to_owned()
}

/// Run a command and show its output, reduced where it is long
///
/// Standard output and standard error become one stream. It is stored while the command runs, and
/// what should be seen of it is printed at the end. Signals reach the command; what it printed
/// until then is stored. The exit status is the command's.
#[derive(Debug, Args)]
#[command(
    override_usage = "overspill run [OPTIONS] -- COMMAND [ARGUMENT]...",
    after_help = "\
Examples:
  overspill run -- cargo test
  overspill run --tool bash -- sh -c 'make 2>&1 | tee build.log'
  overspill run --json -- git log -p

With --json: {\"output\", \"exit_status\", \"reductions\": [{\"action\", \"over\", \"before\", \"after\", \
\"receipt\"}], \"warnings\"}; an output that is not UTF-8 is \"output_base64\" instead. Sizes are \
{\"bytes\", \"chars\", \"measured\"}, the last in the unit of the policy. Where a model was asked, \
\"usage\" says what it took."
)]
pub(crate) struct Run {
    /// The tool whose bands apply; by default the command's file name
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Option<String>,
    /// The call that the handle names; by default the tool
    #[arg(long, value_name = "ID")]
    pub(crate) call: Option<String>,
    #[command(flatten)]
    pub(crate) policy: Policy,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Show standard input, reduced where it is long
///
/// The same as `run` for what comes through a pipe.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  git log -p | overspill pipe --tool git
  curl -s https://example.org/items.json | overspill pipe --tool fetch --json

With --json: as `overspill run --json`, without the exit status.")]
pub(crate) struct Pipe {
    /// The tool whose bands apply
    #[arg(long, value_name = "NAME", default_value = "pipe")]
    pub(crate) tool: String,
    /// The call that the handle names; by default the tool
    #[arg(long, value_name = "ID")]
    pub(crate) call: Option<String>,
    #[command(flatten)]
    pub(crate) policy: Policy,
}

/// Read a part of what is stored, as the read tool shows it to a model
///
/// The first line of the answer says which lines these are, of how many, and where to go on.
/// Lines are numbered from 0. An answer has at most 1,000 lines and 50,000 characters.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill read cli/cargo.3yb5o7…                 the first 200 lines
  overspill read cli/cargo --offset 400            from line 400 on
  overspill read cli/cargo --from-end --limit 20   the last 20 lines
  overspill read cli/cargo --pattern error --context 3
  overspill read cli/curl --json-path '$.items[?@.id == 7]'

The name of a call, as in cli/cargo, is its newest payload. Else a handle may be shortened to its \
beginning, or to the beginning of its digest, where that names one payload only. With --json: {\"handle\", \"answer\"}.")]
pub(crate) struct Read {
    /// The handle, from a marker or from `overspill list`
    pub(crate) handle: String,
    /// The first line to show or to search; with --from-end, how many to leave out at the end
    #[arg(long, value_name = "LINE", default_value_t = 0)]
    pub(crate) offset: u64,
    /// How many lines to show, at most 1,000
    #[arg(long, value_name = "N", default_value_t = overspill::read::DEFAULT_LIMIT,
          value_parser = at_least_one)]
    pub(crate) limit: u64,
    /// Count from the end
    #[arg(long)]
    pub(crate) from_end: bool,
    /// Show only lines that hold this text, with their numbers
    #[arg(long, value_name = "TEXT", conflicts_with = "json_path")]
    pub(crate) pattern: Option<String>,
    /// Take the pattern for a regular expression
    #[arg(long, requires = "pattern")]
    pub(crate) regex: bool,
    /// Lines to show around each match, at most 50
    #[arg(long, value_name = "N", default_value_t = 0, requires = "pattern")]
    pub(crate) context: u64,
    /// Show what this RFC 9535 query finds in a JSON payload
    #[arg(long, value_name = "QUERY")]
    pub(crate) json_path: Option<String>,
}

/// Search all of what is stored under a handle
///
/// Prints each line that matches with its number, from which `overspill read --offset` goes on.
/// Unlike `read --pattern` it has no bound. Ends with status 1 where nothing matches.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill grep panicked cli/cargo
  overspill grep --regex '^error(\\[E\\d+\\])?:' cli/cargo --context 5
  overspill grep --count WARN cli/journalctl

With --json, one object a line: {\"line\", \"match\", \"text\"}, where \"match\" is false for a line of \
the context; with --count: {\"handle\", \"count\"}.")]
pub(crate) struct Grep {
    /// The text to look for
    pub(crate) pattern: String,
    /// The handle, or its beginning
    pub(crate) handle: String,
    /// Take the pattern for a regular expression, looked for in each line by itself
    #[arg(long, short = 'E')]
    pub(crate) regex: bool,
    /// Lines to show around each match
    #[arg(long, short = 'C', value_name = "N", default_value_t = 0)]
    pub(crate) context: u64,
    /// Print only how many lines match
    #[arg(long, short, conflicts_with = "context")]
    pub(crate) count: bool,
}

/// List what is stored, the newest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill list
  overspill list --run cli --json

With --json: [{\"handle\", \"tool\", \"bytes\", \"lines\", \"modified\"}], where \"modified\" is in seconds \
since 1970 (negative before) and a damaged payload has {\"damaged\": WHAT} instead of tool and lines.")]
pub(crate) struct List {
    /// Only this run's
    #[arg(long = "run", value_name = "ID")]
    pub(crate) run_id: Option<String>,
}

/// Show the receipt of what is stored under a handle
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill show cli/cargo

With --json: {\"handle\", \"bytes\", \"chars\", \"lines\", \"digest\", \"media_type\", \"tool\", \"modified\", \
\"index\"}; the digest is BLAKE3.")]
pub(crate) struct Show {
    /// The handle, or its beginning
    pub(crate) handle: String,
}

/// Read payloads through and compare them with what was stored
///
/// Computes each digest again. Ends with status 1 if a payload is damaged, missing or cannot be read,
/// which is also said of anything but a file that stands in its place; a missing or damaged index
/// loses nothing and is only mentioned.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill verify                all of them
  overspill verify cli/cargo

With --json: [{\"handle\", \"state\", \"detail\"}]; the state is \"ok\", \"damaged\", \"missing\" or \
\"unreadable\".")]
pub(crate) struct Verify {
    /// Handles, or their beginnings; none, or the word `all`, for everything
    #[arg(value_name = "HANDLE")]
    pub(crate) handles: Vec<String>,
}

/// Delete what has expired, and clean up after crashed writers
///
/// What expires, the table `retention` of overspill.toml says, or in its place these flags; without either,
/// nothing does.
/// Deletes the oldest first to come under a size, but nothing of the last hour, and nothing that is
/// under a lease. Removes what crashed writers left, builds missing and damaged indexes again, and
/// removes empty runs. Ends with status 1 if something could not be done.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill prune --dry-run
  overspill prune --older-than 7d
  overspill prune --max-size 1GB --json

With --json: {\"dry_run\", \"expired\": [{\"handle\", \"bytes\", \"modified\", \"cause\"}], \
\"kept\": [{\"handle\", \"bytes\", \"modified\", \"leased\"}], \"leftovers\", \"indexes\", \"warnings\"}, where \
the last but one are how many files of crashed writers, and how many missing or damaged indexes, \
there were.")]
pub(crate) struct Prune {
    /// Show what would go and what would stay, and do nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Delete what is older, such as 12h, 7d or 4w
    #[arg(long, value_name = "AGE", value_parser = some_age)]
    pub(crate) older_than: Option<Age>,
    /// Delete the oldest until all payloads together are no larger, such as 500MB or 1GB
    #[arg(long, value_name = "SIZE", value_parser = some_size)]
    pub(crate) max_size: Option<ByteSize>,
}

/// Write the original bytes to standard output or a file
///
/// They are compared with the digest on the way: what is damaged ends with status 1, and no file is
/// made of it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill export cli/cargo > test.log
  overspill export cli/curl -o items.json

With --json, which needs --output: {\"handle\", \"file\", \"bytes\", \"digest\"}.")]
pub(crate) struct Export {
    /// The handle, or its beginning
    pub(crate) handle: String,
    /// The file to write; it must not exist
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file where it exists
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

/// The configuration
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    Check(ConfigCheck),
}

/// Check the configuration and print what it comes to, and from where
///
/// What it prints is a complete overspill.toml. Ends with status 2 if something is wrong with it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill config check
  overspill config check ./overspill.toml
  OVERSPILL_PRESET=lean overspill config check --json

With --json: {\"file\", \"store\", \"overrides\", \"notes\", \"config\"}, or {\"problems\": [{\"file\", \"line\", \
\"key\", \"message\", \"hint\"}]}.")]
pub(crate) struct ConfigCheck {
    /// The file to check instead of the one in use
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: Policy,
}

/// Stand between an MCP client and MCP servers, so that no tool floods the context
///
/// Takes the place of a server in a client's configuration. Every message passes as it is; a tool's
/// result that is too long is stored, and an excerpt and a handle stand in its place. The client is
/// offered one more tool, read_tool_result, that reads any part back. Without a command and a url,
/// the servers are those under [mcp.servers] in overspill.toml.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    mut_arg("run_id", |arg| {
        arg.help("The run that handles begin with, by default \"mcp\" [env: OVERSPILL_RUN]")
    }),
    override_usage = "\
overspill mcp [OPTIONS] [-- COMMAND [ARGUMENT]...]
       overspill mcp --url URL [OPTIONS]
       overspill mcp wrap|unwrap [OPTIONS] FILE",
    after_help = "\
Examples:
  a server that is started
    overspill mcp -- npx -y @modelcontextprotocol/server-filesystem /srv
  a server over streamable HTTP, with a token or with headers of its own
    overspill mcp --url https://tickets.example.org/mcp --token-env TICKETS_TOKEN
    OVERSPILL_MCP_HEADERS='X-Key: k' overspill mcp --url https://tickets.example.org/mcp
  the servers of a file as one, or one of them
    overspill mcp --config ~/.config/overspill/overspill.toml
    overspill mcp --config ~/.config/overspill/overspill.toml --server tickets
  offered over HTTP itself, at http://127.0.0.1:8931/mcp; to others, at http://box.lan:8931/mcp
    overspill mcp --listen 8931 -- my-server
    overspill mcp --listen 0.0.0.0:8931 --listen-token-env TOK --host box.lan -- my-server
  in a client
    claude mcp add files -- overspill mcp -- npx -y @modelcontextprotocol/server-filesystem /srv
    overspill mcp wrap .mcp.json

OVERSPILL_MCP_URL is a url that may hold a key, and OVERSPILL_MCP_HEADERS the headers that are sent \
to it, one `Name: value` a line; a server that is started finds neither. What --listen allows besides, \
hosts, max_body and max_sessions, stands under [mcp.listen] in overspill.toml; which servers and tools \
are given what is stored is said by the user's own file, or one that is named. What goes wrong is said on \
standard error. It ends when its input does, or on a signal, and ends its servers before."
)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    pub(crate) action: Option<McpAction>,
    /// The server's address, for one that speaks streamable HTTP
    #[arg(long, value_name = "URL", conflicts_with_all = ["command", "server"])]
    pub(crate) url: Option<String>,
    /// The environment variable with the bearer token that the url wants
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub(crate) token_env: Option<String>,
    /// Only this server of the file; can be given several times
    #[arg(long, value_name = "NAME", conflicts_with = "command")]
    pub(crate) server: Vec<String>,
    /// Offer the proxy over streamable HTTP at http://ADDR/mcp, instead of standard input and output;
    /// a port alone is one of 127.0.0.1, and port 0 takes a free one
    #[arg(long, value_name = "ADDR", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// The environment variable with the bearer token that clients must send
    #[arg(long, value_name = "NAME", requires = "listen")]
    pub(crate) listen_token_env: Option<String>,
    /// A name by which clients reach it from elsewhere, as they have it in the address; can be given
    /// several times, and stands beside hosts under [mcp.listen]
    #[arg(long, value_name = "NAME", requires = "listen")]
    pub(crate) host: Vec<String>,
    #[command(flatten)]
    pub(crate) policy: Policy,
    /// The server's command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// What else is done about MCP servers than standing before them.
#[derive(Debug, Subcommand)]
pub(crate) enum McpAction {
    Wrap(McpWrap),
    Unwrap(McpUnwrap),
}

/// Put the proxy before the MCP servers of a client's configuration
///
/// Every server in the file that is started by a command, or reached over streamable HTTP, is started
/// by `overspill mcp` from then on; its variables, headers and all other settings stay. All else in the
/// file stays as it was written. A copy of the file as it was is kept beside it, from which
/// `overspill mcp unwrap` brings it back. Doing it again does nothing, but for servers that were
/// added since.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill mcp wrap --dry-run .mcp.json
  overspill mcp wrap ~/.config/Claude/claude_desktop_config.json
  overspill mcp wrap .cursor/mcp.json --except linear,figma
  overspill mcp wrap ~/.codex/config.toml

It reads the files of Claude Code (.mcp.json, ~/.claude.json), Claude Desktop, Cursor, Windsurf, \
VS Code (.vscode/mcp.json, settings.json), Gemini (settings.json), Zed, and Codex (config.toml). A server \
that asks for a login in the browser must stay as it is: name it with --except.

--store and --config, where given, are those of the wrapped servers.

With --json: {\"file\", \"copy\", \"older_copies\", \"dry_run\", \"changed\", \"servers\": [{\"name\", \
\"before\", \"after\", \"left\", \"notes\"}]}, where \"older_copies\" are those put aside since they differ, \
\"left\" says why a server stays as it is, \"notes\" what is to be done about one that does not, and the \
values of headers and variables are left out.")]
pub(crate) struct McpWrap {
    /// The client's configuration
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Only this server; may be said more than once, or of several with commas between them
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Every server but this; as --only
    #[arg(long, value_name = "NAME", conflicts_with = "only")]
    pub(crate) except: Vec<String>,
    /// How the client is to call overspill, by default by the path of this one; `overspill`, for a
    /// file that others use too. What is wrapped already keeps its own: unwrap it first
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<String>,
    /// Show what would change, and do nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}

/// Take the proxy away from before the MCP servers of a client's configuration
///
/// A file that was not edited since comes back byte for byte, and the copy is removed. In one that
/// was, each server is undone by itself, what was changed stays changed, and the copy is kept.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill mcp unwrap .mcp.json

With --json: as `overspill mcp wrap --json`.")]
pub(crate) struct McpUnwrap {
    /// The client's configuration
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Show what would change, and do nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}

/// Show the main job on recorded outputs of real tools
///
/// Works offline, on outputs that are part of the program, in a store of its own that is removed
/// afterwards. Ends with status 1 if anything it claims is not so.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill demo
  overspill demo --json
  overspill demo --svg demo.svg

With --json: {\"calls\": [{\"tool\", \"command\", \"chars\", \"over\", \"action\", \"tokens_before\", \
\"tokens_after\", \"milliseconds\", \"handle\"}], \"total\", \"everyday\", \"view\", \"read_back\", \"checks\"}.")]
pub(crate) struct Demo {
    /// Draw a picture of it into this file instead
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) svg: Option<PathBuf>,
}

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill completions bash > ~/.local/share/bash-completion/completions/overspill
  overspill completions fish > ~/.config/fish/completions/overspill.fish")]
pub(crate) struct Completions {
    pub(crate) shell: Shell,
}

/// Replay recorded agent sessions: what a policy would have saved in them, and kept
///
/// Every model request of every session is made again in thought, under each policy: what would
/// have been sent, what the provider's prompt cache would have served, and how much of what the
/// model went on to use would have been in view or behind a handle. Recordings of Claude Code,
/// Codex, pi and nine other formats are told by their content. Nothing leaves the machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill replay ~/.claude/projects
  overspill replay ~/.codex/sessions --policy headtail-2000,lean --by-session
  overspill replay run.jsonl --policy spill-2000-1000 --json
  overspill replay ~/.claude/projects --long --model claude-sonnet-4-5 --html saved.html

Policies:
  none           everything is sent as it was; always compared with
  headtail-N     500 characters of either end of each result over N characters
  spill-N-M      each result from N characters on is stored; M stay, the marker counted in
  sliding        above 50,000 tokens: the newest 40 messages, and the first of the user
  clear          above 50,000 tokens: markers for all but the newest three results
  tiered         above 50,000 tokens: clear, then the newest 20 messages if it is still above
  default, lean  what the preset does, to results and to the history
  config         what the configuration does to results, and its preset to the history

The report of --html is one file that loads nothing and runs nothing of what was recorded. It shows \
the names of sessions and tools, and the beginnings of calls: look before you share it.

With --json: {\"model\", \"sessions\", \"requests\", \"rows\": [{\"policy\", \"figures\", \"reduction\", \
\"over_window\", \"dollars\"}], \"by_session\", \"skipped\", \"skipped_lines\": [{\"path\", \"lines\"}], \
\"unanswered\"}; the last three are why recordings could not be read, lines that are not valid JSON, \
and recordings in which the model never answers. Sizes are characters; reductions and shares are \
percent.")]
pub(crate) struct Replay {
    /// Files and folders of recordings
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Policies to compare with none; see below
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "headtail-2000,default,lean"
    )]
    pub(crate) policy: Vec<crate::commands::Named>,
    /// Only sessions of at least 20 requests and more than 20,000 characters of results
    #[arg(long)]
    pub(crate) long: bool,
    /// Every session's figures too, where the last policy does worst first
    #[arg(long)]
    pub(crate) by_session: bool,
    /// The model whose window and prices count; without it the window is 200,000 tokens, and costs
    /// are 0.1 for what a cache serves and 1.25 for the rest
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Draw a report into this file: the sessions where the last policy does worst and best, and
    /// where their tokens are
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// Bring a conversation under a budget of tokens
///
/// A provider's request, or a list of messages, goes in; the same with a smaller history comes
/// out. Messages that are not edited keep their bytes, a call never loses its return, and what
/// leaves is stored under a handle that stands in its place. Strategies run in the order given, the
/// next only while it is still too big.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill fit --budget 20000 request.json > smaller.json
  overspill fit --budget 80% --model claude-sonnet-4-5 --dry-run request.json
  overspill fit --preset lean request.json > smaller.json
  curl ... | overspill fit --format anthropic --budget 100000 --strategy clear-tool-results

A report goes to standard error, with --json as one line of JSON: {\"messages\": {\"before\", \"after\"}, \
\"tokens\": {\"before\", \"after\"}, \"budget\", \"handles\", \"usage\"}. The exit status is 1 where the budget could \
not be reached; what could be done is printed all the same. A dry run ends with the same status; with \
--json it prints {\"edits\", \"messages\", \"tokens\", \"budget\", \"met\"}.")]
pub(crate) struct Fit {
    /// The conversation; by default standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// How much the whole request may have, instructions and tools included: tokens (20000), or a
    /// part of what the model takes (80%)
    #[arg(long, value_name = "BUDGET", required_unless_present = "preset")]
    pub(crate) budget: Option<crate::commands::Budget>,
    /// What this preset does to a history, default or lean, in the place of --strategy; the budget
    /// is then what the model takes, unless it is given
    #[arg(long, value_name = "NAME", conflicts_with = "strategy")]
    pub(crate) preset: Option<Preset>,
    /// The model it is for; by default the one the request names
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Its format; by default told by its content: chat, responses, anthropic, gemini, pydantic-ai
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<Format>,
    /// What to do, in this order: store-arguments (over 2,000 characters), deduplicate-file-reads,
    /// clear-tool-results, clamp-oversized (parts over a quarter of the budget), relevance (a model
    /// judges older turns), summarize (a model sums up older messages), sliding-window. The model is
    /// the one that the table summarize of overspill.toml names, else the request's own; a dry run asks it too
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "deduplicate-file-reads,store-arguments,clear-tool-results,clamp-oversized,sliding-window"
    )]
    pub(crate) strategy: Vec<crate::commands::StrategyName>,
    /// How many of the newest results clear-tool-results leaves
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) keep_pairs: usize,
    /// How many of the newest messages sliding-window and summarize leave at least
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) keep_messages: usize,
    /// A message that stays whatever happens, by its number from 0; can be given several times
    #[arg(long, value_name = "N")]
    pub(crate) pin: Vec<usize>,
    /// Print what would be done and what it comes to, and store nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The run that handles begin with, by default "cli" [env: OVERSPILL_RUN]
    #[arg(long = "run", value_name = "ID")]
    pub(crate) run_id: Option<String>,
}

/// Show what a conversation's tokens are spent on, the biggest parts first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill inspect request.json
  overspill inspect --in-order --limit 0 request.json
  overspill inspect --json < request.json

With --json, all parts: {\"format\", \"tokens\", \"anchored\", \"instructions_and_tools\", \"messages\", \
\"turns\", \"faults\", \"by_kind\": [{\"kind\", \"tool\", \"parts\", \"tokens\"}], \"entries\": [{\"message\", \"role\", \"kind\", \"tool\", \"tokens\", \"handles\", \"starts\"}]}.")]
pub(crate) struct Inspect {
    /// The conversation; by default standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Its format; by default told by its content: chat, responses, anthropic, gemini, pydantic-ai
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<Format>,
    /// In the order of the conversation
    #[arg(long)]
    pub(crate) in_order: bool,
    /// Show at most so many parts; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
}

/// Print the definition of the read tool, for a request's list of tools
///
/// A model reads what left its view through this tool. Whoever runs its calls answers them with
/// `overspill read HANDLE`, or with the library's `limits.read(&args)`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  overspill read-tool --format anthropic
  overspill read-tool --format chat > tool.json")]
pub(crate) struct ReadTool {
    /// Whose request it is for: chat, responses, anthropic, gemini, pydantic-ai
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Format,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that is ended by hand is broken once more where the terminal is narrower.
    #[test]
    fn the_help_is_wrapped_by_the_terminals_width_alone() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines: Vec<_> = help.lines().collect();
            for pair in lines.windows(2) {
                let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
                let is_ended = is_prose(pair[0]) && is_prose(pair[1]);
                assert!(!is_ended, "{}: {:?}", command.get_name(), pair[0]);
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
