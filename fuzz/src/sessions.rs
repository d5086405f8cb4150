//! The readers of recorded sessions, given anything.

use std::cell::RefCell;
use std::fs;

use overspill_replay::{Format, HeadTail, Item, Keep, Session, evaluate, read};
use tempfile::NamedTempFile;

/// What makes a text look like a recording of each format, before and behind it. The readers of
/// formats with one record a line take the lines as they are; documents hold them as a value.
const WRAPPERS: [(&str, &str); 16] = [
    ("", ""),
    ("{\"type\":\"summary\",\"leafUuid\":\"u\"}\n", "\n"),
    ("{\"type\":\"session_meta\",\"payload\":{}}\n", "\n"),
    ("{\"type\":\"metadata\",\"protocol_version\":1}\n", "\n"),
    ("{\"type\":\"session\",\"id\":1,\"cwd\":\"/\"}\n", "\n"),
    ("{\"history\":[{\"action\":\"run\"}]}\n{\"history\":", "}\n"),
    ("{\"eval\":{},\"samples\":", ",\n\"version\":2}"),
    ("{\"trajectory\":", ",\n\"x\":1}"),
    ("{\"trajectory\":[],\"history\":", ",\n\"x\":1}"),
    ("{\"info\":{\"exit_status\":0},\"messages\":", ",\n\"x\":1}"),
    ("[{\"lc\":1,\"type\":\"human\"},\n", "]"),
    ("[{\"role\":\"user\",\"content\":\"x\"},\n", "]"),
    ("_**User (2026-01-01 10:00:00Z)**_\n", "\n"),
    (
        "interactions:\n- request:\n    uri: https://api.anthropic.com/v1/messages\n    body:\n",
        "\n",
    ),
    ("interactions:\n- request:\n    uri: https://x/openai\n    parsed_body: ", "\n"),
    ("interactions: ", "\n"),
];

/// A reading may hold so many bytes for each byte that was read: numbers are written out, control
/// characters escaped, and bytes that are no text replaced.
const GROWTH: usize = 64;

/// And so many that aliases of a cassette may repeat.
const COPIED: usize = 64 << 20;

thread_local! {
    static FILE: RefCell<NamedTempFile> = RefCell::new(NamedTempFile::new().unwrap());
}

/// Anything is a recording or none; reading it ends, and gives no more than it was given.
pub fn check(data: &[u8]) {
    for (before, behind) in WRAPPERS {
        let recording = [before.as_bytes(), data, behind.as_bytes()].concat();
        FILE.with_borrow(|file| {
            fs::write(file, &recording).unwrap();
            let detected = Format::detect(file.path());
            let Ok(sessions) = read(file) else { return };
            // What can be read is of the format that was detected.
            let format = detected.unwrap().unwrap();
            let bytes: usize = sessions.iter().flat_map(items).map(|item| item.text.len()).sum();
            assert!(bytes <= GROWTH * recording.len() + COPIED, "{bytes} bytes were read");
            for session in &sessions {
                assert_eq!(session.format, format);
                assert!(session.requests() > 0);
                if session.requests() < 50 {
                    let none = evaluate(session, &mut Keep::default());
                    let cut = evaluate(session, &mut HeadTail::new(100, 20, 20));
                    assert_eq!(none.traffic.requests, cut.traffic.requests);
                }
            }
        });
    }
}

fn items(session: &Session) -> impl Iterator<Item = &Item> {
    session.segments.iter().flat_map(|segment| {
        let turns = segment.turns.iter().flat_map(|turn| turn.response.iter().chain(&turn.after));
        segment.before.iter().chain(turns)
    })
}
