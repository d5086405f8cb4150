//! The recorded outputs: real tools, run on this project's own tree by `demo/record.sh`.

/// What one tool printed.
#[derive(Debug)]
pub(super) struct Recording {
    /// The tool, as an agent would call it.
    pub(super) tool: &'static str,
    /// The command it ran.
    pub(super) command: &'static str,
    /// All it printed.
    pub(super) output: &'static [u8],
    /// How it ended; `record.sh` insists on it.
    pub(super) exit_status: i32,
    /// Whether it belongs to the representative run: what an agent does all day. A public
    /// implementation of this pattern reports its saving on such a run.
    pub(super) is_everyday: bool,
}

/// In the order an agent would call them.
pub(super) const RECORDINGS: [Recording; 7] = [
    Recording {
        tool: "read_file",
        command: "cat lines.rs",
        output: include_bytes!("../../../demo/file.out"),
        exit_status: 0,
        is_everyday: true,
    },
    Recording {
        tool: "search",
        command: "grep -rn 'fn '",
        output: include_bytes!("../../../demo/search.out"),
        exit_status: 0,
        is_everyday: true,
    },
    Recording {
        tool: "run_tests",
        command: "cargo test",
        output: include_bytes!("../../../demo/test.out"),
        exit_status: 101,
        is_everyday: true,
    },
    Recording {
        tool: "git_status",
        command: "git status --short",
        output: include_bytes!("../../../demo/status.out"),
        exit_status: 0,
        is_everyday: true,
    },
    Recording {
        tool: "build",
        command: "cargo check --color always",
        output: include_bytes!("../../../demo/build.out"),
        exit_status: 101,
        is_everyday: false,
    },
    Recording {
        tool: "list_packages",
        command: "cargo metadata",
        output: include_bytes!("../../../demo/json.out"),
        exit_status: 0,
        is_everyday: false,
    },
    Recording {
        tool: "show_object",
        command: "cat measure.o",
        output: include_bytes!("../../../demo/binary.out"),
        exit_status: 0,
        is_everyday: false,
    },
];

/// The tool whose output is looked at closely: the failing test run.
pub(super) const CLOSE_UP: &str = "run_tests";

/// What must still be in view of the failing test run: a failing test, its assertion, the exit status.
pub(super) const NEEDED: [&str; 3] = [
    "config::tests::a_preset_means_the_same_in_every_unit",
    "assertion `left == right` failed",
    "exit status 101",
];

/// What is read back from the middle of it.
pub(super) const PATTERN: &str = "panicked at";
