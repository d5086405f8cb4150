#!/usr/bin/env python3
"""Writes session.jsonl beside this file: a session of a coding agent, as Claude Code records one.

    crates/overspill-cli/demo/session.py

What the agent says is scripted; what its tools return is real: commands run on this project's tree
as it is, and the recordings beside this file. Each answer of the agent names things that only an
earlier result can have taught it, so that `overspill replay` has something to measure.
"""

import json
import os
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[2]

# What the agent says, and what it runs next.
STEPS = [
    ("A test fails on main. I look at what the run says.", "cat crates/overspill-cli/demo/test.out"),
    (
        "`a_preset_means_the_same_in_every_unit` fails at crates/overspill/src/config/tests.rs:265 and "
        "`the_marker_says_the_number_that_was_measured` at crates/overspill/tests/it/intake.rs:318: 12,222 "
        "estimated tokens. Both measure. I read the file that does.",
        "cat crates/overspill/src/measure.rs",
    ),
    (
        "estimate_tokens divides by CHARS_PER_TOKEN; of_opaque and of_bytes call it. Who else does?",
        "grep -rn 'estimate_tokens\\|of_opaque\\|count_chars' crates/overspill/src --include=*.rs",
    ),
    (
        "ReturnStream has a use of its own, in intake/stream.rs, where held_chars decides. I read that.",
        "cat crates/overspill/src/intake/stream.rs",
    ),
    (
        "`HELD_CHARS` and `MARKER_CHARS` are bounds in characters, so they are not it. Eye::specimen matches "
        "Unit::EstimatedTokens. I check the test that fails first.",
        "sed -n 240,300p crates/overspill/src/config/tests.rs",
    ),
    ("The test compares presets by unit. I read how the bands are made.", "cat crates/overspill/src/config.rs"),
    (
        "Preset::bands divides over_chars by CHARS_PER_TOKEN, rounding down, so estimate_tokens must round down as "
        "well. I see what changed in measure.rs lately.",
        "git log --oneline -12 -- crates/overspill/src/measure.rs",
    ),
    ("I want every place that rounds.", "grep -rn 'div_ceil\\|is_multiple_of\\|round()' crates --include=*.rs"),
    ("Now the line grid, since excerpts count its lines.", "cat crates/overspill/src/lines.rs"),
    (
        "LineScanner::resume and `MAX_LINE_CHARS` do not count tokens; json_piece and Walk only cut. The writer "
        "counts characters too.",
        "sed -n 1,200p crates/overspill/src/store/writer.rs",
    ),
    (
        "Survey::push takes BLOCK_BYTES at once, and Surveyed has chars. I look for its users.",
        "grep -rn 'Surveyed\\|take_rows' crates --include=*.rs",
    ),
    ("How does the policy choose a band?", "cat crates/overspill/src/band.rs"),
    ("Bands::fit takes the largest threshold. What does the command line make of a preset?", "cargo metadata --no-deps --offline --format-version 1"),
    (
        "The packages are overspill, overspill-store, overspill-replay and overspill-cli. I look for all functions "
        "that measure.",
        "grep -rn --include=*.rs 'fn .*chars\\|fn .*tokens\\|fn .*measure' crates",
    ),
    ("truncate in cut.rs counts as well.", "sed -n 1,220p crates/overspill/src/cut.rs"),
    ("HeadTail::push and not_stored keep their own count. I read the reader now.", "sed -n 1,160p crates/overspill/src/store/reader.rs"),
    ("Stored::open and Cursor have nothing to do with it. The listing of the tree, for the change log.", "git ls-files crates/overspill crates/overspill-store"),
    ("I make the change: `chars / CHARS_PER_TOKEN`, rounded down as Preset::bands does.", "git status --short"),
    ("The build log once more, for warnings.", "cat crates/overspill-cli/demo/build.out"),
    (
        "StoreError was renamed to StorageError in port.rs only; that is another matter. I check who implements the "
        "port.",
        "grep -rn 'impl Store for\\|impl Stage for\\|dyn Stage' crates --include=*.rs",
    ),
    ("MemoryStore, LocalStore and Faulty do. One more look at the failing line.", "sed -n 300,330p crates/overspill/tests/it/intake.rs"),
    ("The number in the marker is what estimate_tokens gives. I read the marker's own tests.", "cat crates/overspill/src/marker.rs"),
    (
        "Marker::new groups digits with grouped(); a_marker_says_how_much_where_and_how_to_read_it covers it. "
        "I write the note for the change log.",
        "sed -n 1,40p CHANGELOG.md",
    ),
    (
        "Done: estimate_tokens in crates/overspill/src/measure.rs rounds down again, so "
        "a_preset_means_the_same_in_every_unit and the_marker_says_the_number_that_was_measured agree with "
        "Preset::bands; Survey and LineScanner were not touched.",
        None,
    ),
]


def main():
    lines = []

    def add(kind, content, **more):
        number = len(lines)
        lines.append(
            {
                "sessionId": "demo",
                "uuid": f"u{number}",
                "parentUuid": f"u{number - 1}" if number else None,
                "isSidechain": False,
                "type": kind,
                "message": {"role": kind, "content": content, **more},
            }
        )

    add("user", "A test fails on main since the last change to how sizes are measured. Find out why, and mend it.")
    for number, (words, command) in enumerate(STEPS):
        content = [{"type": "text", "text": words}]
        call = f"toolu_{number:02}"
        if command is not None:
            content.append({"type": "tool_use", "id": call, "name": "Bash", "input": {"command": command}})
        add("assistant", content, id=f"msg_{number:02}")
        if command is None:
            break
        # Nothing of this machine is to stand in what cargo says.
        env = {**os.environ, "CARGO_TARGET_DIR": str(TREE / "target"), "LC_ALL": "C.UTF-8"}
        ran = subprocess.run(command, shell=True, cwd=TREE, env=env, capture_output=True, text=True, check=True)
        output = ran.stdout.replace(str(TREE), "/src/overspill")
        add("user", [{"type": "tool_result", "tool_use_id": call, "content": output}])
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (HERE / "session.jsonl").write_text(text)
    print(f"{len(text)} characters, {len(lines)} messages")


main()
