//! A raw HTTP client and a running gateway for it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use evi_domain::{Exposure, Secret};
use evi_gateway::{HttpGateway, HttpSettings};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::host::{BOUND, Host};

pub const MODERN: &str = "2026-07-28";

pub struct Web {
    pub host: Arc<Host>,
    pub gateway: HttpGateway,
    pub client: Client,
}

pub fn settings() -> HttpSettings {
    HttpSettings {
        addr: SocketAddr::from(([127, 0, 0, 1], 0)),
        token: None,
        exposure: Exposure::default(),
        insecure_no_auth: false,
    }
}

pub fn install_tls() {
    // Another test may have been first.
    let _already = rustls::crypto::ring::default_provider().install_default();
}

impl Web {
    pub async fn start() -> Self {
        Self::start_with(settings()).await
    }

    pub async fn start_with_token(token: &str) -> Self {
        Self::start_with(HttpSettings { token: Some(Secret::new(token)), ..settings() }).await
    }

    pub async fn start_with(settings: HttpSettings) -> Self {
        install_tls();
        let host = Host::new();
        let gateway = HttpGateway::start(host.clone(), settings).await.unwrap();
        let client = Client::builder().no_proxy().timeout(Duration::from_secs(10)).build().unwrap();
        Self { host, gateway, client }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.gateway.address())
    }

    /// A POST with the headers that every client sends.
    pub fn post(&self, body: &Value) -> RequestBuilder {
        self.post_raw(body.to_string())
    }

    pub fn post_raw(&self, body: impl Into<reqwest::Body>) -> RequestBuilder {
        self.client
            .post(self.url("/mcp"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(body)
    }

    /// Opens a legacy session and gives its id.
    pub async fn session(&self) -> String {
        let response = self.post(&initialize("2025-06-18")).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
    }

    /// A request within a legacy session.
    pub fn legacy(&self, session: &str, body: &Value) -> RequestBuilder {
        self.post(body).header("mcp-session-id", session).header("mcp-protocol-version", "2025-06-18")
    }

    /// The stream of notices of a legacy session.
    pub async fn notices(&self, session: &str) -> Events {
        let response = self
            .client
            .get(self.url("/mcp"))
            .header("accept", "text/event-stream")
            .header("mcp-session-id", session)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Events::new(response)
    }

    /// A modern request with all its headers.
    pub fn modern(&self, body: &Value) -> RequestBuilder {
        let mut request = self
            .post(body)
            .header("mcp-protocol-version", MODERN)
            .header("mcp-method", body["method"].as_str().unwrap());
        let params = &body["params"];
        if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
            request = request.header("mcp-name", name);
        }
        request
    }
}

/// The messages of an event stream.
pub struct Events {
    response: Response,
    pending: String,
}

impl Events {
    pub fn new(response: Response) -> Self {
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, pending: String::new() }
    }

    /// The next message; `None` when the stream ended.
    pub async fn next(&mut self) -> Option<Value> {
        tokio::time::timeout(BOUND, self.read()).await.expect("an event in time")
    }

    /// Whether nothing comes for longer than a change takes to be told.
    pub async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(Duration::from_millis(300), self.read()).await.is_err()
    }

    async fn read(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.pending.find("\n\n") {
                let event: String = self.pending.drain(..end + 2).collect();
                if let Some(data) = event.lines().find_map(|l| l.strip_prefix("data: ")) {
                    return Some(serde_json::from_str(data).unwrap());
                }
                continue;
            }
            let chunk = self.response.chunk().await.ok()??;
            self.pending.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}

pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

pub fn initialize(version: &str) -> Value {
    request(
        0,
        "initialize",
        json!({"protocolVersion": version, "capabilities": {},
        "clientInfo": {"name": "tester", "version": "1.2"}}),
    )
}

/// A modern request.
pub fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({"name": "tester", "version": "1.2"});
    request(id, method, params)
}

pub fn call(id: impl Into<Value>, tool: &str) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": {}}))
}

/// The status and the JSON-RPC error's code.
pub async fn refused(request: RequestBuilder) -> (u16, i64) {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap_or_default();
    (status, body["error"]["code"].as_i64().unwrap_or_default())
}

pub async fn answered(request: RequestBuilder) -> Value {
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response.json().await.unwrap()
}
