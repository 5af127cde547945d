//! A model provider for tests: says over HTTP what it was told to say, and keeps what it was asked.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::Response,
    routing::{get, post},
};
use evi_chat::{Endpoint, OpenAiCompatible};
use evi_domain::Secret;
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_stream::wrappers::ReceiverStream;

pub const KEY: &str = "sk-test-4711-never-shown";

/// One answer of the provider.
pub enum Reply {
    /// These chunks as events, then `[DONE]`.
    Chunks(Vec<Value>),
    /// These chunks, then nothing but comments until the client goes.
    ThenHang(Vec<Value>),
    /// These chunks, then the end without `[DONE]`.
    Broken(Vec<Value>),
    /// A refusal.
    Status(u16, Vec<(&'static str, &'static str)>, String),
    /// No answer at all.
    Silence,
}

/// A chunk with a delta.
pub fn delta(delta: &Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "model": "m",
           "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}
/// A chunk of text.
pub fn text(text: &str) -> Value {
    delta(&json!({ "content": text }))
}
/// The last chunk.
pub fn finish(reason: &str) -> Value {
    json!({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}
/// The chunk with the costs.
pub fn usage(input: u32, output: u32) -> Value {
    json!({"id": "c", "choices": [], "usage": {"prompt_tokens": input, "completion_tokens": output,
           "total_tokens": input + output}})
}
/// A whole answer of text.
pub fn says(words: &str) -> Reply {
    Reply::Chunks(vec![text(words), finish("stop")])
}
/// A whole answer of calls, each cut into pieces as OpenAI does.
pub fn calls(list: &[(&str, &str, &str)]) -> Reply {
    let mut chunks = Vec::new();
    for (index, (id, name, arguments)) in list.iter().enumerate() {
        chunks.push(delta(&json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                                                "function": {"name": name, "arguments": ""}}]})));
        let (head, tail) = arguments.split_at(arguments.len() / 2);
        for part in [head, tail] {
            chunks.push(delta(&json!({"tool_calls": [{"index": index, "function": {"arguments": part}}]})));
        }
    }
    chunks.push(finish("tool_calls"));
    Reply::Chunks(chunks)
}

#[derive(Default)]
struct Script {
    replies: VecDeque<Reply>,
    asked: Vec<Value>,
    keys: Vec<Option<String>>,
}

#[derive(Clone)]
struct Shared {
    script: Arc<Mutex<Script>>,
    /// Counts the clients that went away in the middle of an answer.
    gone: watch::Sender<usize>,
}

/// The provider; it ends when it is dropped.
pub struct Emulator {
    shared: Shared,
    port: u16,
    server: JoinHandle<()>,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Emulator {
    pub async fn start(replies: Vec<Reply>) -> Self {
        let script = Script { replies: replies.into(), ..Script::default() };
        let shared = Shared { script: Arc::new(Mutex::new(script)), gone: watch::Sender::new(0) };
        let router = Router::new()
            .route("/v1/chat/completions", post(complete))
            .route("/v1/models", get(models))
            .with_state(shared.clone());
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { shared, port, server }
    }
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }
    pub fn model(&self) -> OpenAiCompatible {
        self.model_named("qwen-max")
    }
    pub fn model_named(&self, model: &str) -> OpenAiCompatible {
        OpenAiCompatible::new(Endpoint {
            base_url: self.base_url(),
            api_key: Some(Secret::new(KEY)),
            model: model.to_owned(),
            request_timeout: Duration::from_secs(5),
        })
    }
    /// Every request's body so far.
    pub fn asked(&self) -> Vec<Value> {
        self.shared.script.lock().unwrap().asked.clone()
    }
    /// The `Authorization` of every request so far.
    pub fn keys(&self) -> Vec<Option<String>> {
        self.shared.script.lock().unwrap().keys.clone()
    }
    /// Waits until a client went away in the middle of an answer.
    pub async fn client_gone(&self) {
        let mut gone = self.shared.gone.subscribe();
        tokio::time::timeout(Duration::from_secs(5), gone.wait_for(|n| *n > 0)).await.unwrap().unwrap();
    }
}

async fn complete(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let reply = {
        let mut script = shared.script.lock().unwrap();
        script.asked.push(serde_json::from_slice(&body).unwrap());
        script.keys.push(headers.get(header::AUTHORIZATION).map(|v| v.to_str().unwrap().to_owned()));
        script.replies.pop_front().expect("asked more often than expected")
    };
    let (chunks, done, hang) = match reply {
        Reply::Chunks(chunks) => (chunks, true, false),
        Reply::ThenHang(chunks) => (chunks, false, true),
        Reply::Broken(chunks) => (chunks, false, false),
        Reply::Silence => std::future::pending().await,
        Reply::Status(status, headers, body) => {
            let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
            for (name, value) in headers {
                response = response.header(name, value);
            }
            return response.body(Body::from(body)).unwrap();
        }
    };
    let (sender, receiver) = mpsc::channel::<Result<String, std::io::Error>>(1);
    tokio::spawn(async move {
        let mut lines: Vec<String> = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        lines.insert(0, ": a comment, as some providers send it\n\n".to_owned());
        if done {
            lines.push("data: [DONE]\n\n".to_owned());
        }
        for line in lines {
            if sender.send(Ok(line)).await.is_err() {
                return;
            }
        }
        // A comment now and then, or the end of the connection would not be seen.
        while hang && sender.send(Ok(": still here\n\n".to_owned())).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if hang {
            shared.gone.send_modify(|n| *n += 1);
        }
    });
    Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        .body(Body::from_stream(ReceiverStream::new(receiver)))
        .unwrap()
}

async fn models(headers: HeaderMap) -> Response {
    if headers.get(header::AUTHORIZATION).is_some_and(|v| v != format!("Bearer {KEY}").as_str()) {
        let body = format!("wrong key: {}", headers[header::AUTHORIZATION].to_str().unwrap());
        return Response::builder().status(401).body(Body::from(body)).unwrap();
    }
    let list = json!({"object": "list", "data": [{"id": "llama3", "object": "model"}, {"id": "qwen-max"}]});
    Response::new(Body::from(list.to_string()))
}
