//! Answers requests from a host, the same way on every transport. It decides nothing about a call: the host does.

use std::{panic::AssertUnwindSafe, time::Duration};

use bytes::Bytes;
use evi_domain::{CallContext, CallError, Caller, Progress, Surface, ToolHost, ToolResult};
use futures::FutureExt;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, json, value::RawValue};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    message::{self, Id, Request, RpcError},
    protocol::{self, Era, code, key},
};

/// How long a cancelled call may take to wind up before it is dropped.
const WIND_UP: Duration = Duration::from_secs(1);
/// How many steps of progress wait for a slow reader.
const PROGRESS_WAITING: usize = 64;

/// What is said to a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A result of ours.
    Result(Value),
    /// A tool's result, as it came.
    Tool(ToolResult),
    /// An error.
    Error(RpcError),
    /// Nobody wants to know any more.
    Silence,
}

impl Reply {
    /// The code, where it is an error.
    pub(crate) fn code(&self) -> Option<i64> {
        match self {
            Self::Error(error) => Some(error.code),
            _ => None,
        }
    }

    /// The message; `None` for silence.
    pub(crate) fn encode(&self, id: &Id, era: Era) -> Option<Bytes> {
        Some(match self {
            Self::Result(value) => message::result_message(id, "", &value.to_string()),
            Self::Tool(result) => {
                let raw = result.raw();
                if !message::is_object(raw) {
                    let error = RpcError::new(code::INTERNAL, "the tool's result is not an object");
                    return Some(message::error_message(Some(id), &error));
                }
                let stamp = if era == Era::Modern && !has_result_type(raw) {
                    r#""resultType":"complete""#
                } else {
                    ""
                };
                message::result_message(id, stamp, raw.get())
            }
            Self::Error(error) => message::error_message(Some(id), error),
            Self::Silence => return None,
        })
    }
}

fn has_result_type(raw: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Peek {
        #[serde(rename = "resultType")]
        result_type: Option<IgnoredAny>,
    }
    serde_json::from_str::<Peek>(raw.get()).is_ok_and(|peek| peek.result_type.is_some())
}

/// Who we are.
fn server_info() -> Value {
    json!({"name": "evi", "title": "eVi", "version": env!("CARGO_PKG_VERSION")})
}

/// What we can do. Every list may change, and says so; nothing else is promised.
fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}, "resources": {"listChanged": true}, "prompts": {"listChanged": true}})
}

/// The result of `initialize`.
pub(crate) fn initialize_result(version: &str, surface: &Surface) -> Value {
    let mut result = json!({
        "protocolVersion": version, "capabilities": capabilities(), "serverInfo": server_info(),
    });
    if let Some(text) = &surface.instructions {
        result["instructions"] = Value::from(text.as_str());
    }
    result
}

/// A request with what it takes to answer it.
pub(crate) struct Asked<'a> {
    pub(crate) host: &'a dyn ToolHost,
    pub(crate) caller: &'a Caller,
    pub(crate) era: Era,
    pub(crate) request: Request,
    pub(crate) cancel: CancellationToken,
    /// Where progress goes; without it none is asked for.
    pub(crate) progress: Option<mpsc::Sender<Bytes>>,
}

/// Answers anything but `initialize` and `subscriptions/listen`, which belong to the transport. A panic of the host is
/// an answer, too.
pub(crate) async fn answer(asked: Asked<'_>) -> Reply {
    let method = asked.request.method.clone();
    match AssertUnwindSafe(route(asked)).catch_unwind().await {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => Reply::Error(error),
        Err(_) => {
            tracing::error!(method, "a request panicked");
            Reply::Error(RpcError::new(code::INTERNAL, "internal error"))
        }
    }
}

/// Whether the era has this method.
pub(crate) fn knows(era: Era, method: &str) -> bool {
    match method {
        "tools/list"
        | "tools/call"
        | "resources/list"
        | "resources/read"
        | "resources/templates/list"
        | "prompts/list"
        | "prompts/get"
        | "completion/complete" => true,
        "ping" | "logging/setLevel" => era == Era::Legacy,
        "server/discover" | "subscriptions/listen" => era == Era::Modern,
        _ => false,
    }
}

async fn route(asked: Asked<'_>) -> Result<Reply, RpcError> {
    let (era, request) = (asked.era, &asked.request);
    if !knows(era, &request.method) {
        return Err(RpcError::new(code::METHOD_NOT_FOUND, format!("unknown method: {}", request.method)));
    }
    let surface = || asked.host.surface(asked.caller);
    Ok(Reply::Result(match request.method.as_str() {
        "tools/call" => return call(asked).await,
        "tools/list" => {
            request.params.no_cursor()?;
            let tools: Vec<_> = surface().tools.iter().map(|t| t.def.renamed(&t.name)).collect();
            list(era, "tools", &tools)
        }
        "resources/list" => {
            request.params.no_cursor()?;
            let surface = surface();
            let resources: Vec<_> =
                surface.resources.iter().map(|r| named(&r.def.0, "uri", &r.uri)).collect();
            list(era, "resources", &resources)
        }
        "resources/templates/list" => list::<Value>(era, "resourceTemplates", &[]),
        "prompts/list" => {
            request.params.no_cursor()?;
            let surface = surface();
            let prompts: Vec<_> = surface.prompts.iter().map(|p| named(&p.def.0, "name", &p.name)).collect();
            list(era, "prompts", &prompts)
        }
        "resources/read" => read(&asked).await?,
        "prompts/get" => prompt(&asked).await?,
        "completion/complete" => {
            complete(era, json!({"completion": {"values": [], "total": 0, "hasMore": false}}))
        }
        "server/discover" => discover(&surface()),
        // `ping` and `logging/setLevel`: we send no log messages, so any level is fine.
        _ => json!({}),
    }))
}

/// Stamps a modern result.
fn complete(era: Era, mut result: Value) -> Value {
    if era == Era::Modern {
        result["resultType"] = Value::from("complete");
        result["_meta"] = json!({key::SERVER_INFO: server_info()});
    }
    result
}

/// Stamps a modern result that could be cached. It may change at any time and belongs to this client alone.
fn cacheable(era: Era, result: Value) -> Value {
    let mut result = complete(era, result);
    if era == Era::Modern {
        result["ttlMs"] = Value::from(0);
        result["cacheScope"] = Value::from("private");
    }
    result
}

fn list<T: Serialize>(era: Era, field: &str, items: &[T]) -> Value {
    cacheable(era, json!({field: items}))
}

fn named(def: &serde_json::Map<String, Value>, field: &str, name: &str) -> serde_json::Map<String, Value> {
    let mut def = def.clone();
    def.insert(field.to_owned(), Value::from(name));
    def
}

fn discover(surface: &Surface) -> Value {
    let mut result = json!({"supportedVersions": protocol::SUPPORTED, "capabilities": capabilities()});
    if let Some(text) = &surface.instructions {
        result["instructions"] = Value::from(text.as_str());
    }
    cacheable(Era::Modern, result)
}

async fn read(asked: &Asked<'_>) -> Result<Value, RpcError> {
    let uri = asked.request.params.uri()?;
    let reading = asked.host.read_resource(asked.caller, &uri);
    match unless_cancelled(&asked.cancel, reading).await {
        Ok(body) => Ok(cacheable(
            asked.era,
            json!({"contents": [{"uri": body.uri, "mimeType": body.mime, "text": body.text}]}),
        )),
        Err(CallError::UnknownTool { .. }) => {
            let code = if asked.era == Era::Modern { code::INVALID_PARAMS } else { code::NO_RESOURCE };
            let message = format!("unknown resource: {uri}");
            Err(RpcError { code, message, data: Some(json!({"uri": uri})) })
        }
        Err(error) => Err(as_rpc(error)),
    }
}

async fn prompt(asked: &Asked<'_>) -> Result<Value, RpcError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Arguments {
        args: String,
    }
    let name = asked.request.params.name()?;
    let arguments: Arguments = match asked.request.params.arguments.as_deref() {
        Some(raw) if message::is_object(raw) => {
            serde_json::from_str(raw.get()).map_err(|_| RpcError::params("arguments.args is not a string"))?
        }
        Some(_) => return Err(RpcError::params("arguments is not an object")),
        None => Arguments::default(),
    };
    let getting = asked.host.get_prompt(asked.caller, &name, &arguments.args);
    match unless_cancelled(&asked.cancel, getting).await {
        Ok(prompt) => {
            let content = json!({"type": "text", "text": prompt.text});
            let mut result = json!({"messages": [{"role": "user", "content": content}]});
            if let Some(text) = prompt.description {
                result["description"] = Value::from(text);
            }
            Ok(complete(asked.era, result))
        }
        Err(CallError::UnknownTool { .. }) => Err(RpcError::params(format!("unknown prompt: {name}"))),
        Err(error) => Err(as_rpc(error)),
    }
}

async fn unless_cancelled<T>(
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    cancel.run_until_cancelled(work).await.unwrap_or(Err(CallError::Cancelled))
}

async fn call(asked: Asked<'_>) -> Result<Reply, RpcError> {
    let Asked { host, caller, request, cancel, progress, .. } = asked;
    let name = request.params.name()?;
    let arguments = match request.params.arguments {
        Some(raw) if message::is_object(&raw) => raw,
        Some(_) => return Err(RpcError::params("arguments is not an object")),
        None => empty_object(),
    };
    let wanted = progress.zip(request.meta.progress_token());
    let (steps, mut waiting) = mpsc::channel(PROGRESS_WAITING);
    let context = CallContext { id: None, cancel: cancel.clone(), progress: wanted.as_ref().map(|_| steps) };
    let returned = CancellationToken::new();
    let calling = async {
        let call = host.call(caller, &name, arguments, context);
        tokio::pin!(call);
        let result = tokio::select! {
            result = &mut call => result,
            () = cancel.cancelled() => {
                tokio::time::timeout(WIND_UP, call).await.unwrap_or(Err(CallError::Cancelled))
            }
        };
        returned.cancel();
        result
    };
    // Beside the call and not in a task of its own: every step is on its way before the result is.
    let relaying = async {
        let Some((out, token)) = wanted else { return };
        let mut last = f64::NEG_INFINITY;
        loop {
            let step = tokio::select! {
                biased;
                step = waiting.recv() => step,
                () = returned.cancelled() => {
                    waiting.close();
                    waiting.recv().await
                }
            };
            let Some(step) = step else { return };
            if step.progress > last {
                last = step.progress;
                // A reader that is gone cancels the call by itself where it should.
                let _gone = out.send(progress_notice(token, &step)).await;
            }
        }
    };
    let (result, ()) = tokio::join!(calling, relaying);
    if cancel.is_cancelled() {
        return Ok(Reply::Silence);
    }
    Ok(match result {
        Ok(result) => Reply::Tool(result),
        Err(error) => failed(error),
    })
}

fn empty_object() -> Box<RawValue> {
    // `{}` is JSON; the other arm is never taken.
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn progress_notice(token: &RawValue, step: &Progress) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Params<'a> {
        progress_token: &'a RawValue,
        #[serde(flatten)]
        step: Value,
    }
    let step = serde_json::to_value(step).unwrap_or_default();
    let params = serde_json::to_string(&Params { progress_token: token, step }).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#).into()
}

/// How a call that gave no result is told. What a model can act on is a result that says so; what only a program can
/// act on is an error.
fn failed(error: CallError) -> Reply {
    match error {
        CallError::UnknownTool { .. } | CallError::Rpc { .. } | CallError::Internal { .. } => {
            Reply::Error(as_rpc(error))
        }
        // Cancelled here means by somebody else than this client, which therefore still waits.
        CallError::InvalidArguments { .. }
        | CallError::Forbidden { .. }
        | CallError::Denied { .. }
        | CallError::Unavailable { .. }
        | CallError::TimedOut { .. }
        | CallError::Cancelled => Reply::Tool(ToolResult::error(error.to_string())),
    }
}

fn as_rpc(error: CallError) -> RpcError {
    match error {
        CallError::Rpc { code, message, data } => RpcError { code, message, data },
        CallError::UnknownTool { ref near, .. } if !near.is_empty() => RpcError {
            code: code::INVALID_PARAMS,
            message: format!("{error}; did you mean {}?", near.join(", ")),
            data: Some(json!({"near": near})),
        },
        CallError::UnknownTool { .. } | CallError::InvalidArguments { .. } => {
            RpcError::params(error.to_string())
        }
        CallError::Cancelled => RpcError::new(code::CANCELLED, error.to_string()),
        CallError::Forbidden { .. }
        | CallError::Denied { .. }
        | CallError::Unavailable { .. }
        | CallError::TimedOut { .. } => RpcError::new(code::BUSY, error.to_string()),
        CallError::Internal { .. } => RpcError::new(code::INTERNAL, error.to_string()),
    }
}
