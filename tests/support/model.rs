//! A model behind an OpenAI-compatible endpoint that says what the test wrote for it, and keeps what it was asked.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response, Sse, sse::Event},
    routing::{get, post},
};
use futures::{Stream, StreamExt, stream};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{House, until};

/// What the model says next.
pub enum Reply {
    /// An answer, in two pieces.
    Says(&'static str),
    /// A call of a tool by the name that the model sees.
    Calls(&'static str, Value),
    /// A beginning, and then nothing more until whoever asked hangs up.
    Begins(&'static str),
    /// A failure.
    Fails(StatusCode),
}

/// The endpoint.
pub struct Model {
    shared: Arc<Shared>,
    /// Such as `http://127.0.0.1:4711/v1`.
    pub address: String,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<Value>>,
    keys: Mutex<Vec<String>>,
    hung_up: AtomicUsize,
}

/// Counts a stream that nobody reads any more.
struct HangUp(Arc<Shared>);

impl Drop for HangUp {
    fn drop(&mut self) {
        self.0.hung_up.fetch_add(1, Ordering::SeqCst);
    }
}

impl Model {
    /// Starts it with what it will say.
    pub async fn that(replies: impl IntoIterator<Item = Reply>) -> Self {
        let shared =
            Arc::new(Shared { replies: Mutex::new(replies.into_iter().collect()), ..Shared::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/v1", listener.local_addr().unwrap());
        let router = Router::new()
            .route("/v1/models", get(async || Json(json!({"data": [{"id": "small"}]}))))
            .route("/v1/chat/completions", post(complete))
            .with_state(shared.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { shared, address, serving }
    }

    /// What it was asked, oldest first.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// What it was told in the last request, message by message.
    pub fn last_messages(&self) -> Vec<Value> {
        let requests = self.requests();
        requests.last().expect("a request")["messages"].as_array().unwrap().clone()
    }

    /// The keys that were sent.
    pub fn keys(&self) -> Vec<String> {
        self.shared.keys.lock().unwrap().clone()
    }

    /// Lets it say more.
    pub fn then(&self, reply: Reply) {
        self.shared.replies.lock().unwrap().push_back(reply);
    }

    /// Waits until whoever asked hung up in the middle of an answer.
    pub async fn is_hung_up_on(&self) {
        until("the answer's stream to be ended", || async {
            (self.shared.hung_up.load(Ordering::SeqCst) > 0).then_some(())
        })
        .await;
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl House {
    /// With this model under Settings, and the servers on.
    #[must_use]
    pub fn with_model(self, model: &Model) -> Self {
        let config =
            format!("[tools]\nmcp = true\n\n[llm]\nbase_url = \"{}\"\nmodel = \"small\"\n", model.address);
        self.with_config(&config)
    }
}

async fn complete(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Json(request): Json<Value>,
) -> Response {
    let key = headers.get("authorization").and_then(|v| v.to_str().ok()).unwrap_or_default();
    shared.keys.lock().unwrap().push(key.to_owned());
    shared.requests.lock().unwrap().push(request);
    let reply = shared.replies.lock().unwrap().pop_front();
    match reply {
        Some(Reply::Says(text)) => {
            let (begin, end) = text.split_at(text.len() / 2);
            events(vec![content(begin), content(end), finish("stop")]).into_response()
        }
        Some(Reply::Calls(name, arguments)) => {
            let call = json!({"index": 0, "id": "call_1", "type": "function",
                "function": {"name": name, "arguments": arguments.to_string()}});
            events(vec![chunk(json!({"tool_calls": [call]}), None), finish("tool_calls")]).into_response()
        }
        Some(Reply::Begins(text)) => {
            let hang_up = HangUp(shared);
            let begun =
                stream::iter(vec![Ok::<_, Infallible>(Event::default().data(content(text).to_string()))]);
            let never = stream::once(async move {
                let _hang_up = hang_up;
                std::future::pending().await
            });
            Sse::new(begun.chain(never)).into_response()
        }
        Some(Reply::Fails(status)) => {
            (status, Json(json!({"error": {"message": "the model is not well"}}))).into_response()
        }
        None => (StatusCode::IM_A_TEAPOT, "the test wrote no more answers").into_response(),
    }
}

fn events(chunks: Vec<Value>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let done = std::iter::once("[DONE]".to_owned());
    let data = chunks.into_iter().map(|chunk| chunk.to_string()).chain(done);
    Sse::new(stream::iter(data.map(|data| Ok(Event::default().data(data))).collect::<Vec<_>>()))
}

fn content(text: &str) -> Value {
    chunk(json!({"role": "assistant", "content": text}), None)
}

fn finish(reason: &str) -> Value {
    chunk(json!({}), Some(reason))
}

fn chunk(delta: impl Into<Value>, finish: Option<&str>) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "small",
        "choices": [{"index": 0, "delta": delta.into(), "finish_reason": finish}]})
}
