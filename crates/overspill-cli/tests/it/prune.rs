//! `prune`, and what becomes of payloads whose time is over.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use crate::bench::{Bench, assert_picture, numbers};

const DAY: Duration = Duration::from_secs(86_400);

/// Makes a payload look as if it had been stored days ago.
fn backdate(bench: &Bench, handle: &str, days: u32) {
    // Half a minute more, so that its age is shown as whole days.
    let then = SystemTime::now() - DAY * days - Duration::from_secs(30);
    File::open(bench.store().join(handle)).unwrap().set_modified(then).unwrap();
}

/// Stores the output of a tool and returns its handle.
fn stored(bench: &Bench, tool: &str, lines: u32) -> String {
    bench.assert(&["pipe", "--tool", tool]).write_stdin(numbers(lines)).assert().success();
    let list = bench.json(&["list", "--json"]);
    let mut handles = list.as_array().unwrap().iter().map(|one| one["handle"].as_str().unwrap());
    handles.find(|handle| handle.starts_with(&format!("cli/{tool}."))).unwrap().to_owned()
}

#[test]
fn a_dry_run_shows_what_goes_and_what_stays() {
    let bench = Bench::with_user_file("[retention]\nmax_age = \"30d\"\n");
    assert_picture!(bench.picture(&["prune"]));
    let (old, young) = (stored(&bench, "old", 5_000), stored(&bench, "young", 6_000));
    backdate(&bench, &old, 40);
    backdate(&bench, &young, 2);
    assert_picture!(bench.picture(&["prune", "--dry-run"]));
    assert_eq!(bench.json(&["list", "--json"]).as_array().unwrap().len(), 2, "nothing is done");

    assert_picture!(bench.picture(&["prune"]));
    let read = bench.output(&["read", &old]);
    assert_eq!(read.status.code(), Some(1));
    let said = String::from_utf8(read.stderr).unwrap();
    assert!(said.contains(&format!("What was stored as {old} expired on 20")), "{said}");
    assert!(said.contains("UTC: it was older than 30d."), "{said}");
    let said = bench.output(&["verify", &old]);
    assert!(String::from_utf8(said.stdout).unwrap().contains("it expired on 20"));
}

#[test]
fn a_projects_file_does_not_delete_what_other_projects_stored() {
    let bench = Bench::with_file("[retention]\nmax_age = \"30d\"\n");
    let other = stored(&bench, "other", 5_000);
    backdate(&bench, &other, 40);
    // Storing would sweep.
    let store = |tool: &str| {
        let mut pipe = bench.assert(&["pipe", "--tool", tool]);
        pipe.write_stdin(numbers(5_000)).assert().success();
    };
    store("another");
    let (all, share) = (bench.home().join("all"), bench.home().join(".local/share"));
    std::os::unix::fs::symlink(&share, &all).unwrap();
    // From a folder below, and where the file names the shared store, by another name.
    for file in [String::new(), format!("[store]\npath = {:?}\n", all.join("overspill"))] {
        bench.write("overspill.toml", format!("{file}[retention]\nmax_age = \"30d\"\n"));
        store("another");
        assert_picture!(bench.picture(&["prune"]));
        let mut below = bench.command(&["prune", "--json"]);
        fs::create_dir_all(bench.path("below")).unwrap();
        let output = below.current_dir(bench.path("below")).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["expired"], serde_json::json!([]));
        let checked = bench.json(&["config", "check", "--json"]);
        let note = checked["notes"][0].as_str().unwrap();
        assert!(note.contains("does not count for a store that other projects use"), "{note}");
    }
    assert_eq!(bench.stdout(&["export", &other]), numbers(5_000));

    // What the user names counts, and so does a file's limit for its own store.
    let file = bench.path("overspill.toml");
    let named = ["prune", "-n", "--json", "--config", file.to_str().unwrap()];
    assert_eq!(bench.json(&named)["expired"][0]["handle"], other.as_str());
    bench.write("overspill.toml", "[store]\npath = \"own\"\n[retention]\nmax_age = \"30d\"\n");
    store("own");
    let own = bench.handle();
    let then = SystemTime::now() - DAY * 40;
    File::open(bench.path("own").join(&own)).unwrap().set_modified(then).unwrap();
    assert_eq!(bench.json(&["prune", "--json"])["expired"][0]["handle"], own.as_str());
}

#[test]
fn flags_go_before_the_file() {
    let bench = Bench::with_user_file("[retention]\nmax_age = \"30d\"\n");
    let (a, b) = (stored(&bench, "a", 5_000), stored(&bench, "b", 6_000));
    backdate(&bench, &a, 8);
    backdate(&bench, &b, 50);
    let expired = |args: &[&str]| {
        let report = bench.json(&[&["prune", "--dry-run", "--json"], args].concat());
        report["expired"].as_array().unwrap().len()
    };
    assert_eq!(expired(&[]), 1);
    assert_eq!(expired(&["--older-than", "1w"]), 2);
    assert_eq!(expired(&["--older-than", "51d"]), 0);
    assert_eq!(expired(&["--max-size", "1TB"]), 0, "the file's age was not meant");
    assert_eq!(expired(&["--max-size", "30KB"]), 1);
    assert_picture!(bench.picture(&["prune", "--max-size", "30KB"]));
    assert_picture!(bench.picture(&["prune", "--older-than", "a week"]));
    assert_picture!(bench.picture(&["prune", "--max-size", "lots"]));
}

#[test]
fn the_size_cap_warns_of_what_it_spares() {
    let bench = Bench::new();
    stored(&bench, "new", 5_000);
    assert_picture!(bench.picture(&["prune", "--max-size", "1KB"]));
}

#[test]
fn a_limit_that_keeps_nothing_is_refused() {
    let bench = Bench::new();
    bench.stored_numbers(5_000);
    for limit in [["--older-than", "0s"], ["--older-than", "0w"], ["--max-size", "0GB"]] {
        let output = bench.output(&["prune", limit[0], limit[1]]);
        assert_eq!(output.status.code(), Some(2), "{limit:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("it is 0, which keeps nothing"), "{said}");
    }
    bench.handle();
}

#[test]
fn a_damaged_index_is_damaged_for_everyone_until_it_is_built_again() {
    let bench = Bench::new();
    let handle = bench.stored_numbers(100_000);
    let index = bench.store().join(format!("{handle}.idx"));
    let sound = fs::read(&index).unwrap();
    let said = || {
        let shown = bench.json(&["show", &handle, "--json"])["index"].as_str().unwrap().to_owned();
        let verified = bench.stdout(&["verify", &handle]);
        (shown, verified.contains("the index is damaged: `overspill prune` builds it again"))
    };
    for at in [3, 40, sound.len() - 10, sound.len() - 60] {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        fs::write(&index, &damaged).unwrap();
        assert_eq!(said(), ("damaged".to_owned(), true));
        assert_eq!(bench.json(&["prune", "--dry-run", "--json"])["indexes"], 1);
        assert_eq!(fs::read(&index).unwrap(), damaged);
        assert_eq!(bench.json(&["prune", "--json"])["indexes"], 1);
        assert_eq!(said(), ("sound".to_owned(), false));
        assert_eq!(bench.json(&["prune", "--json"])["indexes"], 0);
    }
    let mut damaged = sound.clone();
    damaged[3] ^= 1;
    fs::write(&index, &damaged).unwrap();
    bench.stdout(&["prune"]);
    assert_eq!(bench.json(&["show", &handle, "--json"])["tool"], "seq", "its end was sound");

    // Not beside a damaged payload: that is for `verify` to say.
    fs::write(bench.store().join(&handle), "short").unwrap();
    fs::write(&index, &damaged).unwrap();
    assert_eq!(bench.json(&["prune", "--json"])["indexes"], 0);
}

#[test]
fn what_crashes_left_is_cleaned_and_lost_indexes_are_built_again() {
    let bench = Bench::new();
    let handle = stored(&bench, "seq", 5_000);
    backdate(&bench, &handle, 2);
    fs::write(bench.store().join(".staging/1-a"), "torn").unwrap();
    fs::create_dir(bench.store().join("empty")).unwrap();
    let index = bench.store().join(format!("{handle}.idx"));
    fs::remove_file(&index).unwrap();
    assert_picture!(bench.picture(&["prune", "--dry-run"]));
    assert!(!index.exists());
    assert_picture!(bench.picture(&["prune"]));
    assert!(index.exists() && !bench.store().join("empty").exists());
    assert!(bench.stdout(&["verify"]).contains("ok"));
    let report = bench.json(&["prune", "--json"]);
    let kept = report["kept"].as_array().unwrap();
    assert_eq!(kept[0]["handle"], handle.as_str());
    assert_eq!((&report["leftovers"], &report["indexes"]), (&0.into(), &0.into()));
}

#[test]
fn run_and_pipe_sweep_when_it_is_time() {
    let bench = Bench::with_user_file("[retention]\nmax_age = \"30d\"\n");
    let old = stored(&bench, "old", 5_000);
    backdate(&bench, &old, 31);
    let stamp = bench.store().join(".swept");
    if stamp.exists() {
        File::open(&stamp).unwrap().set_modified(SystemTime::now() - DAY).unwrap();
    }
    bench.assert(&["run", "--", "seq", "7000"]).assert().success();
    assert!(!bench.store().join(&old).exists());
    assert!(bench.stdout(&["config", "check"]).ends_with("\n[retention]\nmax_age = \"30d\"\n"));
}
