//! An application that talks to the served endpoint over HTTP, without any library's help.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::{Arc, Mutex},
};

use futures::StreamExt;
use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};

use crate::{page::client, until};

/// Where the endpoint is, and what to show at its door.
#[derive(Clone)]
pub struct Door {
    http: reqwest::Client,
    /// Such as `http://127.0.0.1:8765/mcp`.
    pub address: String,
    /// What it asks for.
    pub token: Option<String>,
}

/// A session.
pub struct Client {
    door: Door,
    session: String,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Door {
    /// An endpoint at this address.
    pub fn new(address: &str, token: Option<&str>) -> Self {
        Self { http: client(), address: address.to_owned(), token: token.map(str::to_owned) }
    }

    /// A port that was free a moment ago.
    pub fn free_port() -> u16 {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
    }

    /// A POST as every client sends it.
    pub fn post(&self, body: &Value) -> RequestBuilder {
        let request = self
            .http
            .post(&self.address)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(body.to_string());
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// The first message of a session.
    pub fn hello() -> Value {
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "an agent", "version": "1"},
        }})
    }

    /// Opens a session and follows its notices.
    pub async fn enters(&self) -> Client {
        let response = self.post(&Self::hello()).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let _result = message(response).await;
        let client = Client { door: self.clone(), session, notices: Arc::default() };
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let response = client.within(self.post(&done)).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        client.follow().await;
        client
    }
}

impl Client {
    fn within(&self, request: RequestBuilder) -> RequestBuilder {
        request.header("mcp-session-id", &self.session).header("mcp-protocol-version", "2025-06-18")
    }

    async fn follow(&self) {
        let request = self.door.http.get(&self.door.address).header("accept", "text/event-stream");
        let request = match &self.door.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        let response = self.within(request).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let notices = self.notices.clone();
        tokio::spawn(async move {
            let mut stream = response.bytes_stream();
            let mut pending = String::new();
            while let Some(Ok(chunk)) = stream.next().await {
                pending.push_str(&String::from_utf8_lossy(&chunk));
                while let Some(end) = pending.find("\n\n") {
                    let event: String = pending.drain(..end + 2).collect();
                    for data in event.lines().filter_map(|line| line.strip_prefix("data: ")) {
                        let message: Value = serde_json::from_str(data).unwrap();
                        notices
                            .lock()
                            .unwrap()
                            .push(message["method"].as_str().unwrap_or_default().to_owned());
                    }
                }
            }
        });
    }

    /// Sends a request and gives its whole answer.
    pub async fn asks(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let response = self.within(self.door.post(&body)).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK, "{method}");
        message(response).await
    }

    /// Sends a request whose answer may never come.
    pub async fn begins(&self, method: &str, params: Value) {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        if let Ok(response) = self.within(self.door.post(&body)).send().await {
            let _ = response.text().await;
        }
    }

    /// Sends a notification.
    pub async fn tells(&self, method: &str, params: Value) {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let response = self.within(self.door.post(&body)).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::ACCEPTED);
    }

    /// The names of the tools it sees now.
    pub async fn tools(&self) -> Vec<String> {
        crate::names(&self.asks("tools/list", json!({})).await["result"]["tools"])
    }

    /// Calls a tool and gives the whole answer.
    pub async fn calls(&self, tool: &str, arguments: Value) -> Value {
        self.asks("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// How many notices of changed tools came so far.
    pub fn notices_of_changed_tools(&self) -> usize {
        let notices = self.notices.lock().unwrap();
        notices.iter().filter(|method| *method == "notifications/tools/list_changed").count()
    }

    /// Waits until there are at least this many notices of changed tools.
    pub async fn hears_of_changed_tools(&self, times: usize) {
        let look = || async { (self.notices_of_changed_tools() >= times).then_some(()) };
        until("a notice that the tools changed", look).await;
    }
}

/// The answer in a response: JSON, or the event of a stream that has an id.
async fn message(response: Response) -> Value {
    let text = response.text().await.unwrap();
    if let Ok(message) = serde_json::from_str(&text) {
        return message;
    }
    let events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let messages = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    messages.into_iter().find(|m| m.get("id").is_some()).unwrap_or_else(|| panic!("no answer in: {text}"))
}
