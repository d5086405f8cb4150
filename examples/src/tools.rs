//! The tools of the agent: a shell, reading a file, searching files.
//!
//! Files are read and searched only inside of the working folder. The shell runs what the model
//! says, with the rights of whoever runs the agent; it starts in the folder, and a command ends
//! with its time limit.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{fs, io};

use overspill::item::{Payload, ToolReturn};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

/// The most a command may put out and a file may hold, in bytes. It bounds memory and nothing
/// else: what enters the history is bounded by far less.
const MAX_BYTES: u64 = 16 << 20;

/// Variables with keys, which no command is to see.
const SECRETS: [&str; 2] = ["OPENAI_API_KEY", "OPENAI_ADMIN_KEY"];

/// Runs the agent's tools in one folder.
#[derive(Debug, Clone)]
pub struct Tools {
    folder: PathBuf,
    time_limit: Duration,
}

/// Why a command was stopped before its end.
enum Stopped {
    TimeLimit,
    TooMuch,
}

impl Tools {
    /// Tools that work in `folder`, and stop a command after `time_limit`.
    ///
    /// # Errors
    ///
    /// Fails where the folder is not there.
    pub fn new(folder: &Path, time_limit: Duration) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        if !folder.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { folder, time_limit })
    }

    /// The tools, as a request to Chat Completions lists them.
    pub fn definitions(&self) -> Vec<Value> {
        let limit = self.time_limit.as_secs();
        vec![
            definition(
                "shell",
                &format!("Runs a command with sh. It is stopped after {limit} s."),
                &[("command", "The command.", true)],
            ),
            definition(
                "read_file",
                "Returns the whole text of a file.",
                &[("path", "The file, relative to the working folder.", true)],
            ),
            definition(
                "grep",
                "Returns the lines that match, with file and line number.",
                &[
                    ("pattern", "An extended regular expression.", true),
                    ("path", "A file or a folder to search in; by default, everything.", false),
                ],
            ),
        ]
    }

    /// Runs a tool. What goes wrong is told to the model as an error.
    pub async fn run(&self, tool: &str, args: &Value) -> ToolReturn {
        let ran = match (tool, &args["command"], &args["path"], &args["pattern"]) {
            ("shell", Value::String(command), ..) => {
                self.command(&format!("exec 2>&1\n{command}"), &[]).await
            }
            ("read_file", _, Value::String(path), _) => self.read_file(path),
            ("grep", _, path, Value::String(pattern)) => {
                self.grep(pattern, path.as_str().unwrap_or(".")).await
            }
            ("shell" | "read_file" | "grep", ..) => {
                Err(format!("{tool} got no usable arguments: {args}"))
            }
            _ => Err(format!("there is no tool {tool:?}; there are shell, read_file and grep")),
        };
        ran.unwrap_or_else(ToolReturn::error)
    }

    fn read_file(&self, path: &str) -> Result<ToolReturn, String> {
        let file = self.inside(path)?;
        let failed = |error: io::Error| format!("{path} cannot be read: {error}");
        let about = fs::metadata(&file).map_err(failed)?;
        if !about.is_file() {
            return Err(format!("{path} is no file"));
        }
        if about.len() > MAX_BYTES {
            let bytes = about.len();
            return Err(format!("{path} has {bytes} bytes; read a part of it with the shell"));
        }
        Ok(payload(fs::read(&file).map_err(failed)?).into())
    }

    async fn grep(&self, pattern: &str, path: &str) -> Result<ToolReturn, String> {
        let inside = self.inside(path)?;
        let from_here = inside.strip_prefix(&self.folder).unwrap_or(&inside);
        let place = if from_here == Path::new("") { Path::new(".") } else { from_here };
        let place = place.to_str().ok_or("the path is not UTF-8")?;
        let grep =
            "exec grep -rnIE --exclude-dir=.git --exclude-dir=target -e \"$1\" -- \"$2\" 2>&1";
        let found = self.command(grep, &[pattern, place]).await?;
        match found.exit_status {
            Some(1) => Ok(ToolReturn::from("No line matches.")),
            _ => Ok(found),
        }
    }

    /// The path, if it leads into the working folder.
    fn inside(&self, path: &str) -> Result<PathBuf, String> {
        let found = self.folder.join(path).canonicalize();
        let found = found.map_err(|error| format!("{path} cannot be opened: {error}"))?;
        if found.starts_with(&self.folder) {
            Ok(found)
        } else {
            Err(format!("{path} is outside of the working folder"))
        }
    }

    /// Runs a script. It has a process group of its own, so that what it started ends with it.
    async fn command(&self, script: &str, args: &[&str]) -> Result<ToolReturn, String> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg("sh").args(args);
        command.current_dir(&self.folder).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        SECRETS.into_iter().for_each(|secret| {
            command.env_remove(secret);
        });
        let failed = |error: io::Error| format!("the command could not be run: {error}");
        let mut child = command.spawn().map_err(failed)?;
        let group = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let mut pipe = child.stdout.take().ok_or("the command has no output")?;
        let mut output = Vec::new();
        let reading = async {
            while pipe.read_buf(&mut output).await? > 0 {
                if output.len() as u64 > MAX_BYTES {
                    return Ok(Err(Stopped::TooMuch));
                }
            }
            child.wait().await.map(Ok)
        };
        let ended = timeout(self.time_limit, reading).await.unwrap_or(Ok(Err(Stopped::TimeLimit)));
        if let Some(group) = group {
            // Most often nothing is left of it.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let (status, words) = match ended.map_err(failed)? {
            Ok(status) => (status.code(), status.to_string()),
            Err(Stopped::TimeLimit) => {
                (None, format!("stopped after {} s", self.time_limit.as_secs()))
            }
            Err(Stopped::TooMuch) => (None, format!("stopped after {MAX_BYTES} bytes of output")),
        };
        if status != Some(0) {
            output.extend_from_slice(format!("\n[{words}]\n").as_bytes());
        }
        let returned = ToolReturn::from(payload(output));
        Ok(match status {
            Some(status) => returned.with_exit_status(status),
            None => returned,
        })
    }
}

fn payload(bytes: Vec<u8>) -> Payload {
    match String::from_utf8(bytes) {
        Ok(text) => Payload::Text(text),
        Err(error) => Payload::Bytes(error.into_bytes()),
    }
}

/// A tool whose arguments are texts: name, description, whether it must be given.
fn definition(name: &str, description: &str, args: &[(&str, &str, bool)]) -> Value {
    let properties: serde_json::Map<String, Value> = args
        .iter()
        .map(|(arg, about, _)| ((*arg).into(), json!({ "type": "string", "description": about })))
        .collect();
    let required: Vec<&str> =
        args.iter().filter(|(.., required)| *required).map(|(arg, ..)| *arg).collect();
    json!({ "type": "function", "function": {
        "name": name,
        "description": description,
        "parameters": { "type": "object", "properties": properties, "required": required },
    }})
}
