//! Which model is asked, and where: as a configuration names it.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A model with the kind of endpoint it is asked at: `openai:gpt-5-mini`.
///
/// ```
/// use overspill::summary::{ModelName, Provider};
///
/// let model: ModelName = "ollama:llama3.2:3b".parse()?;
/// assert_eq!((model.provider, model.name.as_str()), (Provider::Ollama, "llama3.2:3b"));
/// assert_eq!(
///     "gpt-5-mini".parse::<ModelName>().unwrap_err().to_string(),
///     "it does not begin with openai:, anthropic: or ollama:"
/// );
/// # Ok::<(), overspill::summary::ModelNameError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelName {
    /// How it is asked.
    pub provider: Provider,
    /// What the provider calls it.
    pub name: String,
}

/// How a model is asked, and at which endpoint unless another is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provider {
    /// OpenAI's Chat Completions, which vLLM, llama.cpp and many hosts serve too.
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
    /// Chat Completions of an Ollama on this machine.
    Ollama,
}

/// A text that names no model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModelNameError {
    /// It does not say how it is asked.
    #[error("it does not begin with openai:, anthropic: or ollama:")]
    NoProvider,
    /// Nothing stands behind the provider, or white space stands in it.
    #[error("what stands behind the provider is no name of a model")]
    NoName,
}

impl Provider {
    /// Every provider.
    pub const ALL: [Self; 3] = [Self::OpenAi, Self::Anthropic, Self::Ollama];

    /// Its name, as it stands before a model's.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
        }
    }

    /// Its own endpoint.
    pub fn base_url(self) -> BaseUrl {
        let url = match self {
            Self::OpenAi => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com",
            Self::Ollama => "http://localhost:11434/v1",
        };
        BaseUrl(url.to_owned())
    }

    /// The environment variable that usually holds the key to it; none where no key is wanted.
    pub fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Ollama => None,
        }
    }
}

impl FromStr for ModelName {
    type Err = ModelNameError;

    fn from_str(text: &str) -> Result<Self, ModelNameError> {
        let (before, name) = text.split_once(':').ok_or(ModelNameError::NoProvider)?;
        let provider = Provider::ALL.into_iter().find(|provider| provider.name() == before);
        let provider = provider.ok_or(ModelNameError::NoProvider)?;
        if name.is_empty() || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(ModelNameError::NoName);
        }
        Ok(Self { provider, name: name.to_owned() })
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider.name(), self.name)
    }
}

/// Where an endpoint is, without anything secret: `https://host:port/path`.
///
/// ```
/// use overspill::summary::BaseUrl;
///
/// let url: BaseUrl = "http://127.0.0.1:8000/v1/".parse()?;
/// assert_eq!(url.as_str(), "http://127.0.0.1:8000/v1");
/// assert!(url.is_local());
/// # Ok::<(), overspill::summary::BaseUrlError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BaseUrl(String);

/// A text that is no base URL. The text itself is not repeated: it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BaseUrlError {
    /// It is not one of HTTP.
    #[error("it does not begin with https:// or http:// and a host")]
    NotHttp,
    /// It has parts that a path cannot be added behind, or that are secret.
    #[error("it holds a user name, a password, a query, a fragment or white space")]
    Extra,
}

impl BaseUrl {
    /// The URL without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is on this machine.
    pub fn is_local(&self) -> bool {
        let host = self.host();
        let address = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost"
            || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// The host, as it was written.
    pub fn host(&self) -> &str {
        let authority = self.authority();
        match authority.rfind(']') {
            Some(end) => &authority[..=end],
            None => authority.split(':').next().unwrap_or_default(),
        }
    }

    /// The port, where one is written.
    pub fn port(&self) -> Option<u16> {
        self.authority()[self.host().len()..].strip_prefix(':')?.parse().ok()
    }

    fn authority(&self) -> &str {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
    }
}

impl FromStr for BaseUrl {
    type Err = BaseUrlError;

    fn from_str(text: &str) -> Result<Self, BaseUrlError> {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let rest = rest.ok_or(BaseUrlError::NotHttp)?;
        let is_extra = |c: char| "@?#\\".contains(c) || c.is_whitespace() || c.is_control();
        if text.chars().any(is_extra) {
            return Err(BaseUrlError::Extra);
        }
        let url = Self(text.trim_end_matches('/').to_owned());
        match rest.starts_with('/') || url.host().is_empty() {
            true => Err(BaseUrlError::NotHttp),
            false => Ok(url),
        }
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        let parts = |text: &str| {
            let url: BaseUrl = text.parse().unwrap();
            (url.host().to_owned(), url.port(), url.is_local())
        };
        assert_eq!(parts("https://api.example.com/v1"), ("api.example.com".into(), None, false));
        assert_eq!(parts("http://localhost:11434/v1"), ("localhost".into(), Some(11434), true));
        assert_eq!(parts("http://[::1]:8000"), ("[::1]".into(), Some(8000), true));
        assert_eq!(
            parts("http://127.0.0.1.example.com"),
            ("127.0.0.1.example.com".into(), None, false)
        );
        assert_eq!(
            parts("http://localhost.example.com/"),
            ("localhost.example.com".into(), None, false)
        );
    }

    #[test]
    fn what_is_no_base_url_is_refused() {
        let error = |text: &str| text.parse::<BaseUrl>().unwrap_err();
        assert_eq!(error("api.example.com"), BaseUrlError::NotHttp);
        assert_eq!(error("file:///etc"), BaseUrlError::NotHttp);
        assert_eq!(error("https://"), BaseUrlError::NotHttp);
        assert_eq!(error("https:///path"), BaseUrlError::NotHttp);
        assert_eq!(error("https://me:secret@example.com"), BaseUrlError::Extra);
        assert_eq!(error("https://example.com?key=secret"), BaseUrlError::Extra);
        assert_eq!(error("https://example.com\\@evil.example"), BaseUrlError::Extra);
    }

    #[test]
    fn a_name_is_written_as_it_is_read() {
        for provider in Provider::ALL {
            let url = provider.base_url();
            assert_eq!(url.as_str().parse(), Ok(url));
        }
        for text in ["openai:gpt-5-mini", "anthropic:claude-haiku-4-5", "ollama:llama3.2:3b"] {
            assert_eq!(text.parse::<ModelName>().unwrap().to_string(), text);
        }
        assert_eq!("openai:".parse::<ModelName>(), Err(ModelNameError::NoName));
        assert_eq!("openai: x".parse::<ModelName>(), Err(ModelNameError::NoName));
        assert_eq!("google:gemini".parse::<ModelName>(), Err(ModelNameError::NoProvider));
    }
}
