//! The HTTP client that model endpoints are reached with, and the one reading of a base URL.

use std::{sync::Once, time::Duration};

use reqwest::{Client, Url, redirect};

use crate::ModelError;

const CONNECT: Duration = Duration::from_secs(10);

/// A base URL as it was meant: without a final slash, with `/v1` where there was no path, without
/// `/chat/completions` where somebody pasted the whole endpoint.
pub(crate) fn base_url(text: &str) -> Result<Url, ModelError> {
    let invalid = |reason: &str| ModelError::InvalidUrl { url: shown(text), reason: reason.to_owned() };
    let mut url = Url::parse(text.trim()).map_err(|e| invalid(&e.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(invalid("it has to begin with http:// or https://"));
    }
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/chat/completions").unwrap_or(path);
    let path = if path.is_empty() { "/v1" } else { path }.to_owned();
    url.set_path(&path);
    url.set_fragment(None);
    Ok(url)
}

/// An address under the base.
pub(crate) fn under(base: &Url, suffix: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&format!("{}/{suffix}", base.path().trim_end_matches('/')));
    url
}

/// A URL for people: without user, password and query, which may hold a key.
pub(crate) fn shown(text: &str) -> String {
    match Url::parse(text.trim()) {
        Ok(url) if url.has_host() => {
            let port = url.port().map(|p| format!(":{p}")).unwrap_or_default();
            format!("{}://{}{port}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
        }
        // Not a URL: it may be anything, a key pasted into the wrong field included.
        _ => "…".to_owned(),
    }
}

/// Whether a URL leads to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A client for one endpoint. It follows no redirects: they would take the key and the conversation elsewhere.
pub(crate) fn client(base: &Url) -> Result<Client, ModelError> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // An error only says that the program has chosen one already.
        rustls::crypto::ring::default_provider().install_default().ok();
    });
    let mut builder = Client::builder()
        .connect_timeout(CONNECT)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("eVi/", env!("CARGO_PKG_VERSION")));
    if is_loopback(base) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|e| ModelError::Unreachable { url: shown(base.as_str()), reason: reason(&e) })
}

/// The innermost cause in words; the outer ones repeat the URL, query and all.
pub(crate) fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let text = cause.to_string();
    // "Connection refused (os error 111)": the number helps nobody.
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if !text.starts_with("URL") => first.to_lowercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_read_as_it_was_meant() {
        let base = |text: &str| base_url(text).unwrap().to_string();
        assert_eq!(base("http://127.0.0.1:11434"), "http://127.0.0.1:11434/v1");
        assert_eq!(base(" http://h/v1/ "), "http://h/v1");
        assert_eq!(base("https://h/api/v1/chat/completions"), "https://h/api/v1");
        assert_eq!(under(&base_url("http://h/v1?k=1").unwrap(), "models").as_str(), "http://h/v1/models?k=1");
        for bad in ["", "h:1234", "ftp://h/", "sk-secret"] {
            let problem = base_url(bad).unwrap_err();
            assert!(!problem.to_string().contains("secret"), "{problem}");
        }
    }

    #[test]
    fn a_shown_url_holds_no_key() {
        assert_eq!(shown("https://user:sk-1@h:8/v1?key=sk-2#x"), "https://h:8/v1");
        assert!(is_loopback(&base_url("http://[::1]:8080").unwrap()));
        assert!(is_loopback(&base_url("http://LOCALHOST").unwrap()));
        assert!(!is_loopback(&base_url("http://10.0.0.1").unwrap()));
    }
}
