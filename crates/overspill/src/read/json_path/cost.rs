//! What can a query take? Neither reading it nor answering it has a bound of its own.
//!
//! A query is looked at as text, before it is read: reading nested filters takes four times as
//! long with each level, and many parentheses overflow the stack. What it visits is estimated
//! from above: a query that could go through a payload again and again is refused there.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::search::full_size;

/// Characters of a query at most: more than anyone writes, and little enough to read in no time.
const MAX_CHARS: usize = 1_000;

/// Brackets and parentheses within each other at most. A filter in a filter takes two to four.
const MAX_NESTING: usize = 6;

/// Values that a query may visit at most, each as often as it could be visited: some seconds. A
/// payload of 16 MiB has about a million values.
const MAX_VISITS: u64 = 1 << 22;

/// What compiling a regular expression of a filter may take, in bytes. It is compiled for every
/// value that is tested.
const MAX_REGEX_BYTES: u64 = 64 * 1024;

/// What visits depend on, as far as a query tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cost {
    /// How often a value can be selected because it is named more than once.
    repeats: u64,
    /// How often `..` stands in the query. Each but the first finds a value once from every
    /// value around it.
    descents: u32,
    /// Queries in filters that go through the payload from its root, for each value tested.
    restarts: u32,
    /// What testing one value takes, in visits.
    tests: u64,
}

impl Cost {
    /// Looks at a query that may be no query at all.
    ///
    /// # Errors
    ///
    /// A sentence for the model where it is too long, nested too deep, or has a regular
    /// expression that takes too much.
    pub(super) fn of(query: &str) -> Result<Self, String> {
        if query.chars().count() > MAX_CHARS {
            return Err(format!("`json_path` may be {MAX_CHARS} characters long; shorten it."));
        }
        let (bare, literals) = bare(query);
        let mut cost = Self { repeats: 1, descents: 0, restarts: 0, tests: 1 };
        let mut open: Vec<usize> = Vec::new();
        for (at, char) in bare.char_indices() {
            let behind = &bare[at + char.len_utf8()..];
            match char {
                '[' | '(' => open.push(at),
                ']' | ')' => {
                    if let Some(start) = open.pop().filter(|_| char == ']') {
                        let selectors =
                            repeats(&bare[start + 1..at], &literals[..], &bare[..start]);
                        cost.repeats = cost.repeats.saturating_mul(selectors);
                    }
                }
                '.' if behind.starts_with('.') => cost.descents += 1,
                '@' | '*' => cost.tests += 1,
                '$' if at > 0 => {
                    cost.tests += 1;
                    cost.restarts += u32::from(is_wide(behind));
                }
                _ => {}
            }
            if open.len() > MAX_NESTING {
                return Err(format!(
                    "`json_path` may nest brackets and parentheses {MAX_NESTING} deep; use a simpler query."
                ));
            }
        }
        for (at, function) in bare.match_indices("match(").chain(bare.match_indices("search(")) {
            let literal = last_argument(&bare, at + function.len()).and_then(|at| {
                let nth = bare[..at].matches(LITERAL).count();
                literals.get(nth)
            });
            let regex = literal.ok_or_else(|| {
                format!("`{function}…)` in `json_path` takes a regular expression in quotes.")
            })?;
            let size = full_size(regex, MAX_REGEX_BYTES).map_err(|why| {
                format!("A regular expression in `json_path` cannot be used: {why}.")
            })?;
            // Compiling 2 KiB takes as long as some hundred visits; 64 KiB, some five hundred.
            cost.tests += 64 + size / 128;
        }
        Ok(cost)
    }

    /// Lets a query be answered over this payload.
    ///
    /// # Errors
    ///
    /// A sentence for the model where it could take too long.
    pub(super) fn allow(&self, payload: &Value) -> Result<(), String> {
        let (values, depth) = extent(payload);
        // Values are found with their paths, which are as long as the payload is deep.
        let visits = (values.saturating_mul(1 + depth / 8))
            .saturating_mul(self.tests)
            .saturating_mul(self.repeats)
            .saturating_mul(depth.saturating_pow(self.descents.saturating_sub(1)))
            .saturating_mul(values.saturating_pow(self.restarts));
        if visits <= MAX_VISITS {
            return Ok(());
        }
        Err("This query could go through the payload too often to answer it. Use `..` once, \
             name a value once, test less in a filter; or read by lines, or search with \
             `pattern`."
            .to_owned())
    }
}

/// Stands for a string in a query.
const LITERAL: char = '\0';

/// A query without white space and with its strings taken out.
fn bare(query: &str) -> (String, Vec<String>) {
    let (mut bare, mut literals) = (String::new(), Vec::new());
    let mut chars = query.chars();
    while let Some(char) = chars.next() {
        match char {
            '\'' | '"' => {
                let mut literal = String::from('"');
                while let Some(inner) = chars.next().filter(|inner| *inner != char) {
                    match inner {
                        '\\' => match chars.next() {
                            Some('\'') => literal.push('\''),
                            Some(escaped) => literal.extend(['\\', escaped]),
                            None => {}
                        },
                        '"' => literal.push_str("\\\""),
                        inner => literal.push(inner),
                    }
                }
                literal.push('"');
                // What is no string is reported by whoever reads the query.
                literals.push(serde_json::from_str(&literal).unwrap_or(literal));
                bare.push(LITERAL);
            }
            char if char.is_whitespace() || char == LITERAL => {}
            char => bare.push(char),
        }
    }
    (bare, literals)
}

/// How often the selectors of a bracket can select one value. `before` is what stands before it.
fn repeats(selectors: &str, literals: &[String], before: &str) -> u64 {
    let mut nth = before.matches(LITERAL).count();
    let (mut names, mut plain, mut others) = (BTreeSet::new(), 0, 0);
    let mut nesting = 0_i32;
    let parts = selectors.split(|char| {
        nesting += i32::from(matches!(char, '[' | '(')) - i32::from(matches!(char, ']' | ')'));
        nesting == 0 && char == ','
    });
    for part in parts {
        let strings = part.matches(LITERAL).count();
        let name = match literals.get(nth) {
            Some(name) if part.chars().eq([LITERAL]) => Some((true, name.as_str())),
            _ => part.bytes().all(|b| b.is_ascii_digit()).then_some((false, part)),
        };
        nth += strings;
        match name {
            Some(name) => {
                plain += 1;
                names.insert(name);
            }
            None => others += 1,
        }
    }
    // Names and numbers that differ select different values.
    others + (plain - names.len() as u64) + u64::from(plain > 0)
}

/// Whether a query goes through more than one value at a step; `query` is what follows its `$`.
fn is_wide(query: &str) -> bool {
    let end = query.find(['=', '<', '>', '&', '|', ')']).unwrap_or(query.len());
    query[..end].contains(['*', '?', ':', ',']) || query[..end].contains("..")
}

/// Where the last argument of a function begins, if that is a string; `from` is behind its `(`.
fn last_argument(bare: &str, from: usize) -> Option<usize> {
    let mut nesting = 0;
    let end = bare[from..].find(|char| {
        nesting += i32::from(char == '(') - i32::from(char == ')');
        nesting < 0
    })?;
    let arguments = &bare[from..from + end];
    arguments.ends_with([LITERAL]).then(|| from + arguments.len() - 1)
}

/// How many values there are, and how deep they lie at most.
fn extent(value: &Value) -> (u64, u64) {
    let within = |values: &mut dyn Iterator<Item = &Value>| {
        let (count, depth) = values
            .map(extent)
            .fold((1, 0), |(count, depth), (more, deep)| (count + more, depth.max(deep)));
        (count, depth + 1)
    };
    match value {
        Value::Array(list) => within(&mut list.iter()),
        Value::Object(map) => within(&mut map.values()),
        _ => (1, 1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(query: &str, repeats: u64, descents: u32, restarts: u32, tests: u64) {
        let cost = Cost { repeats, descents, restarts, tests };
        assert_eq!(Cost::of(query), Ok(cost), "{query}");
    }

    #[test]
    fn plain_queries_visit_every_value_once() {
        check("$", 1, 0, 0, 1);
        check("$.items[0].name", 1, 0, 0, 1);
        check("$['a', \"b, c\", 'it\\'s'][0,1,2]", 1, 0, 0, 1);
        check("$..price", 1, 1, 0, 1);
        check("$.items[?@.id > 3 && @.name == 'a..b']", 1, 0, 0, 3);
        check("$.items[?@.price < $.max]", 1, 0, 0, 3);
    }

    #[test]
    fn what_visits_values_again_is_counted() {
        check("$[0,0,-1]['a',\"a\"]", 6, 0, 0, 1);
        check("$[*, 1:2, 0]", 3, 0, 0, 2);
        check("$[?@['a','a']][ ?@ , ?@ ]", 4, 0, 0, 4);
        check("$..*..*", 1, 2, 0, 3);
        check("$[?count($..a) > count($ .b)]", 1, 1, 1, 3);
        check("$[?@.a == $.b[0].c]", 1, 0, 0, 3);
        check("$[?search(@.a, 'x') || match(value(@..b), \"y\")]", 1, 1, 0, 163);
    }

    #[test]
    fn what_takes_too_long_to_read_is_refused() {
        for query in [
            format!("$[?{}@{}]", "(".repeat(100_000), ")".repeat(100_000)),
            format!("${}{}", "[?@".repeat(20), "]".repeat(20)),
            "$.a".repeat(1_000),
            "$[?match(@.a, @.b)]".to_owned(),
            r"$[?match(@.a, '(\\w{1,100}){1,100}')]".to_owned(),
            r"$[?match(@.a, '(\\w\u007b1,100}){1,100}')]".to_owned(),
            "$[?match(@.a, '(')]".to_owned(),
            "$[?match(@.a".to_owned(),
        ] {
            assert!(Cost::of(&query).is_err(), "{query}");
        }
    }

    #[test]
    fn what_takes_too_long_to_answer_is_refused_where_the_payload_is_large() {
        let few = json!([[{ "a": [1, 2] }], [[[[[[[[[[1]]]]]]]]]]]);
        let many = json!(vec![json!({ "a": 1, "b": ["x"] }); 5_000]);
        let check = |query: &str, payload, is_allowed| {
            assert_eq!(Cost::of(query).unwrap().allow(payload).is_ok(), is_allowed, "{query}");
        };
        check("$[?count($..*) > 1]", &few, true);
        check("$[?count($..*) > 1]", &many, false);
        check("$..*..*", &many, true);
        check(&format!("${}", "..*".repeat(9)), &few, false);
        check(&format!("${}", "[0,0,0,0,0,0,0,0]".repeat(7)), &few, false);
        check("$[*]['a','b']", &many, true);
        check("$[?search(@.a, '[a-z]+')]", &many, true);
    }
}
