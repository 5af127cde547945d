//! Who may talk to the page's server: this machine's browser, on our own address, with the token. It knows no
//! command.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use evi_app::domain::Secret;
use serde_json::json;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

fn refuse(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"code": "forbidden", "message": message}))).into_response()
}

/// A page of another site, or a name that only pretends to be this machine (DNS rebinding), gets nothing.
pub async fn host_and_origin(State(address): State<SocketAddr>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let Some(host) = text(headers, header::HOST) else {
        return refuse(StatusCode::FORBIDDEN, "the Host header is missing");
    };
    if !is_ours(host, address.port()) {
        return refuse(StatusCode::FORBIDDEN, "the Host header is not this address");
    }
    let foreign = text(headers, header::ORIGIN).is_some_and(|origin| {
        origin.strip_prefix("http://").is_none_or(|rest| !is_ours(rest, address.port()))
    });
    if foreign {
        return refuse(StatusCode::FORBIDDEN, "the Origin header is not this address");
    }
    next.run(request).await
}

fn is_ours(host: &str, port: u16) -> bool {
    ["127.0.0.1", "localhost", "[::1]"].iter().any(|name| {
        host.strip_prefix(name).is_some_and(|rest| {
            rest.strip_prefix(':').map_or(rest.is_empty() && port == 80, |p| p == port.to_string())
        })
    })
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Compared as digests, in constant time whatever the length.
pub async fn token(State(token): State<Arc<Secret>>, request: Request, next: Next) -> Response {
    let given =
        text(request.headers(), header::AUTHORIZATION).and_then(|v| v.strip_prefix("Bearer ")).unwrap_or("");
    let same = Sha256::digest(given).ct_eq(&Sha256::digest(token.expose()));
    if bool::from(same) {
        next.run(request).await
    } else {
        let message = "the token is missing or wrong; open the link that evi web printed";
        let body = Json(json!({"code": "forbidden", "message": message}));
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer realm=\"evi\"")], body).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_address_is_ours() {
        assert!(
            is_ours("127.0.0.1:8000", 8000) && is_ours("localhost:8000", 8000) && is_ours("[::1]:8000", 8000)
        );
        for foreign in [
            "evil.example:8000",
            "127.0.0.1:8001",
            "127.0.0.1",
            "127.0.0.1.evil.example:8000",
            "localhost:80000",
        ] {
            assert!(!is_ours(foreign, 8000), "{foreign}");
        }
    }
}
