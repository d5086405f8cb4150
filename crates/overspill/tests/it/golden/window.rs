//! The window of a model, and the trigger that is a fraction of it.

use overspill::window::{self, Source, WindowOptions, fraction_trigger};
use serde::Deserialize;

use super::{Comparison, differences, vectors};

#[test]
fn a_model_has_the_same_window() {
    #[derive(Deserialize)]
    struct Vector {
        id: String,
        model: String,
        window: Option<u64>,
    }

    let Some(vectors) = vectors::<Vector>("context_window.json") else { return };
    let mut comparison = Comparison::with(differences::CONTEXT_WINDOW);
    for Vector { id, model, window } in vectors {
        let found = window::resolve(&model, &WindowOptions::default());
        let ours = (found.source != Source::Fallback).then_some(found.tokens);
        comparison.case(&id, ours == window, &window, &ours);
    }
    comparison.finish();
}

#[test]
fn a_fraction_is_the_same_number_of_tokens() {
    #[derive(Deserialize)]
    struct Vector {
        id: String,
        max_fraction: f64,
        window: u64,
        trigger: u64,
    }

    let Some(vectors) = vectors::<Vector>("fraction_trigger.json") else { return };
    let mut comparison = Comparison::with(&[]);
    for Vector { id, max_fraction, window, trigger } in vectors {
        let ours = fraction_trigger(window, max_fraction);
        comparison.case(&id, ours == trigger, &trigger, &ours);
    }
    comparison.finish();
}
