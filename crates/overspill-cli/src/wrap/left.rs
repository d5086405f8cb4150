//! Why a server of a client's configuration is left as it is, in words.

use std::fmt::{self, Display};

use super::entry::{HEADERS, URL};

/// Why a server is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Left {
    /// It goes through the proxy.
    Already,
    /// It goes through the proxy, which is called otherwise than it would be now.
    Otherwise(String),
    /// It is called as the proxy is, by a name that says nothing.
    Alike,
    /// It did before anything was wrapped.
    Before,
    /// Another program starts the proxy.
    Launched,
    /// `overspill mcp` with neither a command nor an address.
    OfItsOwn,
    NoServer,
    /// What stands under a key is of another kind than the one that is understood there.
    OtherKind {
        key: &'static str,
        is: &'static str,
        wanted: &'static str,
    },
    /// A member of what stands under a key is no text.
    NotText(&'static str),
    /// A header does not fit on a line of its own.
    HeaderLine {
        name: String,
        has: &'static str,
    },
    Twice(String),
    ServerSentEvents,
    /// It is reached in a way that the proxy has not, which the address begins with.
    NoHttp(String),
    ClientLogin(&'static str),
    ClientHeaders(&'static str),
    /// Its token is in a variable that the entry does not set, and the client reads no such name.
    TokenElsewhere(String),
    /// Its env has what is the proxy's.
    OwnVariable,
    /// The client reads no servers with an address from this file.
    NoAddresses,
}

impl Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Already => f.write_str("it goes through the proxy already"),
            Self::Otherwise(now) => write!(
                f,
                "it goes through the proxy already, though not by `{now}`; to change that, unwrap it \
                 first"
            ),
            Self::Alike => f.write_str(
                "it is called as `overspill mcp` is, and taken for it; if it is another program, \
                 change the entry by hand",
            ),
            Self::Before => f.write_str(
                "you had put it behind the proxy by hand; to undo it too, unwrap once more when \
                 the copy is gone",
            ),
            Self::Launched => f.write_str(
                "another program starts overspill there; take `overspill mcp` away by hand",
            ),
            Self::OfItsOwn => {
                f.write_str("it starts overspill with servers of its own configuration")
            }
            Self::NoServer => f.write_str("it has neither a command nor an address"),
            Self::OtherKind { key, is, wanted } => {
                write!(f, "its {key:?} is {is}, where only {wanted} is understood")
            }
            Self::HeaderLine { name, has } => {
                write!(f, "its header {name:?} has {has}, which no request can send")
            }
            Self::NotText(key) => write!(f, "its {key} are not all text"),
            Self::Twice(key) => write!(f, "its {key:?} stands there twice"),
            Self::ServerSentEvents => f.write_str(
                "it speaks HTTP with server-sent events, which streamable HTTP has replaced",
            ),
            Self::NoHttp(scheme) => {
                write!(f, "its address begins with {scheme}://, and the proxy speaks HTTP alone")
            }
            Self::ClientLogin(key) => {
                write!(f, "the client logs in by its {key:?}, which it cannot do through a proxy")
            }
            Self::ClientHeaders(key) => write!(
                f,
                "the client makes its headers from its {key:?}, which it cannot do through a proxy"
            ),
            Self::TokenElsewhere(name) => write!(
                f,
                "its token is in the variable {name}, which its env does not set, and the client knows \
                 tokens by their value alone; put {name} there, or write the entry by hand"
            ),
            Self::OwnVariable => write!(
                f,
                "its env has {URL} or {HEADERS}, which are the proxy's own; take them out, or write the \
                 entry by hand"
            ),
            Self::NoAddresses => f.write_str(
                "the client reads no address from this file; add it under Settings, Connectors, and \
                 take the entry out by hand",
            ),
        }
    }
}
