//! What is measured with: the same bytes in every run.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};

/// A line that is in no payload.
pub(crate) const ABSENT: &str = "needle that is in no haystack";

/// Writes so many bytes of log text, line by line, to `sink`.
///
/// It is what a service writes: a time, a level, a module, a message and fields. One line in some
/// tells of trouble, as a log's do.
pub(crate) fn write_log(bytes: u64, sink: &mut dyn Write) -> io::Result<()> {
    let mut random = Random(1);
    let mut written = 0;
    let mut line = Vec::new();
    for second in 0_u64.. {
        line.clear();
        let (hour, minute) = (second / 3_600 % 24, second / 60 % 60);
        write!(
            line,
            "2026-03-14T{hour:02}:{minute:02}:{:02}.{:03}Z ",
            second % 60,
            random.below(1_000)
        )?;
        let (user, micros) = (random.below(90_000), random.below(400_000));
        match random.below(200) {
            0 => write!(
                line,
                "ERROR store::pool  connection to 10.0.{}.{} refused after {micros} us",
                random.below(256),
                random.below(256)
            ),
            1..8 => write!(
                line,
                "WARN  http::client request {:016x} timed out, attempt {}",
                random.next(),
                random.below(4)
            ),
            8..80 => write!(
                line,
                "INFO  http::access GET /api/v2/users/{user}/orders?page={} 200 {micros} us",
                random.below(40)
            ),
            80..140 => write!(
                line,
                "DEBUG cache::shard hit key=user:{user}:profile shard={} age={}s",
                random.below(64),
                random.below(900)
            ),
            _ => write!(
                line,
                "INFO  worker::queue job {:08x} of user {user} is done in {micros} us, {} left",
                random.next() as u32,
                random.below(5_000)
            ),
        }?;
        line.push(b'\n');
        let left = (bytes - written).min(line.len() as u64);
        sink.write_all(&line[..left as usize])?;
        written += left;
        if written == bytes {
            break;
        }
    }
    Ok(())
}

/// A log file, with everything of it in memory, as where a command has just written it.
pub(crate) fn log_file(bytes: u64, path: &Path) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    write_log(bytes, &mut file)?;
    file.into_inner()?.sync_all()?;
    Ok(())
}

pub(crate) fn log(bytes: usize) -> Result<String> {
    let mut text = Vec::with_capacity(bytes);
    write_log(bytes as u64, &mut text)?;
    Ok(String::from_utf8(text)?)
}

/// Source text: this project's own, again and again.
pub(crate) fn source(bytes: usize) -> String {
    const FILES: [&str; 4] = [
        include_str!("../../crates/overspill/src/lines.rs"),
        include_str!("../../crates/overspill/src/cut.rs"),
        include_str!("../../crates/overspill/src/store/reader.rs"),
        include_str!("../../crates/overspill-store/src/local.rs"),
    ];
    let mut text: String = FILES
        .into_iter()
        .cycle()
        .scan(0, |taken, file| {
            let more = *taken < bytes;
            *taken += file.len();
            more.then_some(file)
        })
        .collect();
    text.truncate(text.floor_char_boundary(bytes));
    text
}

/// A list of records of about so many bytes as JSON on one line.
pub(crate) fn records(bytes: usize) -> Value {
    let mut random = Random(2);
    const TAGS: [&str; 4] = ["alpha", "beta", "gamma", "delta"];
    // A record has some 200 bytes.
    let record = |id: usize| {
        json!({
            "id": id,
            "name": format!("customer {:05}", random.below(90_000)),
            "email": format!("c{:08x}@example.org", random.next() as u32),
            "active": random.below(3) > 0,
            "balance": random.below(10_000_000) as f64 / 100.0,
            "tags": TAGS[..random.below(4) as usize],
            "address": { "street": format!("{} Main Street", random.below(400)), "zip": random.below(99_999), "country": null },
        })
    };
    (0..bytes / 200).map(record).collect()
}

/// A xorshift generator: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_size_asked_for_and_are_the_same_again() {
        let log = super::log(100_000).unwrap();
        assert_eq!((log.len(), &log), (100_000, &super::log(100_000).unwrap()));
        assert!(!log.contains(ABSENT));
        assert_eq!(source(200_000).len(), 200_000);
        let records = records(1_000_000).to_string().len();
        assert!((900_000..1_100_000).contains(&records), "{records}");
    }
}
