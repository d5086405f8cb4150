//! Recordings that are cut off, edited or none at all.

use std::error::Error as _;
use std::fs;
use std::path::PathBuf;

use overspill_replay::{Format, ReadError, files, read};

use crate::fixture;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let name = format!("overspill-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

#[test]
fn lines_that_are_not_json_are_counted_and_passed_over() {
    let mut bytes = fs::read(fixture("pi.jsonl")).unwrap();
    bytes.extend(
        b"not json\n[1, 2]\n\"text\"\n\xff\xfe\n{\"type\": \"message\", \"message\": {\"ro",
    );
    let scratch = Scratch::new("lines.jsonl", &bytes);
    let sessions = read(&scratch.0).unwrap();
    assert_eq!(sessions[0].skipped_lines, 3);
    assert_eq!(sessions[0].requests(), 3);
}

#[test]
fn a_document_that_is_cut_off_names_file_line_and_mend() {
    let bytes = fs::read(fixture("swe_agent.traj")).unwrap();
    let scratch = Scratch::new("cut.traj", &bytes[..bytes.len() / 2]);
    let error = read(&scratch.0).unwrap_err();
    let ReadError::Json { line, .. } = &error else { panic!("{error}") };
    assert!(*line > 1);
    assert!(error.source().is_some());
    let message = error.to_string();
    assert!(message.contains("cut.traj:"), "{message}");
    assert!(message.contains("hint: "), "{message}");
}

#[test]
fn a_cassette_that_is_cut_off_names_file_line_and_mend() {
    let scratch = Scratch::new("cut.yaml", b"interactions:\n- request:\n    body: '{\"messages\n");
    let error = read(&scratch.0).unwrap_err();
    assert!(matches!(error, ReadError::Yaml { .. }), "{error:?}");
    assert!(error.to_string().contains("cut.yaml:"), "{error}");
}

#[test]
fn what_is_no_recording_is_said_to_be_none() {
    for (name, bytes) in [
        ("empty.jsonl", &b""[..]),
        ("blank.json", b" \n\n"),
        ("prose.md", b"# Notes\n\nNothing here.\n"),
        ("other.json", b"{\"name\": \"barn\", \"messages\": 3}"),
        ("list.json", b"[]"),
        ("bytes.bin", b"\x00\x01\x02\xff"),
    ] {
        let scratch = Scratch::new(name, bytes);
        let error = read(&scratch.0).unwrap_err();
        assert!(matches!(error, ReadError::Unrecognized { .. }), "{name}: {error:?}");
        assert!(error.to_string().contains("claude_code, codex"), "{error}");
        assert_eq!(Format::detect(&scratch.0).unwrap(), None);
    }
    let error = read(fixture("absent.jsonl")).unwrap_err();
    assert!(matches!(error, ReadError::Io { .. }), "{error:?}");
}

#[test]
fn a_session_without_a_response_is_left_out() {
    let line =
        r#"{"type":"user","sessionId":"s","uuid":"u","message":{"role":"user","content":"Hi"}}"#;
    let scratch = Scratch::new("asked.jsonl", line.as_bytes());
    assert!(read(&scratch.0).unwrap().is_empty());
}

/// Values of the wrong type, everywhere: nothing panics.
#[test]
fn values_of_the_wrong_type_do_no_harm() {
    for path in files(fixture("")).unwrap().files {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        for (i, _) in text.match_indices(['"', '{', '[', ':', '_']) {
            for put in ["null", "7", "[]", "{}", "", "\"é\""] {
                let end = text[i + 1..].find(['"', ',', '\n']).map_or(text.len(), |e| i + 1 + e);
                let damaged = format!("{}{put}{}", &text[..i], &text[end..]);
                let scratch = Scratch::new(&format!("wrong-{name}"), damaged.as_bytes());
                // Whether it can still be read depends on the place; that it returns is the test.
                let _ = read(&scratch.0);
            }
        }
    }
}
