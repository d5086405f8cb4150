//! What a configuration file says: its keys and values with their lines, and nothing concluded.

use toml::de::{DeTable, DeValue};

use super::mcp::RawMcp;
use super::problem::Problem;
use super::section::{At, Given, Said, Section, Source};

/// The longest chain a file can hold. TOML's own nesting ends at 80; the bound is here so that
/// keys with dots cannot go around it.
const MAX_CHAIN: usize = 64;

/// The file, key by key.
#[derive(Debug, Default)]
pub(super) struct RawConfig {
    pub(super) enabled: Said<bool>,
    pub(super) preset: Said<String>,
    pub(super) unit: Said<String>,
    pub(super) strip_ansi: Said<bool>,
    pub(super) json: Said<String>,
    pub(super) read_tool: Said<String>,
    pub(super) only: Said<Vec<Given<String>>>,
    pub(super) except: Said<Vec<Given<String>>>,
    pub(super) bands: Said<Vec<RawBand>>,
    /// In the order of the file.
    pub(super) tools: Vec<(Given<String>, Vec<RawBand>)>,
    pub(super) prompt: Said<String>,
    pub(super) model: Said<String>,
    pub(super) base_url: Said<String>,
    pub(super) api_key_env: Said<String>,
    pub(super) store_kind: Said<String>,
    pub(super) store_path: Said<String>,
    pub(super) max_age: Said<String>,
    pub(super) max_size: Said<String>,
    pub(super) mcp: RawMcp,
}

/// One `[[bands]]` entry.
#[derive(Debug)]
pub(super) struct RawBand {
    /// Where the entry starts.
    pub(super) at: At,
    pub(super) over: Said<u64>,
    /// The band's action and those behind its `then`s; never empty.
    pub(super) chain: Vec<RawAction>,
}

/// An action's name and every option that any action has.
#[derive(Debug)]
pub(super) struct RawAction {
    /// Where it starts: the band, or the `then` it stands under.
    pub(super) at: At,
    pub(super) action: Said<String>,
    pub(super) preview_chars: Said<usize>,
    pub(super) max_chars: Said<usize>,
    pub(super) keep: Said<String>,
    pub(super) keep_tail_lines: Said<usize>,
}

impl RawConfig {
    /// Reads a file's text; what is not understood is left out and told of.
    pub(super) fn read(text: &str) -> (Self, Vec<Problem>) {
        let source = Source::new(text);
        let (table, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            let raw = Self::from_table(table.into_inner(), &source);
            return (raw, source.into_problems());
        }
        // What was recovered from text that is not TOML would only repeat these problems.
        for error in errors {
            source.syntax_problem(&error);
        }
        let mut problems = source.into_problems();
        problems.sort_by_key(|problem| problem.line);
        problems.dedup_by_key(|problem| problem.line);
        (Self::default(), problems)
    }

    fn from_table(table: DeTable<'_>, source: &Source<'_>) -> Self {
        let mut root = Section::root(table, source);
        let mut raw = Self {
            enabled: root.boolean("enabled"),
            preset: root.text("preset"),
            unit: root.text("unit"),
            strip_ansi: root.boolean("strip_ansi"),
            json: root.text("json"),
            read_tool: root.text("read_tool"),
            ..Self::default()
        };
        if let Some(mut tools) = root.table("tools") {
            raw.only = tools.texts("only");
            raw.except = tools.texts("except");
            tools.close();
        }
        raw.bands = read_bands(&mut root);
        if let Some(tool) = root.table("tool") {
            for (name, mut of_tool) in
                tool.named_tables(|key| format!("write [[{key}.bands]] and the band's keys below"))
            {
                match read_bands(&mut of_tool) {
                    Said::This(bands) => raw.tools.push((name, bands.value)),
                    Said::Nonsense(_) => {}
                    Said::Nothing => source.tell(name.at.problem(
                        format!("{} lacks \"bands\"", name.at.name),
                        format!("write [[{}.bands]]; a name with dots needs quotes", name.at.key),
                    )),
                }
                of_tool.close();
            }
        }
        if let Some(mut summarize) = root.table("summarize") {
            raw.prompt = summarize.text("prompt");
            raw.model = summarize.text("model");
            raw.base_url = summarize.text("base_url");
            raw.api_key_env = summarize.text("api_key_env");
            summarize.close();
        }
        if let Some(mut store) = root.table("store") {
            raw.store_kind = store.text("kind");
            raw.store_path = store.text("path");
            store.close();
        }
        if let Some(mut retention) = root.table("retention") {
            raw.max_age = retention.text("max_age");
            raw.max_size = retention.text("max_size");
            retention.close();
        }
        if let Some(mcp) = root.table("mcp") {
            raw.mcp = RawMcp::read(mcp);
        }
        root.close();
        raw
    }
}

impl RawBand {
    fn read(mut section: Section<'_, '_>) -> Self {
        let (at, source) = (section.at.clone(), section.source);
        let over = section.count("over");
        let mut chain = Vec::new();
        // A loop and not a recursion: a chain may be long.
        loop {
            let head = section.at.clone();
            chain.push(RawAction {
                at: head,
                action: section.text("action"),
                preview_chars: section.count("preview_chars"),
                max_chars: section.count("max_chars"),
                keep: section.text("keep"),
                keep_tail_lines: section.count("keep_tail_lines"),
            });
            let then = section.take("then");
            let band = at.name.clone();
            section.close();
            let Some((at, value)) = then else { break };
            if chain.len() == MAX_CHAIN {
                source.tell(at.problem(
                    format!("a chain of more than {MAX_CHAIN} actions in {band}"),
                    "leave the last ones out",
                ));
                break;
            }
            match value {
                DeValue::String(name) => {
                    chain.push(RawAction::named(at, name.into_owned()));
                    break;
                }
                DeValue::Table(table) => {
                    let name = format!("then of {band}");
                    section = Section::new(table, At { name, ..at }, source);
                }
                other => {
                    source.wrong_type(
                        &at,
                        "an action's name or a table",
                        &other,
                        "write then = \"truncate\", or then = { action = \"truncate\", … }",
                    );
                    break;
                }
            }
        }
        Self { at, over, chain }
    }
}

impl RawAction {
    /// An action of which the file gives only the name.
    fn named(at: At, name: String) -> Self {
        Self {
            action: Said::This(Given { value: name, at: at.clone() }),
            at,
            preview_chars: Said::Nothing,
            max_chars: Said::Nothing,
            keep: Said::Nothing,
            keep_tail_lines: Said::Nothing,
        }
    }
}

/// Reads the `bands` of the policy or of a tool.
fn read_bands(section: &mut Section<'_, '_>) -> Said<Vec<RawBand>> {
    section.list_of_tables("bands").map(|bands| bands.into_iter().map(RawBand::read).collect())
}
