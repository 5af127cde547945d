//! Finds model servers on this machine and lists the models of an endpoint; asks no address but loopback by itself.

use std::time::Duration;

use evi_domain::Secret;
use futures::future::join_all;
use reqwest::{Client, RequestBuilder, Url};
use serde::Deserialize;

use crate::{ModelError, error::excerpt, http, openai::status_error};

/// The largest list of models, in bytes.
const MAX_LIST: usize = 4 << 20;
/// How long a list of models may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(15);

/// An address where a model server may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// `ollama`, `lmstudio` or `llamacpp`.
    pub kind: &'static str,
    /// With `/v1`.
    pub base_url: String,
}

/// A model server that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEndpoint {
    /// `ollama`, `lmstudio` or `llamacpp`, by where it was found.
    pub kind: &'static str,
    /// With `/v1`.
    pub base_url: String,
    /// The models that it lists, in its order; it may have none yet.
    pub models: Vec<String>,
}

/// Where local model servers listen; `ollama_host` is the value of `OLLAMA_HOST`, used when it is loopback.
pub fn candidates(ollama_host: Option<&str>) -> Vec<Candidate> {
    let ollama = ollama_host.and_then(ollama_url).unwrap_or_else(|| "http://127.0.0.1:11434/v1".to_owned());
    let local = |kind, port: u16| Candidate { kind, base_url: format!("http://127.0.0.1:{port}/v1") };
    vec![Candidate { kind: "ollama", base_url: ollama }, local("lmstudio", 1234), local("llamacpp", 8080)]
}

/// `OLLAMA_HOST` has many forms: `host`, `host:port`, `:port`, a URL, and `0.0.0.0` for every interface.
fn ollama_url(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('/');
    if text.is_empty() {
        return None;
    }
    let text = if text.contains("://") {
        text.to_owned()
    } else if text.starts_with(':') {
        format!("http://127.0.0.1{text}")
    } else {
        format!("http://{text}")
    };
    let mut url = Url::parse(&text).ok()?;
    if url.scheme() != "http" {
        return None;
    }
    // Without a port it is Ollama's own; `http://host:80` reads as no port, too, and nobody means that.
    if url.port().is_none() {
        url.set_port(Some(11434)).ok()?;
    }
    if matches!(url.host_str(), Some("0.0.0.0" | "[::]")) {
        url.set_host(Some("127.0.0.1")).ok()?;
    }
    http::is_loopback(&url)
        .then(|| format!("http://{}:{}/v1", url.host_str().unwrap_or_default(), url.port().unwrap_or(11434)))
}

/// Asks the usual addresses of this machine at once; no answer within `timeout` (700 ms is plenty) is none.
pub async fn discover_local(timeout: Duration) -> Vec<FoundEndpoint> {
    let host = std::env::var("OLLAMA_HOST").ok();
    discover_at(&candidates(host.as_deref()), timeout).await
}

/// The same for given addresses, in their order.
pub async fn discover_at(candidates: &[Candidate], timeout: Duration) -> Vec<FoundEndpoint> {
    let asked = candidates.iter().map(|candidate| async move {
        let base = http::base_url(&candidate.base_url).ok()?;
        let client = http::client(&base).ok()?;
        let models = tokio::time::timeout(timeout, fetch(&client, &base, None)).await.ok()?.ok()?;
        Some(FoundEndpoint { kind: candidate.kind, base_url: candidate.base_url.clone(), models })
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// The models of an endpoint, in its order.
///
/// # Errors
/// As for an answer: what stands in the way, without the key.
pub async fn list_models(base_url: &str, api_key: Option<&Secret>) -> Result<Vec<String>, ModelError> {
    let base = http::base_url(base_url)?;
    let client = http::client(&base)?;
    let fetched = tokio::time::timeout(LIST_TIMEOUT, fetch(&client, &base, api_key));
    fetched.await.unwrap_or(Err(ModelError::Timeout { after: LIST_TIMEOUT }))
}

async fn fetch(client: &Client, base: &Url, api_key: Option<&Secret>) -> Result<Vec<String>, ModelError> {
    #[derive(Deserialize)]
    struct List {
        // Ollama without a model says null.
        data: Option<Vec<Model>>,
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let body = get(client.get(http::under(base, "models")), base, api_key).await?;
    let list: List = serde_json::from_slice(&body).map_err(|_| ModelError::Protocol {
        reason: "the list of models is not what was expected".to_owned(),
    })?;
    Ok(list.data.unwrap_or_default().into_iter().map(|model| model.id).collect())
}

/// The body of a request's answer, bounded, when it is a good one.
pub(crate) async fn get(
    mut request: RequestBuilder,
    base: &Url,
    api_key: Option<&Secret>,
) -> Result<Vec<u8>, ModelError> {
    let url = http::shown(base.as_str());
    let broken = |e: &reqwest::Error| ModelError::Unreachable { url: url.clone(), reason: http::reason(e) };
    if let Some(key) = api_key.filter(|key| !key.is_empty()) {
        request = request.bearer_auth(key.expose().trim());
    }
    let mut response = request.send().await.map_err(|e| broken(&e))?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| broken(&e))? {
        if body.len() + chunk.len() > MAX_LIST {
            return Err(ModelError::Protocol { reason: "the list of models is too large".to_owned() });
        }
        body.extend_from_slice(&chunk);
    }
    if !response.status().is_success() {
        let wait = response.headers().get("retry-after").and_then(|v| v.to_str().ok());
        let words = excerpt(&String::from_utf8_lossy(&body), api_key.map(Secret::expose));
        return Err(status_error(response.status(), &url, words, wait.and_then(|v| v.trim().parse().ok())));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ollama_host_is_honoured_when_it_is_this_machine() {
        let found = |text: &str| candidates(Some(text)).remove(0).base_url;
        let usual = "http://127.0.0.1:11434/v1";
        assert_eq!(candidates(None)[0].base_url, usual);
        assert_eq!(found("127.0.0.1:9999"), "http://127.0.0.1:9999/v1");
        assert_eq!(found("http://localhost:9999/"), "http://localhost:9999/v1");
        assert_eq!(found("0.0.0.0"), usual);
        assert_eq!(found("0.0.0.0:9999"), "http://127.0.0.1:9999/v1");
        assert_eq!(found(":9999"), "http://127.0.0.1:9999/v1");
        assert_eq!(found("[::1]:9999"), "http://[::1]:9999/v1");
        for elsewhere in ["10.0.0.5:11434", "https://ollama.example", "", "::::"] {
            assert_eq!(found(elsewhere), usual, "{elsewhere}");
        }
    }
}
