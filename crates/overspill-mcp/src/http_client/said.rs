//! What is said of a server over HTTP, with what can be done, and without what is secret.

use data_encoding::BASE64;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{StatusCode, Url};

use crate::server::{Secret, secret_parts, shown, user_of};

use super::Connector;

/// Bytes from which on what a server was told is secret; what is shorter stands anywhere.
const SECRET: usize = 5;

/// Characters of what a server says in which secrets are looked for before it is cut.
pub(super) const LOOKED_AT: usize = 64 * 1024;

/// Characters of what a server says about an error that are passed on.
const SAID: usize = 500;

/// What to do where something else than a server answers.
pub(super) const IS_IT_MCP: &str = "hint: look whether its address is that of an MCP endpoint, which often ends in \
    /mcp; one that ends in /sse is of the old transport, which the proxy does not speak";

/// Whether a server can be asked at all at that address, with that token and those headers; the error
/// says what is wrong with which.
pub(crate) fn check(
    url: &str,
    token: Option<&Secret>,
    headers: &[(String, Secret)],
) -> Result<(), String> {
    let address = shown(url);
    let Some((scheme, _)) = url.split_once("://") else {
        return Err(format!("{address} has no scheme; hint: write https://{address}"));
    };
    match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => {}
        "ws" | "wss" => {
            return Err(format!(
                "{address} is a web socket, which MCP does not have; hint: if the server speaks \
                 streamable HTTP too, give that address, which begins with https://"
            ));
        }
        _ => {
            return Err(format!(
                "{address} is reached over {scheme}; hint: a server's address begins with https:// or \
                 http://; one that is a program is started by its command: overspill mcp -- COMMAND"
            ));
        }
    }
    if let Err(error) = Url::parse(url) {
        return Err(format!("{address} is no address: {error}; hint: correct it"));
    }
    if token.is_some_and(|token| HeaderValue::from_str(token.reveal()).is_err()) {
        return Err(format!(
            "the token for {address} has characters that no header can hold; hint: look for a line \
             end in it"
        ));
    }
    let is_wrong = |(name, value): &&(String, Secret)| {
        HeaderName::try_from(name).is_err() || HeaderValue::from_str(value.reveal()).is_err()
    };
    match headers.iter().find(is_wrong) {
        Some((name, _)) => Err(format!(
            "the header {name:?} for {address} cannot be sent; hint: a name has no spaces, and a value \
             no line ends"
        )),
        None => Ok(()),
    }
}

impl Connector {
    /// Its name, and its address where that is not the name.
    pub(super) fn called(&self) -> String {
        match shown(&self.url) {
            address if address == self.name => address,
            address => format!("{} ({address})", self.name),
        }
    }

    pub(super) fn unreachable(&self, error: reqwest::Error) -> String {
        // Its own words have the whole address.
        let error = error.without_url();
        let mut text = format!("{} cannot be reached", self.called());
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = cause {
            text.push_str(&format!(": {error}"));
            cause = error.source();
        }
        if text.contains("InvalidContentType") {
            text.push_str(
                "; hint: what listens there speaks no TLS; perhaps its address is http://",
            );
        } else if error.is_connect() {
            text.push_str("; hint: look whether it runs there and the address is right");
        }
        text
    }

    /// What is wrong where an answer is none, and what can be done about it.
    pub(super) fn refusal(
        &self,
        status: StatusCode,
        kind: &str,
        challenge: Option<&str>,
        body: &str,
    ) -> String {
        let body = body.trim();
        let beginning: String = body.chars().take(15).collect();
        let beginning = beginning.to_ascii_lowercase();
        let is_page = kind.starts_with("text/html")
            || ["<!doctype html", "<html"].iter().any(|tag| beginning.starts_with(tag));
        let mut text = format!("{} answered {status}", self.called());
        if let Some(challenge) = challenge {
            text.push_str(&format!(" ({})", cut(&self.without_secrets(challenge))));
        }
        match (is_page, body.is_empty()) {
            (true, _) => text.push_str(" with a web page"),
            (false, true) if status.is_success() => text.push_str(" without an answer"),
            (false, true) => {}
            (false, false) => {
                text.push_str(&format!(": {}", cut(&self.without_secrets(body))));
            }
        }
        let says_who = self.token.is_some() || !self.headers.is_empty();
        let hint = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if says_who => {
                "hint: it does not take the token or the headers it is sent; look whether they are \
                 complete and still valid"
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                "hint: name the variable that holds its token with --token-env (token_env in \
                 overspill.toml), or put its header into OVERSPILL_MCP_HEADERS. The proxy does no login \
                 in a browser (OAuth): make a token in the service's settings, or leave this server to \
                 the client"
            }
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => IS_IT_MCP,
            _ if is_page => IS_IT_MCP,
            _ => return text,
        };
        format!("{text}; {hint}")
    }

    pub(super) fn skipped(&self, said: &str) {
        let beginning: String = said.chars().take(LOOKED_AT).collect();
        let what = cut(&self.without_secrets(&beginning));
        self.session.log().say(&format!("{} sent something that is skipped: {what}", self.name));
    }

    /// What a server says, without what it was told to be asked with.
    pub(super) fn without_secrets(&self, said: &str) -> String {
        let headers = self.headers.iter().map(|(_, value)| value);
        let told = headers.chain(&self.token).map(Secret::reveal);
        // Of a header such as `Bearer TOKEN`, the second word alone may be said.
        let words = told.flat_map(|value| std::iter::once(value).chain(value.split_whitespace()));
        // As it stands in a header.
        let user = user_of(&self.url).map(|user| BASE64.encode(user.as_bytes()));
        let parts = secret_parts(&self.url).chain(user.as_deref());
        let mut secrets: Vec<&str> = words.chain(parts).collect();
        secrets.retain(|secret| secret.len() >= SECRET && !secret.eq_ignore_ascii_case("bearer"));
        // A longer one may hold a shorter one.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.iter().fold(said.to_owned(), |said, secret| said.replace(secret, "…"))
    }
}

/// The beginning of what a server says, on one line.
fn cut(said: &str) -> String {
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(SAID) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}
