//! The front door: servers and a policy, offered over standard input and output or over HTTP.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use overspill::summary::NoModel;
use overspill::{Config, PolicyError, Store, Summarizer};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::child::Keeper;
use crate::counted::Counted;
use crate::http_client::{self, Connector};
use crate::lane::{Lane, LaneEnd, ROOM, STALL};
use crate::lines;
use crate::listing;
use crate::log::Log;
use crate::reduce::Reducer;
use crate::router::Router;
use crate::server::{Server, Transport};
use crate::session::{Outgoing, Session};

/// How much of the client's input is read at once.
const BUFFER: usize = 256 * 1024;

/// How long what is under way may take to be done before servers are ended.
const GRACE: Duration = Duration::from_secs(2);

/// How long what came last from servers may take to be reduced and given to the client.
const LAST: Duration = Duration::from_secs(60);

/// How long the end of all may take where somebody wants it: three times the grace that a server is
/// given, and one more for what it said last.
pub(crate) const HURRIED: Duration = Duration::from_secs(8);

/// What a proxy is made of.
#[non_exhaustive]
pub struct Options {
    /// The servers; at least one.
    pub servers: Vec<Server>,
    /// The policy and the bounds.
    pub config: Config,
    /// Where payloads rest.
    pub store: Arc<dyn Store>,
    /// Who writes summaries, for policies that summarize.
    pub summarizer: Option<Arc<dyn Summarizer>>,
    /// What every handle begins with.
    pub run: String,
    /// Variables that servers which are started do not find in their environment, unless their own
    /// `env` sets them: those that hold what is meant for the proxy.
    pub hidden_variables: Vec<String>,
    /// Where it says what went wrong.
    pub log: Log,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("servers", &self.servers).finish_non_exhaustive()
    }
}

impl Options {
    /// No servers yet, that policy and that store.
    pub fn new(config: Config, store: Arc<dyn Store>) -> Self {
        Self {
            servers: Vec::new(),
            config,
            store,
            summarizer: None,
            run: "mcp".to_owned(),
            hidden_variables: Vec::new(),
            log: Log::silent(),
        }
    }
}

/// Why a proxy cannot be, or cannot go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// There is nothing to stand in front of.
    #[error("no server is named; give a command or a url, or [mcp.servers.NAME] in overspill.toml")]
    NoServer,
    /// Two servers have one name.
    #[error("two servers are named {name:?}; give each a name of its own")]
    SameName {
        /// The name.
        name: String,
    },
    /// A tool of one server could have the name that a tool of another has.
    #[error(
        "tools of the servers {name:?} and {other:?} could get the same names, since what stands \
         before those of {other:?} begins with \"{name}__\"; name one of the two differently"
    )]
    AlikeNames {
        /// The shorter name.
        name: String,
        /// The other name.
        other: String,
    },
    /// A server cannot be reached over HTTP as it is said, for this reason.
    #[error("{why}")]
    Unreachable {
        /// Which server, what is wrong, and the mend.
        why: String,
    },
    /// The policy cannot be used.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// No connections can be made over HTTP.
    #[error("the system's certificates cannot be used")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Reading from or writing to the client failed.
    #[error("the client cannot be reached any more")]
    Client(#[source] io::Error),
}

/// An MCP proxy.
#[derive(Debug, Clone)]
pub struct Proxy {
    servers: Arc<Vec<Server>>,
    hidden: Arc<Vec<String>>,
    client: reqwest::Client,
    pub(crate) reducer: Arc<Reducer>,
    pub(crate) log: Log,
}

impl Proxy {
    /// Checks what it is made of.
    ///
    /// # Errors
    ///
    /// [`ProxyError::NoServer`], [`ProxyError::SameName`], [`ProxyError::AlikeNames`],
    /// [`ProxyError::Unreachable`] where an address, a token or a header cannot be used, and
    /// [`ProxyError::Policy`] as for [`overspill::limits::Builder::build`].
    pub fn new(options: Options) -> Result<Self, ProxyError> {
        let Options { servers, config, store, summarizer, run, hidden_variables, log } = options;
        if servers.is_empty() {
            return Err(ProxyError::NoServer);
        }
        for (i, server) in servers.iter().enumerate() {
            if servers[..i].iter().any(|other| other.name == server.name) {
                return Err(ProxyError::SameName { name: server.name.clone() });
            }
            let of = |other: &&Server| listing::could_collide(&other.name, &server.name);
            if let Some(other) = servers[..i].iter().find(of) {
                let mut names = [other.name.clone(), server.name.clone()];
                names.sort_by_key(String::len);
                let [name, other] = names;
                return Err(ProxyError::AlikeNames { name, other });
            }
            if let Transport::Http { url, token, headers } = &server.transport {
                http_client::check(url, token.as_ref(), headers)
                    .map_err(|why| ProxyError::Unreachable { why })?;
            }
        }
        let summarizer = summarizer
            .unwrap_or_else(|| Arc::new(NoModel::because("the proxy has no model to ask")));
        let reducer = Arc::new(Reducer::new(config, store, summarizer, run)?);
        let client = http_client::client().map_err(|error| ProxyError::Tls(Box::new(error)))?;
        let (servers, hidden) = (Arc::new(servers), Arc::new(hidden_variables));
        Ok(Self { servers, hidden, client, reducer, log })
    }

    /// Opens a session: its servers are started, or will be connected to.
    pub(crate) fn open(&self, client: Lane<Outgoing>, is_shared: bool) -> Opened {
        let names: Vec<String> = self.servers.iter().map(|server| server.name.clone()).collect();
        let (lanes, ends): (Vec<_>, Vec<_>) =
            names.iter().map(|_| Lane::new(ROOM, Some(STALL))).unzip();
        let reducer = Arc::clone(&self.reducer);
        let router = Router::new(names, Arc::clone(&reducer), is_shared);
        let session = Arc::new(Session::new(router, reducer, client, lanes, self.log.clone()));
        let mut keepers = JoinSet::new();
        for ((server, of), queue) in self.servers.iter().enumerate().zip(ends) {
            let of_session = Arc::clone(&session);
            let (session, name, transport) =
                (Arc::clone(&session), of.name.clone(), of.transport.clone());
            match transport {
                Transport::Command { .. } | Transport::Unavailable { .. } => {
                    let hidden = Arc::clone(&self.hidden);
                    let (held, initialize) = (None, None);
                    let taken = session.taken(server);
                    let keeper = Keeper {
                        session,
                        server,
                        name,
                        transport,
                        hidden,
                        queue,
                        taken,
                        held,
                        initialize,
                    };
                    keepers.spawn(async move {
                        keeper.keep().await;
                        of_session.ended(server).await;
                    });
                }
                Transport::Http { url, token, headers } => {
                    let connector = Connector {
                        session,
                        server,
                        name,
                        url,
                        token,
                        headers,
                        client: self.client.clone(),
                        link: Mutex::default(),
                        opening: tokio::sync::Mutex::default(),
                        is_open: Notify::new(),
                    };
                    keepers.spawn(async move {
                        connector.keep(queue).await;
                        of_session.ended(server).await;
                    });
                }
            }
        }
        Opened { session, keepers }
    }

    /// Serves one client through `input` and `output`, one message a line, until `input` ends or
    /// `closing` is cancelled. Every server has ended when it returns.
    ///
    /// # Errors
    ///
    /// [`ProxyError::Client`] when the client cannot be read or written any more.
    pub async fn serve<R, W>(
        &self,
        input: R,
        output: W,
        closing: CancellationToken,
    ) -> Result<(), ProxyError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (client, outgoing) = Lane::new(ROOM, None);
        let opened = self.open(client, false);
        let written = Arc::default();
        let mut writer = tokio::spawn(write_all(outgoing, output, Arc::clone(&written)));
        let mut input = BufReader::with_capacity(BUFFER, input);
        let mut wrote = None;
        let read = loop {
            let line = tokio::select! {
                () = closing.cancelled() => break Ok(()),
                done = &mut writer => {
                    wrote = Some(done);
                    break Ok(());
                }
                line = lines::read(&mut input) => line,
            };
            let line = match line {
                Ok(Some(line)) => line,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            tokio::select! {
                () = async {
                    match line {
                        Ok(line) => opened.session.client_said(line).await,
                        Err(line) => opened.session.client_said_no_text(line).await,
                    }
                } => {}
                // A server may not read.
                () = closing.cancelled() => break Ok(()),
                done = &mut writer => {
                    wrote = Some(done);
                    break Ok(());
                }
            }
        };
        opened.close(&closing).await;
        let wrote = match wrote {
            Some(done) => done,
            // Whoever wants it to end does not wait for a client that does not read.
            None => {
                let hurried = async {
                    closing.cancelled().await;
                    sleep(GRACE).await;
                };
                let unread = async {
                    loop {
                        let before = written.load(Ordering::Relaxed);
                        sleep(LAST).await;
                        if written.load(Ordering::Relaxed) == before {
                            self.log.say("the client does not read what it asked for");
                            return;
                        }
                    }
                };
                tokio::select! {
                    done = &mut writer => done,
                    () = async { tokio::select! { () = hurried => {}, () = unread => {} } } => {
                        writer.abort();
                        Ok(Ok(()))
                    }
                }
            }
        };
        read.map_err(ProxyError::Client)?;
        wrote.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(ProxyError::Client)
    }
}

/// An open session and those who keep its servers.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) session: Arc<Session>,
    keepers: JoinSet<()>,
}

impl Opened {
    /// Ends the servers once they have answered, and the session. What they said last is still
    /// given to the client, unless somebody is in a hurry.
    pub(crate) async fn close(mut self, hurry: &CancellationToken) {
        // What is being worked on may still have to reach a server.
        let _ = timeout(GRACE, self.session.settle()).await;
        self.session.closing.cancel();
        let end = async {
            while self.keepers.join_next().await.is_some() {}
            self.session.settle().await;
        };
        let hurried = async {
            hurry.cancelled().await;
            sleep(HURRIED).await;
        };
        tokio::select! {
            () = end => return,
            () = hurried => {}
            () = sleep(LAST) => {}
        }
        self.session.log().say("the session ends although not all of it is done");
    }
}

async fn write_all<W: AsyncWrite + Unpin>(
    mut outgoing: LaneEnd<Outgoing>,
    output: W,
    written: Arc<AtomicU64>,
) -> io::Result<()> {
    let mut output = BufWriter::with_capacity(BUFFER, Counted { inner: output, written });
    // A message takes room until it is written.
    while let Some((next, _room)) = outgoing.recv().await {
        match next {
            Outgoing::Message { text, long, .. } => {
                lines::write_long(&mut output, text, long.as_deref()).await?;
            }
            Outgoing::Abandoned(_) => {}
            Outgoing::Settled(settled) => {
                // Whoever waited may have given up.
                let _ = settled.send(());
            }
        }
        if outgoing.is_empty() {
            output.flush().await?;
        }
    }
    output.flush().await
}
