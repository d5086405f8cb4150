//! A server behind the proxy, and how it is reached.

use std::fmt;
use std::path::PathBuf;

/// A server behind the proxy.
#[derive(Debug, Clone)]
pub struct Server {
    /// What its tools' names are prefixed with where there are several servers.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum Transport {
    /// A program that is started for each session, spoken to through its standard input and output.
    Command {
        /// The program.
        command: PathBuf,
        /// Its arguments.
        args: Vec<std::ffi::OsString>,
        /// What is added to its environment.
        env: Vec<(String, String)>,
        /// The folder it is started in; that of the proxy where it is `None`.
        cwd: Option<PathBuf>,
    },
    /// A server over streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// The bearer token it is sent.
        token: Option<Secret>,
        /// Other headers it is sent.
        headers: Vec<(String, Secret)>,
    },
    /// A server that cannot be asked, such as one whose token is not there: the others are served
    /// without it, and what it is asked is answered with why.
    Unavailable {
        /// Why, and what can be done about it.
        why: String,
    },
}

impl Transport {
    /// A program with arguments.
    pub fn command(
        command: impl Into<PathBuf>,
        args: impl IntoIterator<Item = impl Into<std::ffi::OsString>>,
    ) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self::Command { command: command.into(), args, env: Vec::new(), cwd: None }
    }

    /// An address.
    pub fn http(url: impl Into<String>) -> Self {
        Self::Http { url: url.into(), token: None, headers: Vec::new() }
    }
}

/// An address as people and logs may see it: without user, query and fragment, and without the parts of
/// its path that may be a key.
///
/// ```
/// let shown = overspill_mcp::shown("https://me:pw@a.example/mcp/s/OTk1ZDg2YmE4Nw?key=k");
/// assert_eq!(shown, "https://a.example/mcp/s/…");
/// ```
pub fn shown(url: &str) -> String {
    let public = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match public.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), public),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    // A client puts a variable's value there.
    let host = if host.contains('$') { "…" } else { host };
    let path = path.split('/').map(|part| if may_be_a_key(part) { "…" } else { part });
    format!("{scheme}{host}{}", path.collect::<Vec<_>>().join("/"))
}

/// The parts of an address that [`shown`] leaves out.
pub(crate) fn secret_parts(url: &str) -> impl Iterator<Item = &str> {
    let (public, secret) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let rest = public.split_once("://").map_or(public, |(_, rest)| rest);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    let values =
        secret.split(['?', '#', '&']).map(|pair| pair.split_once('=').map_or(pair, |it| it.1));
    path.split('/').filter(|part| may_be_a_key(part)).chain(user.split(':')).chain(values)
}

/// The user and the password in an address, where there are any.
pub(crate) fn user_of(url: &str) -> Option<&str> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').map(|(user, _)| user)
}

/// Whether a part of a path is anything but a few short words, such as `api`, `v1` or `@scope`.
fn may_be_a_key(part: &str) -> bool {
    let is_word = |word: &str| {
        let letters = word.trim_end_matches(|it: char| it.is_ascii_digit());
        let digits = word.len() - letters.len();
        let rest = letters.strip_prefix(|it: char| it.is_ascii_uppercase()).unwrap_or(letters);
        let is_plain = rest.bytes().all(|it| it.is_ascii_lowercase())
            || letters.bytes().all(|it| it.is_ascii_uppercase());
        let few_digits = digits <= if letters.is_empty() { 4 } else { 2 };
        is_plain && few_digits && word.len() <= 15
    };
    let is_short = part.len() <= 8 && part.bytes().all(|it| it.is_ascii_alphanumeric());
    !is_short && (part.len() > 40 || !part.split(['-', '_', '.', '@', '~']).all(is_word))
}

/// A text that is not shown when it is printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `text` is the secret, in a time that does not tell how much of it is right.
    pub(crate) fn is(&self, text: &str) -> bool {
        blake3::hash(self.0.as_bytes()) == blake3::hash(text.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_key_is_not_shown() {
        for plain in [
            "https://a.example",
            "http://127.0.0.1:8931/mcp",
            "https://[::1]:80/api/v1/mcp/",
            "https://a.example/@scope/context7-mcp/mcp_server.v2",
            "https://a.example/2025-06-18/GitHub",
            "a.example/mcp",
            "",
        ] {
            assert_eq!(shown(plain), plain);
        }
        for (url, seen) in [
            ("https://u:pw@a.example/mcp", "https://a.example/mcp"),
            ("https://u@b@a.example/mcp", "https://a.example/mcp"),
            ("https://a.example?key=k", "https://a.example"),
            ("https://a.example/mcp#k", "https://a.example/mcp"),
            ("u:pw@a.example/mcp", "a.example/mcp"),
            (
                "https://a.example/s/550e8400-e29b-41d4-a716-446655440000/mcp",
                "https://a.example/s/…/mcp",
            ),
            ("https://a.example/s/OTk1ZDg2YmE4Nw", "https://a.example/s/…"),
            ("https://a.example/s/qwertzuiopasdfghjk", "https://a.example/s/…"),
            ("https://a.example/s/0123456789", "https://a.example/s/…"),
            ("https://a.example/s/a%20b", "https://a.example/s/…"),
            ("https://a.example/${KEY}/mcp", "https://a.example/…/mcp"),
            ("https://$KEY.a.example/mcp", "https://…/mcp"),
            (
                "https://a.example/a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a-a",
                "https://a.example/…",
            ),
        ] {
            assert_eq!(shown(url), seen);
        }
    }
}
