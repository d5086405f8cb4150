//! A folder of its own for one test, and pictures of what a command does in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assert_cmd::Command as Assert;
use tempfile::TempDir;

/// The binary under test.
pub(crate) const OVERSPILL: &str = env!("CARGO_BIN_EXE_overspill");

/// A home, a current folder and a store that no other test sees.
pub(crate) struct Bench {
    dir: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir }
    }

    /// A bench with a configuration file in its current folder.
    pub(crate) fn with_file(text: &str) -> Self {
        let bench = Self::new();
        bench.write("overspill.toml", text);
        bench
    }

    /// A bench with the user's own configuration file.
    pub(crate) fn with_user_file(text: &str) -> Self {
        let bench = Self::new();
        let folder = bench.home().join(".config/overspill");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("overspill.toml"), text).unwrap();
        bench
    }

    /// A file in the current folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("work").join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn home(&self) -> &Path {
        self.dir.path()
    }

    /// The default store.
    pub(crate) fn store(&self) -> PathBuf {
        self.dir.path().join(".local/share/overspill")
    }

    /// `overspill` with nothing of this machine in its environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        self.program(OVERSPILL, args)
    }

    /// Another program in the same surroundings.
    pub(crate) fn program(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.path("")).env_clear();
        command.env("HOME", self.home()).env("PATH", std::env::var_os("PATH").unwrap());
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn assert(&self, args: &[&str]) -> Assert {
        Assert::from_std(self.command(args))
    }

    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Standard output of a command that succeeds.
    pub(crate) fn stdout(&self, args: &[&str]) -> String {
        let output = self.output(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.stdout(args)).unwrap()
    }

    /// The handle of the only payload stored.
    pub(crate) fn handle(&self) -> String {
        let list = self.json(&["list", "--json"]);
        assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
        list[0]["handle"].as_str().unwrap().to_owned()
    }

    /// Stores the numbers to `n`, one a line, as the output of `seq`.
    pub(crate) fn stored_numbers(&self, n: u32) -> String {
        self.assert(&["pipe", "--tool", "seq"]).write_stdin(numbers(n)).assert().success();
        self.handle()
    }

    /// What a command does, as one would see it.
    pub(crate) fn picture(&self, args: &[&str]) -> String {
        let output = self.output(args);
        let mut picture = format!("$ overspill {}\n", args.join(" "));
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !bytes.is_empty() {
                let text = String::from_utf8_lossy(bytes).replace('\x1b', "ESC");
                picture.push_str(&format!("--- {name}\n{text}"));
            }
        }
        match output.status.code() {
            Some(code) => picture.push_str(&format!("--- exit status {code}\n")),
            None => picture.push_str("--- no exit status\n"),
        }
        picture.replace(&self.dir.path().display().to_string(), "[DIR]")
    }
}

/// The numbers to `n`, one a line.
pub(crate) fn numbers(n: u32) -> String {
    (1..=n).map(|i| format!("{i}\n")).collect()
}

/// Asserts a picture, without what differs from run to run, and without what an excerpt chooses,
/// which is the library's affair.
macro_rules! assert_picture {
    ($picture:expr $(,)?) => {
        insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => true, filters => vec![
            (r"(?m) +\d+ (s|min|h)$", " [AGE]"),
            (r#""modified": \d+"#, r#""modified": [TIME]"#),
            (r#"Excerpt \(\d+ lines?\):\]\\n[^"]*""#, "Excerpt (N lines):][EXCERPT]\""),
            (r"(?s)Excerpt \(\d+ lines?\):\]\n.*?\n--- ", "Excerpt (N lines):]\n[EXCERPT]\n--- "),
            (r#""after": \{[^}]*\}"#, r#""after": [SIZE]"#),
        ]}, { insta::assert_snapshot!($picture) })
    };
}

pub(crate) use assert_picture;
