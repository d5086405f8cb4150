use proptest::prelude::*;

use super::*;

#[test]
fn finds_members_items_and_paths() {
    let text = r#" {"a":[1,{"b\u0063":"x\n"},[]],"a":{"c":-1.5e+3}, "d" : null} "#;
    let tape = Tape::read(text).unwrap();
    let root = tape.root();
    assert_eq!(
        root.members().map(|(k, _)| k.text().into_owned()).collect::<Vec<_>>(),
        ["a", "a", "d"]
    );
    // Of repeated keys the last counts.
    let c = root.get("a").and_then(|a| a.get("c")).unwrap();
    assert_eq!((c.raw(), c.path().as_str()), ("-1.5e+3", "$.a.c"));
    assert!(root.get("d").is_none() && root.spelled("d").is_some());
    let first = root.members().next().unwrap().1;
    let x = first.items().nth(1).unwrap().get("bc").unwrap();
    assert_eq!((x.text().as_ref(), x.raw(), x.path().as_str()), ("x\n", r#""x\n""#, "$.a[1].bc"));
    assert_eq!(first.items().nth(2).unwrap().items().count(), 0);
}

#[test]
fn says_what_is_wrong_and_where() {
    let wrong = |text: &str| Tape::read(text).map(|_| ()).unwrap_err();
    assert_eq!(wrong(""), Malformed { at: 0, what: "the JSON text ends too early" });
    assert_eq!(wrong("{\"a\":1"), Malformed { at: 6, what: "the JSON text ends too early" });
    assert_eq!(wrong("[1 2]"), Malformed { at: 3, what: "expected `,` or `]`" });
    assert_eq!(wrong("[\"ab"), Malformed { at: 1, what: "a string without an end" });
    assert_eq!(wrong("1 2"), Malformed { at: 2, what: "more after the end of the JSON text" });
    assert_eq!(wrong(&"[".repeat(20_000)).what, "nested more than 10,000 deep");
    let deep = format!("{}{}", "[".repeat(9_000), "]".repeat(9_000));
    assert!(Tape::read(&deep).is_ok());
}

#[test]
fn reads_halves_of_surrogate_pairs() {
    assert_eq!(decode(r#""a\ud83dz\ude00\ud83d\ude00\/""#), "a\u{fffd}z\u{fffd}😀/");
    assert_eq!(decode(r#""\ud83d\n""#), "\u{fffd}\n");
    assert!(Tape::read(r#""\ud83d""#).is_ok() && Tape::read(r#""\ud83""#).is_err());
}

/// JSON and what is nearly JSON.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(","),
        Just(":"),
        Just("\""),
        Just("\\"),
        Just("\"a\""),
        Just("\"\\u00e9\""),
        Just("\"\\n\""),
        Just("1"),
        Just("-"),
        Just("0"),
        Just("."),
        Just("e"),
        Just("1.5e3"),
        Just("true"),
        Just("null"),
        Just(" "),
        Just("\n"),
        Just("é"),
        Just("\u{1}"),
        Just("[]"),
        Just("{\"k\":1}"),
        Just("\"k\":"),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn accepts_what_serde_json_accepts(text in texts()) {
        let ours = Tape::read(&text).is_ok();
        let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok();
        prop_assert_eq!(ours, theirs, "{}", text);
    }

    #[test]
    fn decodes_as_serde_json_does(text in "(\\PC|[\\n\"\\\\\u{0}-\u{1f}]){0,40}") {
        let literal = quote(&text);
        prop_assert_eq!(decode(&literal), text.as_str());
        let ascii: String = text
            .encode_utf16()
            .map(|unit| format!("\\u{unit:04x}"))
            .collect();
        let literal = format!("\"{ascii}\"");
        prop_assert_eq!(decode(&literal), text.as_str());
    }

    #[test]
    fn every_value_is_found_where_it_stands(value in values()) {
        let text = value.to_string();
        let tape = Tape::read(&text).unwrap();
        check_same(tape.root(), &value)?;
    }
}

fn values() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        "\\PC{0,12}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            proptest::collection::vec(("[a-z\"é]{0,3}", inner), 0..5)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

fn check_same(found: super::Value<'_>, value: &serde_json::Value) -> Result<(), TestCaseError> {
    prop_assert_eq!(found.raw(), value.to_string());
    match value {
        serde_json::Value::Array(items) => {
            prop_assert_eq!(found.items().count(), items.len());
            for (found, item) in found.items().zip(items) {
                check_same(found, item)?;
            }
        }
        serde_json::Value::Object(members) => {
            prop_assert_eq!(found.members().count(), members.len());
            for ((key, found), (name, value)) in found.members().zip(members) {
                prop_assert_eq!(key.text(), name.as_str());
                check_same(found, value)?;
            }
        }
        _ => {}
    }
    Ok(())
}
