//! A client for any endpoint that speaks OpenAI's Chat Completions: OpenAI, Ollama, vLLM,
//! llama.cpp and many more.

use std::time::Duration;

use async_openai::Client;
use async_openai::config::OpenAIConfig;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

/// How long the endpoint may be silent. A model of one's own on a small machine thinks for
/// minutes before its first byte.
const SILENCE: Duration = Duration::from_secs(600);

/// A client for the endpoint at `base_url`, such as `http://localhost:11434/v1`; without one, for
/// OpenAI's. It tries again after 429 and 5xx, and waits as `Retry-After` says.
///
/// # Errors
///
/// Fails when no TLS can be set up.
pub fn client(base_url: Option<&str>, key: &str) -> Result<Client<OpenAIConfig>, reqwest::Error> {
    let mut config = OpenAIConfig::new().with_api_key(key);
    if let Some(url) = base_url {
        config = config.with_api_base(url.trim_end_matches('/'));
    }
    Ok(Client::build(http()?, config))
}

/// The HTTP client below it.
///
/// # Errors
///
/// Fails when no TLS can be set up.
pub fn http() -> Result<reqwest::Client, reqwest::Error> {
    // A second one is refused, and the first is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().connect_timeout(CONNECT).read_timeout(SILENCE).build()
}
