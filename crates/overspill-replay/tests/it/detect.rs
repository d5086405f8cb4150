//! Formats are told apart by content.

use std::fs;

use overspill_replay::{Format, files, read};

use crate::fixture;

#[test]
fn each_format_is_told_by_its_content_under_any_name() {
    let folder = std::env::temp_dir().join(format!("overspill-detect-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let fixtures = files(fixture("")).unwrap().files;
    let mut found = Vec::new();
    for path in &fixtures {
        let name = path.file_name().unwrap().to_str().unwrap();
        let copy = folder.join("recording");
        fs::copy(path, &copy).unwrap();
        let format = Format::detect(&copy).unwrap().unwrap_or_else(|| panic!("{name}"));
        assert!(name.starts_with(format.name()), "{name} is not {format}");
        found.push(format);
    }
    found.sort();
    found.dedup();
    assert_eq!(found, Format::ALL);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_folder_is_read_whole_and_what_is_no_recording_is_passed_over() {
    let folder = std::env::temp_dir().join(format!("overspill-folder-{}", std::process::id()));
    let deep = folder.join("projects/barn");
    fs::create_dir_all(&deep).unwrap();
    fs::copy(fixture("pi.jsonl"), deep.join("b.jsonl")).unwrap();
    fs::copy(fixture("codex.jsonl"), deep.join("a.jsonl")).unwrap();
    fs::write(deep.join("README.md"), "# A barn\n").unwrap();
    fs::write(deep.join("package.json"), "{\"name\": \"barn\"}\n").unwrap();
    fs::write(deep.join("ignored.txt"), "{").unwrap();
    fs::write(deep.join("empty.jsonl"), "").unwrap();
    let sessions = read(&folder).unwrap();
    let formats: Vec<Format> = sessions.iter().map(|session| session.format).collect();
    assert_eq!(formats, [Format::Codex, Format::Pi]);
    fs::remove_dir_all(&folder).unwrap();
}
