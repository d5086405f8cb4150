//! `overspill mcp`: the proxy before MCP servers.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use overspill::config::{McpListen, McpServer, McpTransport};
use overspill::{Action, Bands, Config};
use overspill_mcp::{
    CancellationToken, Listen, Log, Options, Proxy, Secret, Server, Transport, shown,
};
use tokio::net::TcpListener;

use crate::cli;
use crate::failure::{Failure, USAGE};
use crate::settings::{ServerFiles, Settings, secret_variable};
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
    let mut settings = Settings::load(common, &args.policy, None)?;
    let files = settings.take_users_servers()?;
    let servers = servers(args, &settings, &files)?;
    for why in no_effect(args) {
        say(log, "warning", &Failure::new(why));
    }
    let is_of_files = args.command.is_empty() && url(args).is_none();
    if let (Some(keys), Some(project)) = (files.unheeded.keys(is_of_files), &files.projects) {
        let project = project.display();
        let what = format!("{keys} of {project} do not count, since nobody named that file");
        let hint = format!("if you trust it, name it: --config {project}");
        say(log, "warning", &Failure::new(what).hint(hint));
    }
    let (store, warning) = settings.store_or_closed();
    if let Some(warning) = warning {
        say(log, "warning", &warning.context("nothing can be stored"));
    }
    let interrupt = Interrupt::default();
    let mut options = Options::new(settings.config.clone(), store);
    options.servers = servers;
    options.run = settings.said_run().unwrap_or(RUN).to_owned();
    options.hidden_variables = hidden_variables(args, &settings, &files);
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
        Some(address) => {
            let (listener, listen) =
                runtime.block_on(listener(args, &settings.config.mcp.listen, log, address))?;
            runtime.block_on(proxy.serve_http(listener, listen, closing))
        }
        None => runtime.block_on(proxy.serve(tokio::io::stdin(), tokio::io::stdout(), closing)),
    };
    // Whoever still reads standard input is not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(match served.map_err(Failure::from) {
        Ok(()) => 0,
        Err(failure) => {
            say(log, "error", &failure);
            failure.status
        }
    })
}

/// Says it as everything else that the proxy says: on one line, and whoever reads it is not waited for.
fn say(log: &Log, kind: &str, failure: &Failure) {
    log.say(&format!("{kind}: {}", failure.to_string().replace('\n', "; ")));
}

/// Whether the policy asks a model.
fn summarizes(config: &Config) -> bool {
    let bands = std::iter::once(&config.bands).chain(config.tool_bands.iter().map(|it| it.1));
    let mut actions = bands.flat_map(Bands::iter).flat_map(|band| band.action.chain());
    config.enabled && actions.any(|action| matches!(action, Action::Summarize(..)))
}

/// What is in the environment for the proxy alone.
fn hidden_variables(args: &cli::Mcp, settings: &Settings, files: &ServerFiles) -> Vec<String> {
    let config = &settings.config;
    let of_server = |server: &McpServer| match &server.transport {
        McpTransport::Url { token_env, .. } => token_env.clone(),
        McpTransport::Command { .. } => None,
    };
    // A project's file may name no key, and could take any variable from a server by it.
    let model = config.model.as_ref().filter(|_| files.projects.is_none());
    let of_model = model.and_then(|model| model.api_key_env.clone());
    let said = [&args.token_env, &args.listen_token_env, &config.mcp.listen.token_env, &of_model];
    let said = said.into_iter().flatten().cloned();
    let own = [HEADERS, URL].map(str::to_owned);
    own.into_iter().chain(said).chain(config.mcp.servers.iter().filter_map(of_server)).collect()
}

/// Where clients connect, and who may.
async fn listener(
    args: &cli::Mcp,
    config: &McpListen,
    log: &Log,
    address: SocketAddr,
) -> Result<(TcpListener, Listen), Failure> {
    let token_env = args.listen_token_env.as_ref().or(config.token_env.as_ref());
    let token = token_env.map(|name| secret_variable(name)).transpose()?.map(Secret::new);
    if token.is_none() && !address.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "{address} can be reached by others, and no token is wanted of them"
        ))
        .hint("name the variable that holds one with --listen-token-env, or listen on 127.0.0.1"));
    }
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => "choose another port; 0 takes a free one",
            _ => "choose an address of this machine, and a port above 1023",
        };
        Failure::from(error).context(format!("cannot listen on {address}")).hint(hint)
    })?;
    log.say(&format!("listening on http://{}/mcp", listener.local_addr()?));
    let mut listen = Listen::new(config, token);
    listen.hosts.extend(args.host.iter().cloned());
    // An address that stands for all is no name that anybody calls.
    if address.ip().is_unspecified() && listen.hosts.is_empty() {
        log.say(
            "others reach it only by the names that --host gives, or hosts under [mcp.listen] of \
             overspill.toml, and there are none",
        );
    }
    Ok((listener, listen))
}

/// The address that the command line or the environment names, where nothing else names a server.
fn url(args: &cli::Mcp) -> Option<String> {
    let of_environment = || std::env::var(URL).ok().filter(|url| !url.is_empty());
    let is_free = args.command.is_empty() && args.server.is_empty();
    args.url.clone().or_else(|| is_free.then(of_environment).flatten())
}

/// What the environment says to no effect.
fn no_effect(args: &cli::Mcp) -> Vec<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let mut warnings = Vec::new();
    let beside = match () {
        () if args.url.is_some() => Some("--url"),
        () if !args.command.is_empty() => Some("a command"),
        () if !args.server.is_empty() => Some("--server"),
        () => None,
    };
    if let (Some(beside), Some(_)) = (beside, set(URL)) {
        warnings.push(format!("{URL} does not count beside {beside}"));
    }
    if let Some(headers) = set(HEADERS) {
        if url(args).is_none() {
            warnings.push(format!("{HEADERS} is sent to nobody: it is for --url and {URL} alone"));
        }
        for name in headers.lines().filter(|line| line.contains("${")) {
            let name = name.split(':').next().unwrap_or_default().trim();
            warnings.push(format!(
                "the header {name} is sent with ${{…}} in it as it stands, since nothing is filled in \
                 here; hint: write the value itself, or let a shell or the client fill it in"
            ));
        }
    }
    warnings
}

/// The one server that the command line or the environment names, else those of the file.
fn servers(
    args: &cli::Mcp,
    settings: &Settings,
    files: &ServerFiles,
) -> Result<Vec<Server>, Failure> {
    if let Some((program, rest)) = args.command.split_first() {
        let transport = Transport::command(program, rest);
        let name = PathBuf::from(program);
        let name = name.file_name().map_or_else(|| program.clone(), OsString::from);
        return Ok(vec![Server { name: name.to_string_lossy().into_owned(), transport }]);
    }
    if let Some(url) = url(args) {
        let token = args.token_env.as_ref().map(|name| secret_variable(name)).transpose()?;
        let headers = headers(&std::env::var(HEADERS).unwrap_or_default())?;
        let token = token.map(Secret::new);
        let name = shown(&url);
        return Ok(vec![Server { name, transport: Transport::Http { url, token, headers } }]);
    }
    if args.token_env.is_some() {
        return Err(Failure::usage("--token-env is for --url, and no address is given")
            .hint("a server of overspill.toml names its own variable, with token_env"));
    }
    let configured = &settings.config.mcp.servers;
    if configured.is_empty() {
        return Err(nobody(files));
    }
    let is_there = |name: &&String| configured.iter().any(|server| server.name == **name);
    if let Some(name) = args.server.iter().find(|name| !is_there(name)) {
        let names = configured.iter().map(|server| server.name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        let file = files.counts.as_ref().map_or_else(String::new, |it| it.display().to_string());
        return Err(Failure::usage(format!("there is no server named {name:?}"))
            .hint(format!("{file} has {names}")));
    }
    let is_wanted =
        |server: &&McpServer| args.server.is_empty() || args.server.contains(&server.name);
    let wanted: Vec<&McpServer> = configured.iter().filter(is_wanted).collect();
    let made = wanted.iter().map(|server| (server, transport(&server.transport)));
    let made: Vec<_> = made.collect();
    // Where some can be asked, they are not left without the others' tokens.
    let is_any = made.iter().any(|(_, transport)| transport.is_ok());
    let server = |(of, transport): (&&McpServer, Result<Transport, Failure>)| {
        let transport = match transport {
            Ok(transport) => transport,
            Err(failure) if is_any => {
                Transport::Unavailable { why: failure.to_string().replace('\n', "; ") }
            }
            Err(failure) => {
                return Err(failure.context(format!("the server {} cannot be asked", of.name)));
            }
        };
        Ok(Server { name: of.name.clone(), transport })
    };
    made.into_iter().map(server).collect()
}

/// What to say where no file that counts names a server.
fn nobody(files: &ServerFiles) -> Failure {
    if let (true, Some(project)) = (files.unheeded.servers, &files.projects) {
        let project = project.display();
        let of_user = match &files.users {
            Some(file) => format!("; your own servers belong into {}", file.display()),
            None => String::new(),
        };
        return Failure::usage(format!("{project} names servers, but nobody named that file"))
            .hint(format!("if you trust it, say so: overspill mcp --config {project}{of_user}"));
    }
    let looked = match (&files.counts, &files.users, &files.projects) {
        (Some(file), ..) => format!("{} has no [mcp.servers]", file.display()),
        (None, Some(file), _) => format!("{} is not there", file.display()),
        (None, None, _) => "there is no overspill.toml".to_owned(),
    };
    let not_of_project = match &files.projects {
        Some(file) => format!(", and {} is a project's, which may name none", file.display()),
        None => String::new(),
    };
    let write = match files.counts.as_ref().or(files.users.as_ref()) {
        Some(file) => format!("write [mcp.servers.NAME] into {}", file.display()),
        None => "name a file that has [mcp.servers] with --config".to_owned(),
    };
    Failure::usage(format!("no server is named: {looked}{not_of_project}"))
        .hint(format!("give a command behind --, or an address with --url, or {write}"))
}

fn transport(of: &McpTransport) -> Result<Transport, Failure> {
    Ok(match of {
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
    })
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
