//! A key that nobody sees.

use std::fmt;

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use thiserror::Error;

/// A key, and the name of the variable it was read from. Printed in any way, it is its name.
///
/// ```
/// use overspill_model::ApiKey;
///
/// let key = ApiKey::new("MY_KEY", "sk-1234\n")?;
/// assert_eq!(format!("{key} {key:?}"), "MY_KEY ApiKey(MY_KEY)");
/// assert_eq!(
///     ApiKey::new("MY_KEY", "").unwrap_err().to_string(),
///     "MY_KEY is empty; set it to a key"
/// );
/// # Ok::<(), overspill_model::ApiKeyError>(())
/// ```
#[derive(Clone)]
pub struct ApiKey {
    name: String,
    secret: SecretString,
}

/// A text that is no key. The text is not repeated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ApiKeyError {
    /// There is nothing in it.
    #[error("{name} is empty; set it to a key")]
    Empty {
        /// The name of the variable.
        name: String,
    },
    /// It holds characters that no header can.
    #[error("{name} holds characters that no key has; set it to the key alone")]
    Unsendable {
        /// The name of the variable.
        name: String,
    },
}

/// What stands where a key stood.
const REDACTED: &str = "[redacted]";

impl ApiKey {
    /// A key and the name by which errors speak of it. White space around it, as a line break from a
    /// file, is not a part of it.
    ///
    /// # Errors
    ///
    /// [`ApiKeyError`] where it is empty, or cannot be sent in a header.
    pub fn new(name: impl Into<String>, key: impl Into<String>) -> Result<Self, ApiKeyError> {
        let (name, key) = (name.into(), SecretString::from(key.into()));
        let trimmed = key.expose_secret().trim();
        if trimmed.is_empty() {
            return Err(ApiKeyError::Empty { name });
        }
        if !trimmed.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ApiKeyError::Unsendable { name });
        }
        let secret = SecretString::from(trimmed);
        Ok(Self { name, secret })
    }

    /// The name of the variable.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key as a header's value behind `scheme`, marked so that no log shows it.
    pub(crate) fn header(&self, scheme: &str) -> Option<HeaderValue> {
        let mut value =
            HeaderValue::from_str(&format!("{scheme}{}", self.secret.expose_secret())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// The text without the key, for endpoints that repeat what they were sent.
    pub(crate) fn take_from(&self, text: &str) -> String {
        text.replace(self.secret.expose_secret(), REDACTED)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({})", self.name)
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_printed_holds_the_key() {
        let key = ApiKey::new("MY_KEY", " sk-secret\n").unwrap();
        let header = key.header("Bearer ").unwrap();
        assert_eq!(header.to_str().unwrap(), "Bearer sk-secret");
        assert_eq!(key.take_from("no such key: sk-secret!"), "no such key: [redacted]!");
        let printed = format!("{key} {key:?} {key:#?} {header:?}");
        assert!(!printed.contains("secret"), "{printed}");
    }

    #[test]
    fn what_cannot_be_sent_is_refused_without_being_repeated() {
        for text in ["a b", "a\nb", "schlüssel"] {
            let error = ApiKey::new("MY_KEY", text).unwrap_err();
            assert_eq!(error, ApiKeyError::Unsendable { name: "MY_KEY".into() });
            assert!(!format!("{error} {error:?}").contains(text));
        }
        let empty = ApiKeyError::Empty { name: "MY_KEY".into() };
        assert_eq!(ApiKey::new("MY_KEY", " \n").unwrap_err(), empty);
    }
}
