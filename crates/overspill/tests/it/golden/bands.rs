//! Which band fits, and how big a text is.

use overspill::measure::{count_chars, estimate_tokens};
use overspill::{Action, Band, Bands};
use serde::Deserialize;

use super::{Comparison, Spec, differences, vectors};

#[test]
fn the_same_band_is_selected() {
    #[derive(Deserialize)]
    struct Vector {
        id: String,
        bands: Vec<(u64, String)>,
        size: u64,
        selected: Option<String>,
    }

    let Some(vectors) = vectors::<Vector>("bands.json") else { return };
    let mut comparison = Comparison::with(differences::BANDS);
    for Vector { id, bands: rows, size, selected } in vectors {
        let bands = Bands::new(rows.iter().map(|(over, _)| Band::new(*over, Action::Passthrough)));
        let ours = bands.map(|bands| {
            let fit = bands.fit(size)?;
            rows.iter().find(|(over, _)| *over == fit.over).map(|(_, name)| name.clone())
        });
        // Lists of bands are taken or refused whole, so they are listed without the size.
        let list = id.split('/').next().unwrap();
        comparison.case(list, ours.as_ref() == Ok(&selected), &(&id, &selected), &ours);
    }
    comparison.finish();
}

#[test]
fn texts_have_the_same_size() {
    #[derive(Deserialize)]
    struct Vector {
        id: String,
        text: Spec,
        chars: u64,
        tokens: u64,
    }

    for vector in vectors::<Vector>("measure.json").into_iter().flatten() {
        let chars = count_chars(vector.text.build().as_bytes());
        assert_eq!(chars, vector.chars, "{}", vector.id);
        assert_eq!(estimate_tokens(chars), vector.tokens, "{}", vector.id);
    }
}
