//! What stands in place of a call's arguments.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Draft;
use super::draft::BARE_MARKER;
use crate::count::Weight;
use crate::entry::{Entry, EntryId};
use crate::history::{Field, Words};
use crate::marker::Below;
use crate::measure::{count_chars, grouped};

/// A member of arguments that is no longer than this stays: it is a path, a name, a flag, what a
/// reader knows the call by.
const SHORT_CHARS: u64 = 200;

/// The member that says what happened to the others.
pub(super) const MEMBER: &str = "overspill";

/// The words of that member, besides the marker.
const WORDS: &str = "Cut from this record only; the tool got it whole. Write new calls in full. ";

/// The object that stands in place of a call's arguments, and what it weighs at most; `None` where
/// it stands there already.
///
/// What is short stays, spelled as it was. The result is an object whatever the arguments were.
pub(super) fn stub(draft: &Draft<'_, '_>, call: EntryId) -> Option<(Vec<(String, Field)>, Weight)> {
    let entry = draft.history().entry(call).filter(|entry| Entry::is_call(entry))?;
    let members = serde_json::from_str::<Members>(&entry.text).map_or(Vec::new(), |all| all.0);
    if members.iter().any(|(key, _)| key == MEMBER) {
        return None;
    }
    let mut object = Vec::with_capacity(members.len() + 1);
    // As the object will be written, but for the marker.
    let mut written = format!("{{{MEMBER:?}:{WORDS:?}}}");
    for (key, value) in members {
        let chars = count_chars(value.get().as_bytes());
        let (shown, field) = if chars <= SHORT_CHARS {
            (Cow::Borrowed(value.get()), Field::Json(value.get().to_owned()))
        } else {
            let words = format!("({} characters)", grouped(chars));
            (format!("{words:?}").into(), Field::Words(Words::text(words)))
        };
        written += &format!("{}:{shown},", serde_json::Value::from(&*key));
        object.push((key, field));
    }
    let words = Words::text(WORDS).then(Words::marker(Below::Bare));
    object.push((MEMBER.to_owned(), Field::Words(words)));
    let weight = [draft.scene().counter.text(&written), BARE_MARKER].into_iter().sum();
    Some((object, weight))
}

/// The members of a JSON object, in order, as they are spelled.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Members, M::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}
