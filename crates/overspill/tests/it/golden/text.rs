//! What text looks like once it is stripped, and a structured value once it is written.

use overspill::ansi::strip;
use overspill::render::{JsonStyle, json};
use serde::Deserialize;
use serde_json::Value;

use super::{Comparison, Output, differences, vectors};

#[test]
fn text_is_stripped_alike() {
    #[derive(Deserialize)]
    struct Vector {
        id: String,
        text: String,
        out: String,
    }

    let Some(vectors) = vectors::<Vector>("strip_ansi.json") else { return };
    let mut comparison = Comparison::with(differences::STRIP_ANSI);
    for Vector { id, text, out } in vectors {
        let stripped = String::from_utf8(strip(text.as_bytes()).into_owned()).unwrap();
        comparison.text(&id, &Output::Whole { lit: out }, &stripped);
    }
    comparison.finish();
}

#[test]
fn values_are_written_alike() {
    #[derive(Deserialize)]
    struct Vector {
        id: String,
        value: Value,
        text: Output,
        indented: Output,
        json_lines: Output,
    }

    let Some(vectors) = vectors::<Vector>("json_render.json") else { return };
    let mut comparison = Comparison::with(differences::JSON);
    for Vector { id, value, text, indented, json_lines } in vectors {
        let styles = [
            ("compact", text, JsonStyle::Compact),
            ("indented", indented, JsonStyle::Indented),
            ("lines", json_lines, JsonStyle::Lines),
        ];
        for (name, expected, style) in styles {
            comparison.text(&format!("{id}/{name}"), &expected, &json(&value, style));
        }
    }
    comparison.finish();
}
