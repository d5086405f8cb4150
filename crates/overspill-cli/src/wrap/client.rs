//! How a client writes a server that it reaches over HTTP.

use std::ffi::OsStr;
use std::path::Path;

use super::Syntax;

/// The client that reads a configuration, as far as the file's name tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Codex,
    Gemini,
    Windsurf,
    /// One that has `url` and `headers`: Cursor, VS Code, Zed.
    Usual,
    Unknown,
}

impl Client {
    /// The client whose file has that path, which is absolute.
    pub(crate) fn of(path: &Path) -> Self {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let folder = path.parent().and_then(Path::file_name).and_then(OsStr::to_str);
        match (folder, name) {
            _ if Syntax::of(path) == Syntax::Toml => Self::Codex,
            (_, ".mcp.json" | ".claude.json") => Self::ClaudeCode,
            (_, "claude_desktop_config.json") => Self::ClaudeDesktop,
            (Some(".gemini"), "settings.json") => Self::Gemini,
            (_, "mcp_config.json") => Self::Windsurf,
            (Some(".cursor" | ".vscode"), "mcp.json") => Self::Usual,
            _ => Self::Unknown,
        }
    }

    /// Under which key it has a server's address.
    pub(crate) fn url_key(self) -> &'static str {
        match self {
            Self::Gemini => "httpUrl",
            Self::Windsurf => "serverUrl",
            _ => "url",
        }
    }

    /// Under which key it has the headers of requests.
    pub(crate) fn headers_key(self) -> &'static str {
        match self {
            Self::Codex => "http_headers",
            _ => "headers",
        }
    }
}
