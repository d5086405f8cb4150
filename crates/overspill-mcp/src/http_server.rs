//! The proxy over streamable HTTP: one endpoint, a session for each client.

#![expect(
    clippy::result_large_err,
    reason = "what a request is refused with is a response, made once and sent"
)]

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::sse::{self, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use data_encoding::BASE64URL_NOPAD;
use futures_util::{StreamExt, stream};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::accept::accept;
use crate::guest::{Guest, Waiting};
use crate::json::Members;
use crate::lane::LaneEnd;
use crate::lines;
use crate::message::{INTERNAL, Id, Kind, Message, failure};
use crate::proxy::{HURRIED, Proxy, ProxyError};
use crate::revision::{self, SESSIONLESS};
use crate::server::Secret;
use crate::streams::{Event, Resumed, place};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const EVENTS: &str = "text/event-stream";

/// From this revision on, clients take an event without a message, which gives them an id to come
/// back with before there is anything to tell.
const PRIMED: &str = "2025-11-25";

/// A session that nobody used for so long is ended.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// A session that nobody used for so long makes room for another where there are too many.
const YIELDS: Duration = Duration::from_secs(60);

/// How often is looked for idle sessions.
const SWEEP: Duration = Duration::from_secs(60);

/// How long a client may send nothing of a request that it has begun.
const BODY: Duration = Duration::from_secs(30);

/// Names of other hosts that are told of; whoever asks under ever new ones fills no log.
const TOLD: usize = 100;

/// What holds for whoever connects.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Listen {
    /// The bearer token that clients must send; anybody may connect where it is `None`.
    pub token: Option<Secret>,
    /// The names by which clients may call the proxy, beside those of the loopback interface and
    /// the address it listens on.
    pub hosts: Vec<String>,
    /// How many bytes a request may have.
    pub max_body: usize,
    /// How many sessions there may be at once.
    pub max_sessions: usize,
}

impl Listen {
    /// What a configuration says, and the token its variable holds.
    pub fn new(config: &overspill::config::McpListen, token: Option<Secret>) -> Self {
        Self {
            token,
            hosts: config.hosts.clone(),
            max_body: usize::try_from(config.max_body).unwrap_or(usize::MAX),
            max_sessions: config.max_sessions,
        }
    }
}

/// What all connections share.
struct Front {
    proxy: Proxy,
    listen: Listen,
    address: SocketAddr,
    guests: Mutex<HashMap<String, Arc<Guest>>>,
    /// The session of all messages that stand for themselves; it is opened with the first.
    everybody: Mutex<Option<Arc<Guest>>>,
    /// The names of other hosts under which it was called, each told of once.
    told: Mutex<HashSet<String>>,
}

impl Proxy {
    /// Serves clients over streamable HTTP, at `/mcp` and at `/`, until `closing` is cancelled. Every
    /// server has ended when it returns.
    ///
    /// # Errors
    ///
    /// [`ProxyError::Client`] when connections cannot be accepted any more.
    pub async fn serve_http(
        &self,
        listener: TcpListener,
        listen: Listen,
        closing: CancellationToken,
    ) -> Result<(), ProxyError> {
        let address = listener.local_addr().map_err(ProxyError::Client)?;
        let front = Arc::new(Front {
            proxy: self.clone(),
            listen,
            address,
            guests: Mutex::default(),
            everybody: Mutex::default(),
            told: Mutex::default(),
        });
        let routes = axum::Router::new()
            .route("/", any(serve))
            .route("/mcp", any(serve))
            .with_state(Arc::clone(&front));
        let sweeping = tokio::spawn(sweep(Arc::clone(&front)));
        let served = async {
            let accepting = accept(listener, routes, closing.cancelled(), &self.log);
            // Streams end with their sessions; without that, connections would stay open.
            let ending = async {
                closing.cancelled().await;
                front.close_all().await;
            };
            tokio::join!(accepting, ending);
        };
        tokio::select! {
            () = served => {}
            () = async {
                closing.cancelled().await;
                sleep(HURRIED).await;
            } => {}
        }
        sweeping.abort();
        front.close_all().await;
        Ok(())
    }
}

impl Front {
    fn guests(&self) -> MutexGuard<'_, HashMap<String, Arc<Guest>>> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn close_all(&self) {
        let mut all: Vec<Arc<Guest>> = self.guests().drain().map(|(_, guest)| guest).collect();
        all.extend(self.everybody.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut closing = JoinSet::new();
        for guest in all {
            closing.spawn(async move { guest.close().await });
        }
        while closing.join_next().await.is_some() {}
    }

    /// Whether a name, as `Host` or `Origin` has it, is one of the proxy's.
    fn is_own_name(&self, authority: &str) -> bool {
        let Some(name) = host_of(authority) else { return false };
        let is_loopback = ["localhost", "127.0.0.1", "[::1]"].contains(&name.as_str());
        let own = match self.address {
            SocketAddr::V4(address) => address.ip().to_string(),
            SocketAddr::V6(address) => format!("[{}]", address.ip()),
        };
        let listed = self.listen.hosts.iter().any(|host| {
            let host = host.to_ascii_lowercase();
            host == name || host == authority.to_ascii_lowercase()
        });
        is_loopback || name == own || listed
    }

    /// Says once under which name somebody was refused.
    fn tell_of_other(&self, header: &str, name: &str) {
        let what = format!("a client was refused, since its {header} is {name:?}");
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < TOLD && told.insert(what.clone()) {
            self.proxy.log.say(&format!(
                "{what}; hint: if that is a name of this proxy, give it with --host, or under hosts in \
                 [mcp.listen] of overspill.toml"
            ));
        }
    }

    /// Refuses what a page in a browser sends through a name that leads here, and who has no token.
    fn check(&self, headers: &HeaderMap) -> Result<(), Response> {
        let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let all = |name| headers.get_all(name).iter().map(text).collect::<Vec<_>>();
        // Of several, somebody in between may have looked at another.
        let hosts = all(HOST);
        if hosts.len() != 1 || !hosts.iter().all(|host| self.is_own_name(host)) {
            self.tell_of_other("Host", &hosts.join(", "));
            let what = "The Host header names another host; list it under hosts in [mcp.listen]";
            return Err(refusal(StatusCode::FORBIDDEN, what));
        }
        let authority = |origin: &String| {
            origin.split_once("://").map(|(_, authority)| authority.to_owned()).unwrap_or_default()
        };
        let origins = all(ORIGIN);
        if !origins.iter().all(|origin| self.is_own_name(&authority(origin))) {
            self.tell_of_other("Origin", &origins.join(", "));
            let what = "The Origin is not allowed; list its host under hosts in [mcp.listen]";
            return Err(refusal(StatusCode::FORBIDDEN, what));
        }
        let Some(token) = &self.listen.token else { return Ok(()) };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let is_right =
            given.and_then(|value| value.split_once(' ')).is_some_and(|(scheme, given)| {
                scheme.eq_ignore_ascii_case("bearer") && token.is(given.trim())
            });
        if is_right {
            return Ok(());
        }
        let mut refused = refusal(StatusCode::UNAUTHORIZED, "A bearer token is wanted");
        refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Err(refused)
    }

    fn guest(&self, headers: &HeaderMap) -> Result<(String, Arc<Guest>), Response> {
        let id = headers.get(SESSION).and_then(|id| id.to_str().ok()).unwrap_or_default();
        if id.is_empty() {
            return Err(refusal(StatusCode::BAD_REQUEST, "The Mcp-Session-Id header is missing"));
        }
        match self.guests().get(id) {
            Some(guest) => {
                guest.touch();
                Ok((id.to_owned(), Arc::clone(guest)))
            }
            None => Err(refusal(StatusCode::NOT_FOUND, "There is no such session; open a new one")),
        }
    }

    /// Opens a session, if there is room.
    fn welcome(&self) -> Result<(String, Arc<Guest>), Response> {
        let mut guests = self.guests();
        if guests.len() >= self.listen.max_sessions {
            let idle = guests
                .iter()
                .filter(|(_, guest)| guest.idle() > YIELDS)
                .max_by_key(|(_, guest)| guest.idle())
                .map(|(id, _)| id.clone());
            let Some(guest) = idle.and_then(|id| guests.remove(&id)) else {
                let what = "There are as many sessions as there may be; try again later";
                return Err(refusal(StatusCode::SERVICE_UNAVAILABLE, what));
            };
            tokio::spawn(async move { guest.close().await });
        }
        let mut random = [0_u8; 24];
        if getrandom::fill(&mut random).is_err() {
            let what = "There is no randomness for a session's id";
            return Err(refusal(StatusCode::INTERNAL_SERVER_ERROR, what));
        }
        let id = BASE64URL_NOPAD.encode(&random);
        let guest = Guest::open(&self.proxy, false);
        guests.insert(id.clone(), Arc::clone(&guest));
        Ok((id, guest))
    }

    fn everybody(&self) -> Arc<Guest> {
        let mut everybody = self.everybody.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(everybody.get_or_insert_with(|| Guest::open(&self.proxy, true)))
    }
}

/// Ends sessions that nobody uses any more.
async fn sweep(front: Arc<Front>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let idle: Vec<Arc<Guest>> = {
            let mut guests = front.guests();
            let ids: Vec<String> = guests
                .iter()
                .filter(|(_, guest)| guest.idle() > IDLE)
                .map(|(id, _)| id.clone())
                .collect();
            ids.iter().filter_map(|id| guests.remove(id)).collect()
        };
        for guest in idle {
            guest.close().await;
        }
    }
}

async fn serve(State(front): State<Arc<Front>>, request: Request) -> Response {
    if let Err(refused) = front.check(request.headers()) {
        return refused;
    }
    let done = match *request.method() {
        Method::POST => post(&front, request).await,
        Method::GET => listen(&front, request.headers()),
        Method::DELETE => leave(&front, request.headers()).await,
        _ => Err(refusal(StatusCode::METHOD_NOT_ALLOWED, "Use POST, GET or DELETE")),
    };
    done.unwrap_or_else(|refused| refused)
}

async fn post(front: &Front, request: Request) -> Result<Response, Response> {
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    let accepts = |kind: &str| accepts(&headers, kind);
    if !accepts(EVENTS) && !accepts("application/json") {
        let what = "Accept must have application/json and text/event-stream";
        return Err(refusal(StatusCode::NOT_ACCEPTABLE, what));
    }
    let is_json = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("application/json"));
    if !is_json {
        let what = "Content-Type must be application/json";
        return Err(refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, what));
    }
    let text = read(body, front.listen.max_body).await?;
    let messages =
        Message::parse(text).map_err(|error| json(StatusCode::BAD_REQUEST, error.answer()))?;
    let opens = messages.iter().any(
        |message| matches!(message.kind(), Kind::Request { method, .. } if method == "initialize"),
    );
    let (session_id, guest) = if headers.contains_key(SESSION) {
        let (id, guest) = front.guest(&headers)?;
        (Some(id), guest)
    } else if opens {
        let (id, guest) = front.welcome()?;
        (Some(id), guest)
    } else if is_sessionless(&headers, &messages) {
        (None, front.everybody())
    } else {
        return Err(refusal(StatusCode::BAD_REQUEST, "The Mcp-Session-Id header is missing"));
    };
    let messages: Vec<Message> =
        messages.into_iter().map(|message| guest.told_apart(message)).collect();
    let requests: Vec<Id> = messages.iter().filter_map(Message::request_id).collect();
    let opened = (!requests.is_empty()).then(|| guest.streams().open(requests));
    let waiting = match (&opened, &session_id) {
        (Some((stream, _)), None) => Some(Waiting { guest: Arc::clone(&guest), stream: *stream }),
        _ => None,
    };
    for message in messages {
        guest.session.client_sent(message).await;
    }
    let mut response = match opened {
        None => StatusCode::ACCEPTED.into_response(),
        Some((stream, events)) if accepts(EVENTS) => {
            let is_primed = !opens && version(&headers).is_some_and(|version| version >= PRIMED);
            // A stream's own events are counted from 1.
            let prime = Event { stream, number: 0, text: String::new(), is_answer: false };
            let first = if is_primed { vec![prime] } else { Vec::new() };
            events_response(first, Some(events), waiting)
        }
        Some((_, events)) => collected(&guest, events).await,
    };
    if let Some(id) = session_id.as_deref().and_then(|id| HeaderValue::from_str(id).ok()) {
        response.headers_mut().insert(SESSION, id);
    }
    Ok(response)
}

fn listen(front: &Front, headers: &HeaderMap) -> Result<Response, Response> {
    if !accepts(headers, EVENTS) {
        let what = "Accept must have text/event-stream";
        return Err(refusal(StatusCode::NOT_ACCEPTABLE, what));
    }
    let (_, guest) = front.guest(headers)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let (missed, events) = match last.map(place) {
        Some(Some((stream, number))) => {
            let Some(resumed) = guest.streams().resume(stream, number) else {
                let what = "What came after that Last-Event-ID is no longer kept";
                return Err(refusal(StatusCode::NOT_FOUND, what));
            };
            let Resumed { missed, lost, coming } = resumed;
            if lost > 0 {
                guest.session.log().say(&format!(
                    "a client came back for {lost} messages that are no longer kept"
                ));
            }
            (missed, coming)
        }
        Some(None) => {
            return Err(refusal(StatusCode::BAD_REQUEST, "There is no such Last-Event-ID"));
        }
        None => {
            let (missed, events) = guest.streams().listen();
            (missed, Some(events))
        }
    };
    Ok(events_response(missed, events, None))
}

async fn leave(front: &Front, headers: &HeaderMap) -> Result<Response, Response> {
    let (id, guest) = front.guest(headers)?;
    front.guests().remove(&id);
    guest.close().await;
    Ok(StatusCode::OK.into_response())
}

async fn read(body: Body, max: usize) -> Result<String, Response> {
    let mut pieces = body.into_data_stream();
    let mut bytes = Vec::new();
    loop {
        let piece = timeout(BODY, pieces.next()).await.map_err(|_| {
            let what = format!("Nothing more of the request came for {} s", BODY.as_secs());
            refusal(StatusCode::REQUEST_TIMEOUT, &what)
        })?;
        match piece {
            Some(Ok(piece)) if bytes.len() + piece.len() <= max => bytes.extend_from_slice(&piece),
            Some(Ok(_)) => {
                let what =
                    format!("The request has more than {max} bytes (max_body in [mcp.listen])");
                return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, &what));
            }
            Some(Err(error)) => {
                let what = format!("The request broke off: {error}");
                return Err(refusal(StatusCode::BAD_REQUEST, &what));
            }
            None => break,
        }
    }
    String::from_utf8(bytes)
        .map_err(|_| refusal(StatusCode::BAD_REQUEST, "The request is not UTF-8"))
}

/// The events that are there and those that will come, as long as the client waits.
fn events_response(
    first: Vec<Event>,
    events: Option<LaneEnd<Event>>,
    waiting: Option<Waiting>,
) -> Response {
    let event = |event: Event| {
        let shown = sse::Event::default().id(event.id());
        // Without a message it is none, and only has an id.
        let shown = if event.text.is_empty() { shown } else { shown.event("message") };
        shown.data(lines::one_line(event.text))
    };
    let coming = stream::unfold((events, waiting), |(events, waiting)| async move {
        let mut events = events?;
        let (next, _room) = events.recv().await?;
        Some((next, (Some(events), waiting)))
    });
    let all = stream::iter(first).chain(coming).map(event).map(Ok::<_, Infallible>);
    let mut response = Sse::new(all).keep_alive(KeepAlive::default()).into_response();
    // Gateways in between must not hold events back.
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// The messages of a stream as JSON, for a client that takes no events. What a server asks such a
/// client is answered for it; what it tells has no place there.
async fn collected(guest: &Guest, mut events: LaneEnd<Event>) -> Response {
    let mut answers = Vec::new();
    while let Some((event, _room)) = events.recv().await {
        let Ok(message) = Message::one(event.text) else { continue };
        match message.kind() {
            Kind::Response { .. } => answers.push(message.into_text()),
            Kind::Request { id, .. } => {
                let why = "The client takes no events with this request, so it cannot be asked";
                if let Ok(refusal) = Message::one(failure(id, INTERNAL, why)) {
                    guest.session.client_sent(refusal).await;
                }
            }
            Kind::Notification { .. } => {}
        }
    }
    match answers.as_slice() {
        [] => refusal(StatusCode::INTERNAL_SERVER_ERROR, "The request was not answered"),
        [one] => json(StatusCode::OK, one.clone()),
        several => json(StatusCode::OK, format!("[{}]", several.join(","))),
    }
}

/// Whether messages say that they stand for themselves.
fn is_sessionless(headers: &HeaderMap, messages: &[Message]) -> bool {
    let says = |message: &Message| {
        let params = Members::of(message.params()).unwrap_or_default();
        revision::stated(&params)
    };
    version(headers).is_some_and(|version| version >= SESSIONLESS)
        || messages.iter().any(|message| says(message).is_some())
}

fn version(headers: &HeaderMap) -> Option<&str> {
    headers.get(VERSION)?.to_str().ok()
}

/// Whether a client takes this media type.
fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let family = kind.split('/').next().unwrap_or_default();
    let mut any = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
    if any.peek().is_none() {
        return kind != EVENTS;
    }
    any.flat_map(|value| value.split(',')).any(|one| {
        let one = one.split(';').next().unwrap_or_default().trim();
        one == kind || (kind != EVENTS && (one == "*/*" || one == format!("{family}/*")))
    })
}

/// The host's name in `Host` or in what follows `://`, without its port; `None` where it is no name
/// and port.
fn host_of(authority: &str) -> Option<String> {
    let end = match authority.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (name, port) = authority.split_at(end);
    let is_port = |port: &str| {
        port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let is_name = !name.is_empty() && !name.contains(['/', '@', ',', ' ', '\\']);
    (is_name && (port.is_empty() || is_port(port))).then(|| name.to_ascii_lowercase())
}

fn refusal(status: StatusCode, what: &str) -> Response {
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{{\"code\":-32000,\"message\":{}}}}}",
        crate::json::quote(what)
    );
    json(status, body)
}

fn json(status: StatusCode, body: String) -> Response {
    let kind = HeaderValue::from_static("application/json");
    let mut response = (status, Bytes::from(body)).into_response();
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_told_from_its_port() {
        for (authority, host) in [
            ("localhost:8080", "localhost"),
            ("LOCALHOST", "localhost"),
            ("[::1]:80", "[::1]"),
            ("127.0.0.1", "127.0.0.1"),
            ("evil.example:80", "evil.example"),
        ] {
            assert_eq!(host_of(authority).as_deref(), Some(host));
        }
        for authority in [
            "",
            "[::1",
            "[::1].evil.example:80",
            "[::1]x",
            "localhost:80.evil.example",
            "localhost:80@evil.example",
            "localhost:80, evil.example",
            "localhost/evil.example",
            "user@localhost",
        ] {
            assert_eq!(host_of(authority), None, "{authority}");
        }
    }
}
