//! Answers an RFC 9535 query over a JSON payload, with each value as it is spelled there.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use serde_json_path::{JsonPath, PathElement};

use crate::measure::grouped;
use crate::store::Stored;

use super::args::ReadArgs;
use super::{BODY_CHARS, MAX_ANSWER_CHARS, MAX_JSON_PATH_BYTES, OPENING, sorry};

mod cost;

use cost::Cost;

/// Characters of one value that are shown at most, so that a large one leaves room for others.
const VALUE_CHARS: usize = MAX_ANSWER_CHARS / 5;

pub(super) async fn answer(
    stored: &Stored,
    args: &ReadArgs,
    query: &str,
) -> Result<String, String> {
    let receipt = stored.receipt();
    let handle = &receipt.handle;
    let cost = Cost::of(query)?;
    let shown_query: String = query.chars().take(100).collect();
    let path = JsonPath::parse(query).map_err(|error| {
        format!(
            "`json_path` {shown_query:?} is no RFC 9535 query: {error}. One looks like $.items[*].name."
        )
    })?;
    if receipt.bytes > MAX_JSON_PATH_BYTES {
        return Err(format!(
            "{handle} is {} bytes long and `json_path` parses at most {}; read it by lines, where \
             each record of a list is a line, or search it with `pattern`.",
            grouped(receipt.bytes),
            grouped(MAX_JSON_PATH_BYTES)
        ));
    }
    let bytes = stored.bytes(0..receipt.bytes).await.map_err(|error| sorry(handle, &error))?;
    let not_json = |error: serde_json::Error| {
        format!(
            "{handle} is not one JSON document ({error}); read it by lines, or search it with `pattern`."
        )
    };
    let value: Value = serde_json::from_slice(&bytes).map_err(not_json)?;
    let raw: &RawValue = serde_json::from_slice(&bytes).map_err(not_json)?;

    cost.allow(&value)?;
    let found = path.query_located(&value);
    let total = found.len() as u64;
    let (start, end) = if args.from_end {
        let end = total.saturating_sub(args.offset);
        (end.saturating_sub(args.limit), end)
    } else {
        (args.offset.min(total), args.offset.saturating_add(args.limit).min(total))
    };
    let wanted: Vec<_> = found.iter().skip(start as usize).take((end - start) as usize).collect();

    // Values are shown as the payload spells them: a number read and written again may differ.
    let mut spelled = vec![""; wanted.len()];
    let paths = wanted.iter().enumerate().map(|(i, node)| (i, node.location().iter().collect()));
    spell(raw, paths.collect(), &mut spelled);

    let rows = wanted.iter().zip(spelled);
    let mut rows: Vec<String> =
        rows.map(|(node, text)| row(&node.location().to_string(), text)).collect();
    // The last ones are what was asked for from the end.
    let mut chars = 0;
    let mut fits = |row: &&String| {
        chars += row.chars().count();
        chars <= BODY_CHARS
    };
    let fit = match args.from_end {
        true => rows.iter().rev().take_while(&mut fits).count(),
        false => rows.iter().take_while(&mut fits).count(),
    };
    let fit = fit.max(1).min(rows.len());
    let (start, end) = match args.from_end {
        true => (end - fit as u64, end),
        false => (start, start + fit as u64),
    };
    match args.from_end {
        true => drop(rows.drain(..rows.len() - fit)),
        false => rows.truncate(fit),
    }
    let on = match args.from_end {
        _ if fit == 0 && total > 0 => "; offset is past the end".to_owned(),
        true if start > 0 => format!("; before them: from_end=true, offset={}", total - start),
        false if end < total => format!("; go on with offset={end}"),
        _ => "; that is all".to_owned(),
    };
    let which = match fit {
        0 => format!("none of {total}"),
        _ => format!("{start}-{} of {}", end - 1, grouped(total)),
    };
    let body = rows.concat();
    Ok(format!("{OPENING}results {which} for {shown_query:?} in {handle}{on}]\n{body}"))
}

fn row(location: &str, text: &str) -> String {
    let location: String = location.chars().take(1_000).collect();
    match text.char_indices().nth(VALUE_CHARS) {
        None => format!("{location} = {text}\n"),
        Some((cut, _)) => format!(
            "{location} = {}[… {} more characters; narrow the query, or read by lines]\n",
            &text[..cut],
            grouped(text[cut..].chars().count() as u64)
        ),
    }
}

/// One wanted value: its place in the answer and what is left of the path to it.
type Wanted<'p> = (usize, Vec<&'p PathElement<'p>>);

/// Finds the text of each wanted value, going through every container on the way once.
fn spell<'a>(raw: &'a RawValue, wanted: Vec<Wanted<'_>>, spelled: &mut [&'a str]) {
    let mut names: BTreeMap<&str, Vec<Wanted<'_>>> = BTreeMap::new();
    let mut indices: BTreeMap<usize, Vec<Wanted<'_>>> = BTreeMap::new();
    for (place, path) in wanted {
        match path.split_first() {
            None => spelled[place] = raw.get(),
            Some((PathElement::Name(name), rest)) => {
                names.entry(name).or_default().push((place, rest.to_vec()));
            }
            Some((PathElement::Index(index), rest)) => {
                indices.entry(*index).or_default().push((place, rest.to_vec()));
            }
        }
    }
    if !names.is_empty()
        && let Ok(members) = serde_json::from_str::<Members<'_>>(raw.get())
    {
        // Of members with one name the last counts, as it does in the parsed value.
        let members: BTreeMap<&str, &RawValue> =
            members.0.iter().map(|(name, raw)| (name.as_ref(), *raw)).collect();
        for (name, wanted) in names {
            if let Some(member) = members.get(name) {
                spell(member, wanted, spelled);
            }
        }
    }
    if !indices.is_empty()
        && let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(raw.get())
    {
        for (index, wanted) in indices {
            if let Some(element) = elements.get(index) {
                spell(element, wanted, spelled);
            }
        }
    }
}

/// An object's members, in order, their values unparsed.
struct Members<'a>(Vec<(std::borrow::Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<(std::borrow::Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &RawValue>()? {
                    members.push((name, value));
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Visitor).map(Members)
    }
}

/// A member's name, borrowed where it is spelled without escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] std::borrow::Cow<'a, str>);
