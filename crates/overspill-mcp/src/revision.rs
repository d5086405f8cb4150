//! What results of the proxy's own say beside what they give: the protocol's revision decides.

use crate::json::{Edits, Members};

/// From this revision on there are no sessions: each message says which revision it is of, and each
/// result of which type it is.
pub(crate) const SESSIONLESS: &str = "2026-07-28";

/// How a result is written for whoever asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// It says what it gives and nothing else.
    Plain,
    /// It says its type too, and a list or a resource how long it may be kept.
    Typed,
}

impl Form {
    /// The form for a request with these parameters.
    pub(crate) fn of(params: &Members<'_>) -> Self {
        match stated(params) {
            Some(revision) if revision.as_str() >= SESSIONLESS => Self::Typed,
            _ => Self::Plain,
        }
    }

    /// The result of a request that is done.
    pub(crate) fn complete(self, result: &str) -> String {
        self.with(result, &[("resultType", "\"complete\"")])
    }

    /// The same of one that clients may keep. None of the proxy's is to be kept: any call can
    /// store something more.
    pub(crate) fn cacheable(self, result: &str) -> String {
        let members =
            [("resultType", "\"complete\""), ("ttlMs", "0"), ("cacheScope", "\"private\"")];
        self.with(result, &members)
    }

    fn with(self, result: &str, members: &[(&str, &str)]) -> String {
        if self == Self::Plain {
            return result.to_owned();
        }
        members.iter().fold(result.to_owned(), |result, (key, value)| {
            let mut edits = Edits::default();
            edits.add_member(&result, &result, key, value);
            edits.apply(&result)
        })
    }
}

/// The key under which what came of a subscription says which request subscribed.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// The id of the request whose subscription a notification or a result came of, as it is spelled.
pub(crate) fn subscription<'t>(body: &Members<'t>) -> Option<&'t str> {
    body.object("_meta")?.some(SUBSCRIPTION)
}

/// The revision that a message says it is of.
pub(crate) fn stated(params: &Members<'_>) -> Option<String> {
    params.object("_meta")?.text("io.modelcontextprotocol/protocolVersion")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(params: &str) -> Form {
        Form::of(&Members::of(params).unwrap_or_default())
    }

    #[test]
    fn a_result_says_its_type_where_its_request_says_a_revision_that_wants_it() {
        let of = |revision| {
            form(&format!(
                r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{revision}"}}}}"#
            ))
        };
        assert_eq!(of("2026-07-28").complete("{}"), r#"{"resultType":"complete"}"#);
        assert_eq!(
            of("2027-01-01").cacheable(r#"{"tools":[]}"#),
            r#"{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#
        );
        for form in [of("2025-11-25"), form("{}"), form("")] {
            assert_eq!(form.cacheable(r#"{"tools":[]}"#), r#"{"tools":[]}"#);
        }
    }
}
