//! `overspill mcp`: the proxy before MCP servers.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use overspill::config::{McpServer, McpTransport};
use overspill::{Action, Bands, Config};
use overspill_mcp::{
    CancellationToken, Listen, Log, Options, Proxy, Secret, Server, Transport, shown,
};

use crate::cli;
use crate::failure::{Failure, USAGE};
use crate::settings::{Origin, Settings, secret_variable};
use crate::signals::{Handled, Interrupt, Signals};
use crate::wrap::{HEADERS, URL};

/// The run that handles begin with when nobody names one.
const RUN: &str = "mcp";

/// How long what is still to be said may take to be written at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

pub(crate) fn mcp(common: &cli::Common, args: &cli::Mcp) -> Result<u8, Failure> {
    let log = Log::writing(std::io::stderr())?;
    let done = stand_between(common, args, &log);
    log.finish(LAST_WORDS);
    done
}

fn stand_between(common: &cli::Common, args: &cli::Mcp, log: &Log) -> Result<u8, Failure> {
    let settings = Settings::load(common, &args.policy, None)?;
    let (store, warning) = settings.store_or_closed();
    if let Some(warning) = warning {
        say(log, "warning", &warning.context("nothing can be stored"));
    }
    let interrupt = Interrupt::default();
    let mut options = Options::new(settings.config.clone(), store);
    options.servers = servers(args, &settings)?;
    options.run = settings.said_run().unwrap_or(RUN).to_owned();
    options.hidden_variables = hidden_variables(args, &settings);
    options.log = log.clone();
    if summarizes(&settings.config) {
        match settings.summarizer(&interrupt) {
            (summarizer, None) => options.summarizer = Some(summarizer),
            (_, Some(failure)) => {
                let what = "nothing is summarized, the next action of the chain runs";
                say(log, "warning", &failure.context(what));
            }
        }
    }
    let proxy = Proxy::new(options).map_err(|error| Failure::from(error).with_status(USAGE))?;

    let closing = CancellationToken::new();
    let on_signal = closing.clone();
    Signals::catch()?.watch(interrupt, move |_| match on_signal.is_cancelled() {
        // Asked twice, it ends at once.
        true => Handled::NobodyLeft,
        false => {
            on_signal.cancel();
            Handled::Told
        }
    })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let served = match args.listen {
        Some(address) => runtime.block_on(listen(&proxy, args, &settings, log, address, closing)),
        None => runtime
            .block_on(proxy.serve(tokio::io::stdin(), tokio::io::stdout(), closing))
            .map_err(Failure::from),
    };
    // Whoever still reads standard input is not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(match served {
        Ok(()) => 0,
        Err(failure) => {
            say(log, "error", &failure);
            failure.status
        }
    })
}

/// Says it as everything else that the proxy says: whoever reads it is not waited for.
fn say(log: &Log, kind: &str, failure: &Failure) {
    let text = failure.to_string();
    let mut lines = text.lines();
    log.say(&format!("{kind}: {}", lines.next().unwrap_or_default()));
    lines.for_each(|hint| log.say(hint));
}

/// Whether the policy asks a model.
fn summarizes(config: &Config) -> bool {
    let bands = std::iter::once(&config.bands).chain(config.tool_bands.iter().map(|it| it.1));
    let mut actions = bands.flat_map(Bands::iter).flat_map(|band| band.action.chain());
    config.enabled && actions.any(|action| matches!(action, Action::Summarize(..)))
}

/// What is in the environment for the proxy alone.
fn hidden_variables(args: &cli::Mcp, settings: &Settings) -> Vec<String> {
    let config = &settings.config;
    let of_server = |server: &McpServer| match &server.transport {
        McpTransport::Url { token_env, .. } => token_env.clone(),
        McpTransport::Command { .. } => None,
    };
    let of_model = config.model.as_ref().and_then(|model| model.api_key_env.clone());
    let said = [&args.token_env, &args.listen_token_env, &config.mcp.listen.token_env, &of_model];
    let said = said.into_iter().flatten().cloned();
    let own = [HEADERS, URL].map(str::to_owned);
    own.into_iter().chain(said).chain(config.mcp.servers.iter().filter_map(of_server)).collect()
}

async fn listen(
    proxy: &Proxy,
    args: &cli::Mcp,
    settings: &Settings,
    log: &Log,
    address: SocketAddr,
    closing: CancellationToken,
) -> Result<(), Failure> {
    let config = &settings.config.mcp.listen;
    let token_env = args.listen_token_env.as_ref().or(config.token_env.as_ref());
    let token = token_env.map(|name| secret_variable(name)).transpose()?.map(Secret::new);
    if token.is_none() && !address.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "{address} can be reached by others, and no token is wanted of them"
        ))
        .hint("name the variable that holds one with --listen-token-env, or listen on 127.0.0.1"));
    }
    let listener = tokio::net::TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => "choose another port; 0 takes a free one",
            _ => "choose an address of this machine, and a port above 1023",
        };
        Failure::from(error).context(format!("cannot listen on {address}")).hint(hint)
    })?;
    log.say(&format!("listening on http://{}/mcp", listener.local_addr()?));
    Ok(proxy.serve_http(listener, Listen::new(config, token), closing).await?)
}

/// The one server that the command line or the environment names, else those of the file.
fn servers(args: &cli::Mcp, settings: &Settings) -> Result<Vec<Server>, Failure> {
    let configured = &settings.config.mcp.servers;
    let url = match &args.url {
        Some(url) => Some(url.clone()),
        None if args.command.is_empty() => std::env::var(URL).ok().filter(|url| !url.is_empty()),
        None => None,
    };
    if let Some((program, rest)) = args.command.split_first() {
        let transport = Transport::command(program, rest);
        let name = PathBuf::from(program);
        let name = name.file_name().map_or_else(|| program.clone(), OsString::from);
        return Ok(vec![Server { name: name.to_string_lossy().into_owned(), transport }]);
    }
    if let Some(url) = url {
        let token = args.token_env.as_ref().map(|name| secret_variable(name)).transpose()?;
        let headers = headers(&std::env::var(HEADERS).unwrap_or_default())?;
        let token = token.map(Secret::new);
        let name = shown(&url);
        return Ok(vec![Server { name, transport: Transport::Http { url, token, headers } }]);
    }
    let found_in_project = settings
        .file
        .as_ref()
        .filter(|file| matches!(file.origin, Origin::CurrentFolder | Origin::FolderAbove));
    if let Some(file) = found_in_project.filter(|_| !configured.is_empty()) {
        let file = file.path.display();
        return Err(Failure::usage(format!("{file} names servers, but nobody named that file"))
            .hint(format!("if you trust it, say so: overspill mcp --config {file}")));
    }
    let wanted = |server: &&McpServer| args.server.is_empty() || args.server.contains(&server.name);
    if let Some(name) =
        args.server.iter().find(|name| configured.iter().all(|server| server.name != **name))
    {
        return Err(Failure::usage(format!("there is no server named {name:?}")).hint(
            match &settings.file {
                Some(file) if !configured.is_empty() => {
                    let names = configured.iter().map(|server| server.name.as_str());
                    let names = names.collect::<Vec<_>>().join(", ");
                    format!("{} has {names}", file.path.display())
                }
                Some(file) => {
                    format!("{} has no [mcp.servers]; write it there", file.path.display())
                }
                None => "there is no overspill.toml; name one with --config".to_owned(),
            },
        ));
    }
    configured.iter().filter(wanted).map(server).collect()
}

fn server(of: &McpServer) -> Result<Server, Failure> {
    let transport = match &of.transport {
        McpTransport::Command { command, args, env, cwd } => Transport::Command {
            command: command.into(),
            args: args.iter().map(OsString::from).collect(),
            env: env.clone(),
            cwd: cwd.clone(),
        },
        McpTransport::Url { url, token_env, headers } => Transport::Http {
            url: url.clone(),
            token: token_env
                .as_ref()
                .map(|name| secret_variable(name))
                .transpose()?
                .map(Secret::new),
            headers: headers
                .iter()
                .map(|(name, value)| (name.clone(), Secret::new(value.as_str())))
                .collect(),
        },
    };
    Ok(Server { name: of.name.clone(), transport })
}

fn headers(lines: &str) -> Result<Vec<(String, Secret)>, Failure> {
    let lines = lines.lines().filter(|line| !line.trim().is_empty());
    let header = |line: &str| {
        let (name, value) = line.split_once(':').ok_or_else(|| {
            Failure::usage(format!("{HEADERS} has a line without a colon"))
                .hint("write one `Name: value` a line")
        })?;
        Ok((name.trim().to_owned(), Secret::new(value.trim())))
    };
    lines.map(header).collect()
}
