//! Who may talk to the endpoint at all: Host, Origin and token, looked at before a byte of the body is. It knows
//! nothing of the protocol behind it.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{PoisonError, RwLock},
};

use evi_domain::Secret;
use http::{HeaderMap, StatusCode, Uri, header, uri::Authority};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The rules of one endpoint.
#[derive(Debug)]
pub(crate) struct Guard {
    addr: SocketAddr,
    /// The token's digest: equal lengths to compare, and no value to leak.
    token: RwLock<Option<[u8; 32]>>,
}

/// Why somebody stays outside.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) message: &'static str,
}

const BAD_HOST: Refusal =
    Refusal { status: StatusCode::FORBIDDEN, message: "the Host header does not name this endpoint" };
const BAD_ORIGIN: Refusal =
    Refusal { status: StatusCode::FORBIDDEN, message: "web pages of other origins are not served" };
const BAD_TOKEN: Refusal = Refusal {
    status: StatusCode::UNAUTHORIZED,
    message: "the token is missing or wrong; send \"Authorization: Bearer <token>\"",
};

impl Guard {
    /// Rules for an endpoint at `addr`; an empty token is none.
    pub(crate) fn new(addr: SocketAddr, token: Option<&Secret>) -> Self {
        let guard = Self { addr, token: RwLock::new(None) };
        if let Some(token) = token {
            guard.set_token(token);
        }
        guard
    }

    /// Replaces the token. An empty one opens nothing: it is not taken.
    pub(crate) fn set_token(&self, token: &Secret) {
        if token.is_empty() {
            tracing::warn!("an empty token was not taken");
            return;
        }
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = Some(digest(token.expose()));
    }

    /// Checks a request's head.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap, needs_token: bool) -> Result<(), Refusal> {
        if self.addr.ip().is_loopback() && !self.is_our_host(uri, headers) {
            return Err(BAD_HOST);
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        if !origins.all(|o| o.to_str().is_ok_and(is_local_origin)) {
            return Err(BAD_ORIGIN);
        }
        if needs_token && !self.has_token(headers) {
            return Err(BAD_TOKEN);
        }
        Ok(())
    }

    /// A name that resolves to us but is not ours is how a web page gets around the browser's rules.
    fn is_our_host(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let Some(authority) = authority(uri, headers) else { return false };
        is_loopback_name(authority.host()) && authority.port_u16().unwrap_or(80) == self.addr.port()
    }

    fn has_token(&self, headers: &HeaderMap) -> bool {
        let Some(expected) = *self.token.read().unwrap_or_else(PoisonError::into_inner) else { return true };
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return false };
        let Some((scheme, token)) = value.to_str().ok().and_then(|v| v.split_once(' ')) else { return false };
        scheme.eq_ignore_ascii_case("bearer") && bool::from(digest(token.trim()).ct_eq(&expected))
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// What the client calls us: `host:port`. `None` when it does not say, or says it twice.
pub(crate) fn authority(uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
    if let Some(authority) = uri.authority() {
        return Some(authority.clone());
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return None };
    let authority: Authority = host.to_str().ok()?.parse().ok()?;
    // `user@host` has no place in a Host header.
    (!authority.as_str().contains('@')).then_some(authority)
}

fn is_loopback_name(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn is_local_origin(origin: &str) -> bool {
    let Some(rest) = origin.strip_prefix("http://") else { return false };
    let host = match rest.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => rest,
    };
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn check(guard: &Guard, pairs: &[(&'static str, &'static str)]) -> u16 {
        guard
            .check(&Uri::from_static("/mcp"), &head(pairs), true)
            .map_or_else(|r| r.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_loopback_names_with_our_port_are_our_host() {
        let guard = Guard::new("127.0.0.1:8765".parse().unwrap(), None);
        for host in ["127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"] {
            assert_eq!(check(&guard, &[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example:8765",
            "127.0.0.1:80",
            "localhost",
            "localhost.evil:8765",
            "10.0.0.1:8765",
            "a@127.0.0.1:8765",
            "",
        ] {
            assert_eq!(check(&guard, &[("host", host)]), 403, "{host}");
        }
        assert_eq!(check(&guard, &[]), 403);
        assert_eq!(check(&guard, &[("host", "localhost:8765"), ("host", "evil.example:8765")]), 403);
    }

    #[test]
    fn only_pages_of_this_machine_are_served() {
        let guard = Guard::new("127.0.0.1:8765".parse().unwrap(), None);
        let origin = |o| check(&guard, &[("host", "localhost:8765"), ("origin", o)]);
        for ok in ["http://localhost", "http://localhost:6274", "http://127.0.0.1:1", "http://[::1]:3000"] {
            assert_eq!(origin(ok), 200, "{ok}");
        }
        for bad in [
            "null",
            "https://localhost",
            "http://evil.example",
            "http://localhost.evil:80",
            "http://localhost:99999",
            "http://[::1",
            "",
        ] {
            assert_eq!(origin(bad), 403, "{bad}");
        }
    }

    #[test]
    fn the_token_is_needed_whole_and_once() {
        let guard = Guard::new("127.0.0.1:8765".parse().unwrap(), Some(&Secret::new("s3cret")));
        let with = |a| check(&guard, &[("host", "localhost:8765"), ("authorization", a)]);
        assert_eq!(with("Bearer s3cret"), 200);
        assert_eq!(with("bearer s3cret"), 200);
        for bad in ["Bearer s3cre", "Bearer s3crett", "Bearer", "Basic s3cret", "s3cret", "Bearer "] {
            assert_eq!(with(bad), 401, "{bad}");
        }
        assert_eq!(check(&guard, &[("host", "localhost:8765")]), 401);
        let twice =
            [("host", "localhost:8765"), ("authorization", "Bearer s3cret"), ("authorization", "Bearer x")];
        assert_eq!(check(&guard, &twice), 401);
        guard.set_token(&Secret::new(""));
        assert_eq!(with("Bearer "), 401);
        guard.set_token(&Secret::new("new"));
        assert_eq!((with("Bearer s3cret"), with("Bearer new")), (401, 200));
    }
}
