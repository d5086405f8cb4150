//! Arrows between the library's rooms run one way.

use std::path::{Path, PathBuf};

/// The order of `pub mod` lines in lib.rs is dependency order: a room uses only rooms above it.
#[test]
fn a_room_uses_only_rooms_above_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = std::fs::read_to_string(src.join("lib.rs")).unwrap();
    let rooms: Vec<&str> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ").or(line.strip_prefix("mod ")))
        .filter_map(|line| line.strip_suffix(';'))
        .collect();
    assert!(rooms.len() > 10 && rooms[0] == "item", "{rooms:?}");
    let mut wrong = Vec::new();
    for (i, room) in rooms.iter().enumerate() {
        for file in files_of(&src, room) {
            let text = std::fs::read_to_string(&file).unwrap();
            // Tests may look everywhere.
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let code: String =
                code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            for below in &rooms[i + 1..] {
                if code.contains(&format!("crate::{below}::")) {
                    wrong.push(format!("{} uses {below}", file.display()));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

fn files_of(src: &Path, room: &str) -> Vec<PathBuf> {
    let mut files = vec![src.join(format!("{room}.rs"))];
    let mut folders = vec![src.join(room)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files
}
