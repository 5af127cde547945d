//! Models behind the OpenAI chat interface, as Ollama, LM Studio, llama.cpp and most providers offer it.

use std::{collections::VecDeque, fmt, time::Duration};

use evi_domain::Secret;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use genai::{
    Client, Headers, ModelIden, ModelSpec, ServiceTarget,
    adapter::AdapterKind,
    chat::{
        ChatMessage, ChatOptions, ChatRequest, ChatStreamEvent, ContentPart, MessageContent, ReasoningEffort,
        StopReason as GenaiStop, Tool, ToolCall, ToolResponse,
    },
    resolver::AuthData,
    webc::StreamTimeout,
};
use reqwest::{StatusCode, Url};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    ModelClient, ModelError, ModelEvent, ModelMessage, ModelRequest, StopReason, Usage, error::excerpt, http,
    pieces::Calls,
};

/// Where a model is.
#[derive(Clone)]
pub struct Endpoint {
    /// Such as `http://127.0.0.1:11434/v1`.
    pub base_url: String,
    /// The key, where one is needed.
    pub api_key: Option<Secret>,
    /// The model's name as the provider spells it.
    pub model: String,
    /// How long to wait for the first and for each further part of an answer.
    pub request_timeout: Duration,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("base_url", &http::shown(&self.base_url))
            .field("api_key", &self.api_key)
            .field("model", &self.model)
            .field("request_timeout", &self.request_timeout)
            .finish()
    }
}

/// A model at an [`Endpoint`].
#[derive(Debug)]
pub struct OpenAiCompatible {
    endpoint: Endpoint,
    // Kept as it came out, so that a bad address is an answer like every other failure.
    ready: Result<Ready, ModelError>,
}

struct Ready {
    client: Client,
    base: Url,
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ready")
    }
}

impl OpenAiCompatible {
    /// A client for one model. Nothing is sent yet; a base URL that is none shows when it is used.
    pub fn new(endpoint: Endpoint) -> Self {
        let ready = http::base_url(&endpoint.base_url).and_then(|base| {
            let wrapped = Client::builder().with_reqwest(http::client(&base)?).build();
            let client = wrapped.map_err(|e| ModelError::Protocol { reason: e.to_string() })?;
            Ok(Ready { client, base })
        });
        Self { endpoint, ready }
    }

    fn context(&self, base: &Url) -> Context {
        Context {
            url: http::shown(base.as_str()),
            key: self.endpoint.api_key.clone(),
            timeout: self.endpoint.request_timeout,
        }
    }

    fn target(&self, base: &Url) -> ModelSpec {
        let headers = match self.endpoint.api_key.as_ref().filter(|key| !key.is_empty()) {
            Some(key) => {
                Headers::from(("Authorization".to_owned(), format!("Bearer {}", key.expose().trim())))
            }
            None => Headers::default(),
        };
        // The override is the library's way to send no header where there is no key.
        let auth = AuthData::RequestOverride { url: http::under(base, "chat/completions").into(), headers };
        ModelSpec::from_target(ServiceTarget {
            endpoint: genai::resolver::Endpoint::from_owned(format!("{base}/")),
            auth,
            model: ModelIden::new(AdapterKind::OpenAI, self.endpoint.model.clone()),
        })
    }

    fn options(&self, request: &ModelRequest) -> ChatOptions {
        let mut options = ChatOptions::default()
            .with_capture_usage(true)
            .with_stream_header_timeout(self.endpoint.request_timeout)
            .with_stream_read_timeout(self.endpoint.request_timeout)
            // The library reads an effort out of names such as `qwen-max` and cuts it off. A budget is not sent by
            // this adapter and keeps it from doing so; the body then has the model's name as it is.
            .with_reasoning_effort(ReasoningEffort::Budget(0))
            .with_extra_body(json!({ "model": self.endpoint.model }));
        options.temperature = request.temperature;
        options.max_tokens = request.max_tokens;
        options
    }
}

impl ModelClient for OpenAiCompatible {
    fn stream(
        &self,
        request: ModelRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let Ready { client, base } = match &self.ready {
            Ok(ready) => ready,
            Err(problem) => {
                let problem = Err(problem.clone());
                return stream::once(async { problem }).boxed();
            }
        };
        let (client, target, options) = (client.clone(), self.target(base), self.options(&request));
        let context = self.context(base);
        let opened = async move {
            match client.exec_chat_stream(target, chat_request(request), Some(&options)).await {
                Ok(response) => Answer::new(response.stream, context).into_stream(),
                Err(problem) => {
                    let problem = Err(context.translate(&problem));
                    stream::once(async { problem }).boxed()
                }
            }
        };
        stream::once(opened).flatten().take_until(cancel.cancelled_owned()).boxed()
    }
}

fn chat_request(request: ModelRequest) -> ChatRequest {
    let messages = request.messages.into_iter().map(|message| match message {
        ModelMessage::User(text) => ChatMessage::user(text),
        ModelMessage::Assistant { text, calls } => {
            let text = (!text.is_empty()).then_some(ContentPart::Text(text));
            let calls = calls.into_iter().map(|call| {
                ContentPart::ToolCall(ToolCall {
                    call_id: call.model_id,
                    fn_name: call.name,
                    fn_arguments: call.arguments,
                    thought_signatures: None,
                })
            });
            ChatMessage::assistant(MessageContent::from_parts(
                text.into_iter().chain(calls).collect::<Vec<_>>(),
            ))
        }
        ModelMessage::Tool { model_id, name, text } => {
            ChatMessage::from(ToolResponse::new(model_id, text).with_fn_name(name))
        }
    });
    let mut chat = ChatRequest::new(messages.collect());
    chat.system = request.system;
    if !request.tools.is_empty() {
        let tools = request.tools.into_iter();
        chat = chat.with_tools(
            tools.map(|t| Tool::new(t.name).with_description(t.description).with_schema(t.schema)),
        );
    }
    chat
}

/// What is needed to put a failure into words.
struct Context {
    url: String,
    key: Option<Secret>,
    timeout: Duration,
}

impl Context {
    fn translate(&self, error: &genai::Error) -> ModelError {
        if let genai::Error::WebStream { error, .. } = error {
            if let Some(inner) = error.downcast_ref::<genai::Error>() {
                return self.translate(inner);
            }
            if error.downcast_ref::<StreamTimeout>().is_some() {
                return ModelError::Timeout { after: self.timeout };
            }
            if let Some(problem) = error.downcast_ref::<reqwest::Error>() {
                return self.web(problem);
            }
            return ModelError::Protocol { reason: self.words(&error.to_string()) };
        }
        match error {
            genai::Error::HttpError { status, body, headers, .. } => {
                let wait = headers.get("retry-after").and_then(|v| v.to_str().ok());
                self.status(*status, body, wait.and_then(|v| v.trim().parse().ok()))
            }
            genai::Error::ChatResponse { body, .. } => {
                ModelError::Protocol { reason: format!("it broke off: {}", self.words(&body.to_string())) }
            }
            genai::Error::StreamParse { serde_error, .. } => {
                ModelError::Protocol { reason: format!("not JSON: {serde_error}") }
            }
            other => ModelError::Protocol { reason: self.words(&other.to_string()) },
        }
    }

    fn web(&self, problem: &reqwest::Error) -> ModelError {
        if problem.is_connect() {
            ModelError::Unreachable { url: self.url.clone(), reason: self.words(&http::reason(problem)) }
        } else if problem.is_timeout() {
            ModelError::Timeout { after: self.timeout }
        } else {
            let reason = format!("the connection broke off: {}", self.words(&http::reason(problem)));
            ModelError::Protocol { reason }
        }
    }

    fn status(&self, status: StatusCode, body: &str, retry_after: Option<u64>) -> ModelError {
        status_error(status, &self.url, self.words(body), retry_after)
    }

    fn words(&self, text: &str) -> String {
        excerpt(text, self.key.as_ref().map(Secret::expose))
    }
}

pub(crate) fn status_error(
    status: StatusCode,
    url: &str,
    body_excerpt: String,
    retry_after: Option<u64>,
) -> ModelError {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ModelError::Unauthorized { url: url.to_owned() },
        StatusCode::TOO_MANY_REQUESTS => {
            ModelError::RateLimited { retry_after: retry_after.map(Duration::from_secs), body_excerpt }
        }
        _ => ModelError::Http { status: status.as_u16(), body_excerpt },
    }
}

/// An answer on its way.
struct Answer {
    inner: genai::chat::ChatStream,
    context: Context,
    calls: Calls,
    ready: VecDeque<Result<ModelEvent, ModelError>>,
    over: bool,
}

impl Answer {
    fn new(inner: genai::chat::ChatStream, context: Context) -> Self {
        Self { inner, context, calls: Calls::default(), ready: VecDeque::new(), over: false }
    }

    fn into_stream(self) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        stream::unfold(self, |mut answer| async move {
            loop {
                if let Some(event) = answer.ready.pop_front() {
                    return Some((event, answer));
                }
                if answer.over {
                    return None;
                }
                let next = answer.inner.next().await;
                answer.take(next);
            }
        })
        .boxed()
    }

    fn take(&mut self, next: Option<genai::Result<ChatStreamEvent>>) {
        match next {
            Some(Ok(ChatStreamEvent::Chunk(chunk))) => {
                self.ready.push_back(Ok(ModelEvent::Text(chunk.content)));
            }
            Some(Ok(ChatStreamEvent::ReasoningChunk(chunk))) => {
                self.ready.push_back(Ok(ModelEvent::Reasoning(chunk.content)));
            }
            Some(Ok(ChatStreamEvent::ToolCallChunk(chunk))) => {
                if let Err(problem) = self.calls.take(chunk.tool_call) {
                    self.fail(problem);
                }
            }
            Some(Ok(ChatStreamEvent::End(end))) => {
                self.over = true;
                let calls = std::mem::take(&mut self.calls).finish();
                self.ready.extend(calls.into_iter().map(|call| Ok(ModelEvent::Call(call))));
                if let Some(usage) = end.captured_usage {
                    let count = |n: Option<i32>| n.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
                    self.ready.push_back(Ok(ModelEvent::Usage(Usage {
                        input_tokens: count(usage.prompt_tokens),
                        output_tokens: count(usage.completion_tokens),
                    })));
                }
                self.ready
                    .push_back(Ok(ModelEvent::End { stop_reason: stop_reason(end.captured_stop_reason) }));
            }
            Some(Ok(_)) => {}
            Some(Err(problem)) => {
                let problem = self.context.translate(&problem);
                self.fail(problem);
            }
            None => self.fail(ModelError::Protocol { reason: "it ended before it was complete".to_owned() }),
        }
    }

    fn fail(&mut self, problem: ModelError) {
        self.over = true;
        self.ready.push_back(Err(problem));
    }
}

fn stop_reason(reason: Option<GenaiStop>) -> StopReason {
    match reason {
        None | Some(GenaiStop::Completed(_) | GenaiStop::StopSequence(_)) => StopReason::Done,
        Some(GenaiStop::ToolCall(_)) => StopReason::Calls,
        Some(GenaiStop::MaxTokens(_)) => StopReason::Length,
        Some(GenaiStop::ContentFilter(_)) => StopReason::Filter,
        Some(GenaiStop::Other(word)) => StopReason::Other(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_says_nothing_of_the_key() {
        let endpoint = Endpoint {
            base_url: "http://me:sk-one@127.0.0.1:1/v1?key=sk-two".to_owned(),
            api_key: Some(Secret::new("sk-three")),
            model: "m".to_owned(),
            request_timeout: Duration::from_secs(1),
        };
        let shown = format!("{endpoint:?} {:?}", OpenAiCompatible::new(endpoint.clone()));
        assert!(!shown.contains("sk-"), "{shown}");
    }
}
