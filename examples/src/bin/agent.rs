//! `cargo run -p overspill-examples --bin agent -- "task"`: a small agent with a live gauge.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use overspill_examples::agent::{Agent, Progress};
use overspill_examples::endpoint;
use overspill_examples::tools::Tools;
use overspill_store::LocalStore;

/// Works on a task in a folder, through any endpoint that speaks OpenAI's Chat Completions, and
/// shows how full the context is.
#[derive(Debug, Parser)]
struct Args {
    /// What is to be done
    task: String,
    /// The model, as the endpoint names it
    #[arg(long, env = "OPENAI_MODEL")]
    model: Option<String>,
    /// The endpoint, such as http://localhost:11434/v1; OpenAI's where only a key is set
    #[arg(long, env = "OPENAI_BASE_URL")]
    base_url: Option<String>,
    /// The working folder
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    /// The most tokens a request may have
    #[arg(long, default_value_t = 20_000)]
    budget: u64,
    /// How many seconds a command may take
    #[arg(long, default_value_t = 60)]
    time_limit: u64,
    /// How many requests it may make
    #[arg(long, default_value_t = 100)]
    max_requests: u64,
    /// Where results are stored; without it, a folder that is removed at the end
    #[arg(long)]
    store: Option<PathBuf>,
}

/// What to do when it is not said which model to ask.
const NO_ENDPOINT: &str = "no model is set. Say which in the environment:

  OpenAI     export OPENAI_API_KEY=… OPENAI_MODEL=gpt-5.2
  Ollama     ollama pull qwen3:8b
             export OPENAI_BASE_URL=http://localhost:11434/v1 OPENAI_MODEL=qwen3:8b
  any other  export OPENAI_BASE_URL=… OPENAI_MODEL=… OPENAI_API_KEY=…";

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(answer) => match writeln!(io::stdout(), "{answer}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(error) => {
            // Nobody is left to be told where this fails.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<String> {
    let key = std::env::var("OPENAI_API_KEY").unwrap_or_default();
    let Some(model) = args.model else { bail!(NO_ENDPOINT) };
    if args.base_url.is_none() && key.is_empty() {
        bail!(NO_ENDPOINT);
    }
    let client = endpoint::client(args.base_url.as_deref(), &key)?;
    let folder = args.folder.display();
    let tools = Tools::new(&args.folder, Duration::from_secs(args.time_limit))
        .with_context(|| format!("{folder} cannot be worked in"))?;
    let scratch = tempfile::tempdir()?;
    let store = args.store.unwrap_or_else(|| scratch.path().join("spills"));
    let store = Arc::new(LocalStore::open(store)?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let run = format!("agent-{now}");
    let agent = Agent::new(client, model, tools, store, run, args.budget, args.max_requests)?;
    let screen = Screen::new();
    let answer = agent.answer(&args.task, |progress| screen.show(&progress)).await;
    screen.end();
    Ok(answer?)
}

/// Standard error: a line that is renewed on a terminal, a line for each step elsewhere.
struct Screen {
    live: Option<ProgressBar>,
}

impl Screen {
    fn new() -> Self {
        let live = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(100));
            style.map_or(bar.clone(), |style| bar.with_style(style))
        });
        Self { live }
    }

    fn show(&self, progress: &Progress<'_>) {
        match (progress, &self.live) {
            (Progress::Answered(gauge), Some(live)) => live.set_message(gauge.to_string()),
            (Progress::Answered(gauge), None) => self.line(&gauge.to_string()),
            (Progress::Returned { tool, args, bytes, shown }, _) => {
                let args: String = args.chars().take(60).collect();
                self.line(&format!("  {tool} {args} returned {bytes} bytes, {shown} shown"));
            }
            (Progress::Warning(warning), _) => self.line(&format!("warning: {warning}")),
        }
    }

    fn line(&self, line: &str) {
        match &self.live {
            Some(live) => live.println(line),
            // A run goes on though nobody reads along.
            None => drop(writeln!(io::stderr(), "{line}")),
        }
    }

    /// Leaves the last state of the gauge on the screen.
    fn end(&self) {
        if let Some(live) = &self.live {
            live.println(live.message());
            live.finish_and_clear();
        }
    }
}
