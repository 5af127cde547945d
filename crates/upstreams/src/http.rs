//! Servers behind HTTP: checks address and headers, builds the client, and tells what went wrong in words. It sends
//! nothing itself and never writes a header's value anywhere.

use std::{collections::BTreeMap, error::Error, io, path::Path, time::Duration};

use evi_domain::Secret;
use http::{HeaderMap, HeaderName, HeaderValue, header::CONTENT_TYPE};
use reqwest::{Certificate, Response, Url, redirect};
use tokio::{io::AsyncReadExt, time::timeout};

use crate::error::Fault;

/// How long a connection may take to open.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of a file of certificates.
const PEM_CAP: u64 = 4 << 20;
/// Bytes of an answer that nobody reads.
const REST_CAP: usize = 64 << 10;
pub(crate) const EVENT_STREAM: &str = "text/event-stream";
pub(crate) const JSON: &str = "application/json";

/// Where a server is, and what every request carries.
pub(crate) struct Endpoint {
    url: Url,
    headers: HeaderMap,
    /// Trusted besides those of the system.
    ca: Vec<Certificate>,
}

impl Endpoint {
    /// Checks address and headers.
    pub(crate) fn new(url: &Secret, headers: &BTreeMap<String, Secret>) -> Result<Self, Fault> {
        let url = Url::parse(url.expose()).map_err(|e| Fault::InvalidUrl { reason: e.to_string() })?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(Fault::InvalidUrl { reason: format!("{} is neither http nor https", url.scheme()) });
        }
        let mut checked = HeaderMap::new();
        for (name, value) in headers {
            let invalid = || Fault::InvalidHeader { name: name.clone() };
            let key = HeaderName::try_from(name.as_str()).map_err(|_| invalid())?;
            let mut value = HeaderValue::from_str(value.expose().trim()).map_err(|_| invalid())?;
            // Left out of every debug output.
            value.set_sensitive(true);
            checked.insert(key, value);
        }
        Ok(Self { url, headers: checked, ca: Vec::new() })
    }

    /// Trusts the certificates of a PEM file, too.
    ///
    /// # Errors
    /// A file that is not there, or has none in it.
    pub(crate) async fn trust(&mut self, file: &Path) -> Result<(), Fault> {
        let unusable = |reason: String| Fault::Certificates { path: file.display().to_string(), reason };
        let mut pem = Vec::new();
        let opened = tokio::fs::File::open(file).await.map_err(|e| unusable(e.kind().to_string()))?;
        opened.take(PEM_CAP).read_to_end(&mut pem).await.map_err(|e| unusable(e.kind().to_string()))?;
        self.ca = Certificate::from_pem_bundle(&pem).map_err(|_| unusable("it is not PEM".to_owned()))?;
        if self.ca.is_empty() {
            return Err(unusable("there is no certificate in it".to_owned()));
        }
        Ok(())
    }

    /// The host and port, for messages: an address may hold a token.
    pub(crate) fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or("?");
        self.url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// The address.
    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// What every request carries.
    pub(crate) fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    /// Opens nothing yet; must be called inside a runtime.
    pub(crate) fn client(&self) -> Result<reqwest::Client, Fault> {
        let origin = self.url.origin();
        let mut client = reqwest::Client::builder()
            .connect_timeout(CONNECT_LIMIT)
            // Our headers go to the server that the person named and to no other.
            .redirect(redirect::Policy::custom(move |attempt| {
                if attempt.url().origin() == origin && attempt.previous().len() < 5 {
                    attempt.follow()
                } else {
                    attempt.stop()
                }
            }));
        if self.is_loopback() {
            client = client.no_proxy();
        }
        if !self.ca.is_empty() {
            client = client.tls_certs_merge(self.ca.clone());
        }
        client
            .build()
            .map_err(|error| Fault::Broken { host: self.host(), reason: plain(&error.without_url()) })
    }

    fn is_loopback(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

/// What an answer says it is, without parameters, in lower case; empty where it says nothing.
pub(crate) fn kind_of(response: &Response) -> String {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().chars().take(60).collect()
}

/// Reads what is left of an answer, within bounds, so that its connection can be used again.
pub(crate) async fn drain(response: &mut Response, within: Duration) {
    let rest = async {
        let mut room = REST_CAP;
        while let Ok(Some(bytes)) = response.chunk().await {
            room = room.saturating_sub(bytes.len());
            if room == 0 {
                return;
            }
        }
    };
    let _ = timeout(within, rest).await;
}

/// What a failure of the client means.
pub(crate) fn explain(error: &reqwest::Error, host: &str) -> Fault {
    let host = host.to_owned();
    if let Some(status) = error.status() {
        return Fault::Status { host, status: status.as_u16() };
    }
    for cause in causes(error) {
        if let Some(tls) = tls_in(cause) {
            return Fault::Tls { host, reason: tls };
        }
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            match io.kind() {
                io::ErrorKind::ConnectionRefused => return Fault::Refused { host },
                io::ErrorKind::TimedOut => return Fault::TimedOut { host },
                _ => {}
            }
        }
    }
    if error.is_timeout() {
        return Fault::TimedOut { host };
    }
    if error.is_connect() && causes(error).any(|cause| cause.to_string().contains("dns error")) {
        return Fault::HostNotFound { host };
    }
    let reason = causes(error).last().map_or_else(|| "unknown".to_owned(), plain);
    Fault::Broken { host, reason }
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&(dyn Error + 'static)| (*cause).source())
}

fn tls_in(cause: &(dyn Error + 'static)) -> Option<String> {
    if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
        return Some(plain(tls));
    }
    // An I/O error hides the error that it was made from.
    tls_in(cause.downcast_ref::<io::Error>()?.get_ref()?)
}

/// One line, capped.
fn plain(error: &(impl Error + ?Sized)) -> String {
    error.to_string().chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(url: &str, headers: &[(&str, &str)]) -> Result<Endpoint, Fault> {
        let headers = headers.iter().map(|(k, v)| ((*k).to_owned(), Secret::new(*v))).collect();
        Endpoint::new(&Secret::new(url), &headers)
    }

    #[test]
    fn an_address_or_a_header_that_cannot_be_is_named_without_its_value() {
        assert_eq!(endpoint("nope", &[]).err().unwrap().code(), "invalid_config");
        assert_eq!(endpoint("file:///x", &[]).err().unwrap().code(), "invalid_config");
        let fault = endpoint("http://h/mcp", &[("X-Key", "a\nb")]).err().unwrap();
        assert_eq!(fault.to_string(), "the header X-Key is not valid");
        let good = endpoint("https://user:pw@h/mcp?token=t", &[("Authorization", "Bearer x")]).ok().unwrap();
        assert_eq!(good.host(), "h:443");
        assert!(endpoint("http://[::1]:1/mcp", &[]).ok().unwrap().is_loopback());
    }
}
