//! The short form of the fuzz targets: each check on variations of its seeds, always the same.

use std::path::Path;

use crate::input::Choices;
use crate::{ansi, lines, marker, read, sessions, wire};

/// How many inputs a check is given that takes half a millisecond; the others get fewer.
const INPUTS: usize = 1_500;

/// The longest input; a fuzzer's are as long unless it is told otherwise.
const MAX_INPUT: usize = 4_096;

#[test]
fn lines_are_the_naive_ones() {
    run("seeds/lines", INPUTS / 5, lines::check);
}

#[test]
fn sequences_are_stripped_as_naively() {
    run("seeds/ansi", INPUTS, ansi::check);
}

#[test]
fn markers_are_found_in_any_text() {
    run("seeds/marker", INPUTS, marker::check);
}

#[test]
fn any_read_is_answered() {
    run("seeds/read", INPUTS, read::check);
}

#[test]
fn any_bytes_are_a_recording_or_none() {
    run("../crates/overspill-replay/tests/fixtures", INPUTS / 4, sessions::check);
}

#[test]
fn any_bytes_are_a_request_or_refused() {
    run("../crates/overspill-wire/tests/fixtures", INPUTS, wire::check);
}

fn run(folder: &str, inputs: usize, check: fn(&[u8])) {
    let seeds = seeds(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    let mut choices = Choices::of(folder.as_bytes());
    let variations = std::iter::repeat_with(|| variation(&seeds, &mut choices)).take(inputs);
    for (i, input) in seeds.clone().into_iter().chain(variations).enumerate() {
        if let Err(panic) = std::panic::catch_unwind(|| check(&input)) {
            let path = std::env::temp_dir().join(format!("overspill-finding-{i}"));
            std::fs::write(&path, &input).unwrap();
            println!("what failed is in {}", path.display());
            std::panic::resume_unwind(panic);
        }
    }
}

/// The seeds of a target, in order of their names.
fn seeds(folder: &Path) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// A seed with a few things changed in it, or bytes from nowhere.
fn variation(seeds: &[Vec<u8>], choices: &mut Choices) -> Vec<u8> {
    let mut input = match choices.below(8) {
        0 => {
            let length = choices.below(60);
            let mut bytes = b"#".to_vec();
            bytes.extend((0..length).map(|_| choices.below(256) as u8));
            bytes
        }
        _ => seeds[choices.below(seeds.len())].clone(),
    };
    for _ in 0..choices.below(6) {
        let from = choices.below(input.len() + 1);
        let to = from + choices.below((input.len() - from).min(64) + 1);
        match choices.below(5) {
            0 => drop(input.drain(from..to)),
            1 => input.extend_from_within(from..to),
            2 => {
                let times = 1 + choices.below(40);
                let part = input[from..to].repeat(times);
                input.splice(from..to, part);
            }
            3 => {
                for byte in &mut input[from..to.min(from + 4)] {
                    *byte = choices.below(256) as u8;
                }
            }
            _ => {
                let other = &seeds[choices.below(seeds.len())];
                let start = choices.below(other.len() + 1);
                let end = start + choices.below(other.len() - start + 1);
                input.splice(from..to, other[start..end].iter().copied());
            }
        }
    }
    input.truncate(MAX_INPUT);
    input
}
