//! Servers behind HTTP: builds a client and rmcp's transport with our headers and limits, and tells what went wrong
//! in words. It
//! never writes a header's value anywhere.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error,
    io,
    time::Duration,
};

use evi_domain::Secret;
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Url, redirect};
use rmcp::transport::{
    StreamableHttpClientTransport,
    streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
};

use crate::error::Fault;

/// How long a connection may take to open.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of one answer or one event.
const ANSWER_CAP: usize = 64 << 20;
/// Requests under way to one server; a call that hangs must not keep others from starting.
const CONCURRENT: usize = 64;

/// What rmcp's transport reports.
pub(crate) type HttpError = StreamableHttpError<reqwest::Error>;
/// The transport.
pub(crate) type HttpTransport = StreamableHttpClientTransport<reqwest::Client>;

/// Where a server is, and what every request carries.
pub(crate) struct Endpoint {
    url: Url,
    headers: HashMap<HeaderName, HeaderValue>,
}

impl Endpoint {
    /// Checks address and headers.
    pub(crate) fn new(url: &Secret, headers: &BTreeMap<String, Secret>) -> Result<Self, Fault> {
        let url = Url::parse(url.expose()).map_err(|e| Fault::InvalidUrl { reason: e.to_string() })?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(Fault::InvalidUrl { reason: format!("{} is neither http nor https", url.scheme()) });
        }
        let mut checked = HashMap::new();
        for (name, value) in headers {
            let invalid = || Fault::InvalidHeader { name: name.clone() };
            let key = HeaderName::try_from(name.as_str()).map_err(|_| invalid())?;
            let mut value = HeaderValue::from_str(value.expose().trim()).map_err(|_| invalid())?;
            // Left out of every debug output.
            value.set_sensitive(true);
            checked.insert(key, value);
        }
        Ok(Self { url, headers: checked })
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
        self.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
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
        client
            .build()
            .map_err(|error| Fault::Broken { host: self.host(), reason: plain(&error.without_url()) })
    }

    /// Opens nothing yet; must be called inside a runtime.
    pub(crate) fn transport(&self) -> Result<HttpTransport, Fault> {
        let client = self.client()?;
        let config = StreamableHttpClientTransportConfig::with_uri(self.url.as_str())
            .custom_headers(self.headers.clone())
            .max_concurrent_requests(CONCURRENT)
            .max_sse_event_size(ANSWER_CAP)
            .max_json_response_size(ANSWER_CAP)
            // rmcp would send a call again that may have run; we open a new session instead and say so.
            .reinit_on_expired_session(false);
        Ok(StreamableHttpClientTransport::with_client(client, config))
    }

    fn is_loopback(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

/// What an error of the transport means.
pub(crate) fn explain(error: &HttpError, host: &str) -> Fault {
    let host = host.to_owned();
    match error {
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::Auth(_) => {
            Fault::Status { host, status: 401 }
        }
        StreamableHttpError::InsufficientScope(_) => Fault::Status { host, status: 403 },
        StreamableHttpError::HttpStatus(status) => Fault::Status { host, status: status.status },
        StreamableHttpError::SessionExpired => Fault::SessionExpired,
        StreamableHttpError::UnexpectedServerResponse(text) => match status_in(text) {
            Some(status) => Fault::Status { host, status },
            None => Fault::NotMcp { what: "its answer is not JSON-RPC".to_owned() },
        },
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().unwrap_or("nothing").chars().take(60).collect::<String>();
            Fault::NotMcp { what: format!("it sends {kind}") }
        }
        StreamableHttpError::Deserialize(_) => {
            Fault::NotMcp { what: "its answer is not JSON-RPC".to_owned() }
        }
        StreamableHttpError::ResponseBodyTooLarge { max_size } => {
            Fault::NotMcp { what: format!("its answer is longer than {} MiB", max_size >> 20) }
        }
        StreamableHttpError::Client(error) => explain_reqwest(error, host),
        StreamableHttpError::Io(error) => Fault::Broken { host, reason: error.kind().to_string() },
        StreamableHttpError::Sse(_) | StreamableHttpError::UnexpectedEndOfStream => {
            Fault::Broken { host, reason: "its stream ended".to_owned() }
        }
        StreamableHttpError::ControlRequestTimeout | StreamableHttpError::SessionRecoveryTimeout => {
            Fault::TimedOut { host }
        }
        _ => Fault::Broken { host, reason: "the connection was closed".to_owned() },
    }
}

fn explain_reqwest(error: &reqwest::Error, host: String) -> Fault {
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

/// The number in `HTTP 404 Not Found: …`, as rmcp writes it. The body behind it may say anything, so it is not
/// passed on.
fn status_in(text: &str) -> Option<u16> {
    text.strip_prefix("HTTP ")?.get(..3)?.parse().ok()
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

    #[test]
    fn a_status_is_read_from_what_rmcp_writes() {
        assert_eq!(status_in("HTTP 401 Unauthorized: no"), Some(401));
        assert_eq!(status_in("could not parse"), None);
    }
}
