//! Why a model gave no answer, in words that say what to do; never holds a key.

use std::time::Duration;

/// The most characters of a provider's answer that an error quotes.
const EXCERPT_CHARS: usize = 300;

/// Why a model gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The base URL is none.
    #[error("\"{url}\" is not the base URL of a model: {reason}")]
    InvalidUrl {
        /// What was given, without user, password and query.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Nothing answered there.
    #[error("could not reach the model at {url}: {reason}")]
    Unreachable {
        /// Where.
        url: String,
        /// Why: `connection refused`, …
        reason: String,
    },
    /// The provider wants a key, or another one.
    #[error("the provider at {url} did not accept the API key")]
    Unauthorized {
        /// Where.
        url: String,
    },
    /// Too many requests, or a quota is used up.
    #[error("the provider is limiting requests{}", again(*retry_after))]
    RateLimited {
        /// How long to wait, when the provider says.
        retry_after: Option<Duration>,
        /// What the provider says.
        body_excerpt: String,
    },
    /// Another refusal.
    #[error("the provider answered with status {status}{}", quoted(body_excerpt))]
    Http {
        /// The HTTP status.
        status: u16,
        /// The beginning of what it says.
        body_excerpt: String,
    },
    /// Nothing came for too long.
    #[error("the model sent nothing for {} s", after.as_secs_f32())]
    Timeout {
        /// How long we waited.
        after: Duration,
    },
    /// An answer that is none.
    #[error("the model's answer could not be read: {reason}")]
    Protocol {
        /// What is wrong with it.
        reason: String,
    },
}

impl ModelError {
    /// The stable word for this end.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidUrl { .. } => "model_url_invalid",
            Self::Unreachable { .. } => "model_unreachable",
            Self::Unauthorized { .. } => "model_unauthorized",
            Self::RateLimited { .. } => "model_rate_limited",
            Self::Http { .. } => "model_http",
            Self::Timeout { .. } => "model_timeout",
            Self::Protocol { .. } => "model_protocol",
        }
    }

    /// What to try.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::InvalidUrl { .. } => "give an address such as http://127.0.0.1:11434/v1",
            Self::Unreachable { .. } => {
                "check that the model's server is running and that the base URL is right"
            }
            Self::Unauthorized { .. } => "set a valid API key for this provider",
            Self::RateLimited { .. } => "wait and send the message again, or check the quota at the provider",
            Self::Http { status: 404, .. } => {
                "check the base URL (most end in /v1) and that the provider has the model"
            }
            Self::Http { status: 400, .. } => {
                "the provider did not like the request: check the model's name and whether it can call tools"
            }
            Self::Http { status: 413, .. } => "the conversation is too long for this model: begin a new one",
            Self::Http { status: 300..=399, .. } => "the endpoint has moved: use the address that it names",
            Self::Http { .. } => "try again in a moment; if it stays, look at the provider's status page",
            Self::Timeout { .. } => "try again; a large local model may need a longer llm.request_timeout",
            Self::Protocol { .. } => "check that the base URL leads to an OpenAI-compatible endpoint",
        }
    }
}

fn again(after: Option<Duration>) -> String {
    after.map(|a| format!(": it asks to wait {} s", a.as_secs_f32().ceil())).unwrap_or_default()
}

fn quoted(excerpt: &str) -> String {
    if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") }
}

/// The beginning of a provider's answer, its `error.message` where there is one; `key` is blotted out, because
/// some providers repeat it.
pub(crate) fn excerpt(body: &str, key: Option<&str>) -> String {
    let json: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message = json.as_ref().and_then(|v| {
        let error = v.get("error").unwrap_or(v);
        error.get("message").or_else(|| v.get("detail")).unwrap_or(error).as_str()
    });
    let clean = blot(message.unwrap_or(body), key);
    let words: Vec<&str> = clean.split_whitespace().collect();
    let line: String = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    match line.char_indices().nth(EXCERPT_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

fn blot(text: &str, key: Option<&str>) -> String {
    match key.map(str::trim).filter(|k| k.len() >= 4) {
        Some(key) => text.replace(key, "…"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_short_one_line_and_without_the_key() {
        let body = r#"{"error": {"message": "Incorrect API key: sk-secret1.\n See docs"}}"#;
        assert_eq!(excerpt(body, Some("sk-secret1")), "Incorrect API key: …. See docs");
        assert_eq!(excerpt("<html>\n  oops", None), "<html> oops");
        assert_eq!(excerpt(r#"{"error": "model not found"}"#, None), "model not found");
        assert!(excerpt(&"x".repeat(9000), None).chars().count() <= EXCERPT_CHARS + 1);
        let sliced = format!("{}sk-secret1", "x".repeat(EXCERPT_CHARS - 5));
        assert!(!excerpt(&sliced, Some("sk-secret1")).contains("sk-"), "the key is blotted before the cut");
    }
}
