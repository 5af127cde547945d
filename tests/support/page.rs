//! A browser's page: `evi web` as a process of its own, and a client of its routes.

use std::sync::{Arc, Mutex};

use futures::StreamExt;
use reqwest::{Client, Method, RequestBuilder, StatusCode, header};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::Child,
    task::JoinHandle,
};

use crate::{House, LIMIT, processes, until};

/// A running `evi web`.
pub struct Page {
    child: Child,
    /// Such as `http://127.0.0.1:4711`.
    pub address: String,
    /// What `/api` asks for.
    pub token: String,
    /// A client without the token.
    pub http: Client,
    _stderr: JoinHandle<()>,
}

/// An HTTP client that uses no proxy.
pub(crate) fn client() -> Client {
    // Another test may have been first.
    let _already = rustls::crypto::ring::default_provider().install_default();
    Client::builder().no_proxy().timeout(LIMIT).build().unwrap()
}

impl House {
    /// Starts `evi web` and opens the link that it prints.
    pub async fn opens_page(&self) -> Page {
        let mut child = self.command().args(["web", "--port", "0"]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut stderr = child.stderr.take().unwrap();
        let first = tokio::time::timeout(LIMIT, lines.next_line()).await.expect("a link in time").unwrap();
        let Some(first) = first else {
            let mut said = String::new();
            stderr.read_to_string(&mut said).await.unwrap();
            panic!("evi web ended: {said}");
        };
        let link = first.strip_prefix("open ").unwrap_or_else(|| panic!("no link: {first}"));
        let (address, token) = link.split_once("/#token=").unwrap_or_else(|| panic!("no token: {link}"));
        // A pipe that nobody reads would fill up.
        let drain = tokio::spawn(async move {
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        });
        Page { child, address: address.to_owned(), token: token.to_owned(), http: client(), _stderr: drain }
    }
}

impl Page {
    /// A request with the token.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.address)).bearer_auth(&self.token)
    }

    /// GET with the token.
    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path)).await
    }

    /// POST with the token.
    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path).json(body)).await
    }

    /// Runs a command of the contract that has to work.
    pub async fn does(&self, command: &str, params: Value) -> Value {
        let (status, answer) = self.post(&format!("/api/{command}"), &params).await;
        assert_eq!(status, StatusCode::OK, "{command}: {answer}");
        answer
    }

    /// The server's row once it is in this state.
    pub async fn sees(&self, name: &str, state: &str) -> Value {
        let look = || async {
            let (status, row) = self.post("/api/upstream_get", &json!({"name": name})).await;
            (status == StatusCode::OK && row["state"] == state).then_some(row)
        };
        until(&format!("server {name} to be {state} in the page"), look).await
    }

    /// Follows the page's events from now on.
    pub async fn follows(&self) -> Arc<Mutex<Vec<Value>>> {
        let response = self.request(Method::GET, "/api/events").send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
        let events = Arc::new(Mutex::new(Vec::new()));
        let kept = events.clone();
        let mut stream = response.bytes_stream();
        // The comment that says that the page is connected.
        let first = stream.next().await.unwrap().unwrap();
        assert!(first.starts_with(b":"), "{first:?}");
        tokio::spawn(async move {
            let mut pending = String::new();
            while let Some(Ok(chunk)) = stream.next().await {
                pending.push_str(&String::from_utf8_lossy(&chunk));
                while let Some(end) = pending.find("\n\n") {
                    let event: String = pending.drain(..end + 2).collect();
                    if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data: ")) {
                        kept.lock().unwrap().push(serde_json::from_str(data).unwrap());
                    }
                }
            }
        });
        events
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Ends it as the system does, and gives its exit status.
    pub async fn closes(mut self) -> i32 {
        processes::terminate(self.pid());
        let ended = tokio::time::timeout(LIMIT, self.child.wait()).await.expect("evi web ends in time");
        ended.unwrap().code().unwrap_or(-1)
    }

    /// Ends it without a word.
    pub async fn is_killed(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Sends, and reads the answer as JSON where it is JSON.
async fn answer(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
