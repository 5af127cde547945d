//! The original's routes under `/api/mcp`, over the commands of the contract; errors as `{detail}`.

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use evi_app::{Problem, contract::Code};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Shared;

pub(crate) fn router() -> Router<Shared> {
    Router::new()
        .route("/api/mcp", get(list).post(add))
        .route("/api/mcp/toggle", post(toggle))
        .route("/api/mcp/remove", post(remove))
}

struct Detail(Problem);

impl IntoResponse for Detail {
    fn into_response(self) -> Response {
        let status = match self.0.code {
            Code::NotFound => StatusCode::NOT_FOUND,
            code if code.http_status() < 500 => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let detail = match &self.0.hint {
            Some(hint) => format!("{}; {hint}", self.0.message),
            None => self.0.message.clone(),
        };
        (status, Json(json!({"detail": detail}))).into_response()
    }
}

async fn list(State(shared): State<Shared>) -> Result<Json<Value>, Detail> {
    let rows = shared.front.call("upstream_list", Value::Null).await.map_err(Detail)?;
    let settings = shared.front.call("settings_get", Value::Null).await.map_err(Detail)?;
    let servers: Vec<Value> = rows.as_array().into_iter().flatten().map(server).collect();
    Ok(Json(json!({"enabled": settings["mcp_on"], "allowlist": settings["mcp_allow"], "servers": servers})))
}

/// A server in the original's words, with ours beside them.
fn server(row: &Value) -> Value {
    json!({
        "name": row["name"], "command": row["command"], "args": row["args"], "env_keys": row["env_keys"],
        "on": row["enabled"], "plugin": row["plugin"], "allowed": row["state"] != "blocked",
        "transport": row["transport"], "url": row["url"], "header_keys": row["header_keys"],
        "status": row["state"], "tools": row["tools"], "problem": row["problem"],
    })
}

#[derive(Deserialize)]
struct Add {
    name: String,
    #[serde(default)]
    command: String,
    #[serde(default)]
    args: Value,
    #[serde(default)]
    env: Map<String, Value>,
    #[serde(default)]
    url: String,
    #[serde(default)]
    headers: Map<String, Value>,
}

async fn add(State(shared): State<Shared>, body: Bytes) -> Result<Json<Value>, Detail> {
    let body: Add = read(&body)?;
    let args = match body.args {
        Value::Null => Vec::new(),
        Value::String(line) => evi_app::split_line(&line).map_err(Detail)?,
        Value::Array(list) => list
            .into_iter()
            .map(|arg| match arg {
                Value::String(text) => Ok(text),
                other => Err(invalid(format!("an argument is not a text: {other}"))),
            })
            .collect::<Result<_, _>>()?,
        other => return Err(invalid(format!("args is neither a text nor a list: {other}"))),
    };
    let values = |map: Map<String, Value>| -> Vec<Value> {
        map.into_iter()
            .map(|(key, value)| {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                json!({"key": key, "value": text, "secret": true})
            })
            .collect()
    };
    let transport = if body.url.is_empty() { "stdio" } else { "http" };
    let draft = json!({
        "name": body.name, "transport": transport, "command": body.command, "args": args, "url": body.url,
        "env": values(body.env), "headers": values(body.headers),
    });
    let added = shared.front.call("upstream_add", json!({"draft": draft})).await.map_err(Detail)?;
    Ok(Json(json!({"ok": true, "name": added["name"]})))
}

#[derive(Deserialize)]
struct Toggle {
    name: String,
    on: bool,
}

async fn toggle(State(shared): State<Shared>, body: Bytes) -> Result<Json<Value>, Detail> {
    let body: Toggle = read(&body)?;
    let params = json!({"name": body.name, "enabled": body.on});
    shared.front.call("upstream_set_enabled", params).await.map_err(Detail)?;
    Ok(Json(json!({"ok": true})))
}

#[derive(Deserialize)]
struct Remove {
    name: String,
}

async fn remove(State(shared): State<Shared>, body: Bytes) -> Result<Json<Value>, Detail> {
    let body: Remove = read(&body)?;
    shared.front.call("upstream_remove", json!({"name": body.name})).await.map_err(Detail)?;
    Ok(Json(json!({"ok": true})))
}

/// Whatever the content type says: a body that is not clear is answered like every other mistake.
fn read<T: serde::de::DeserializeOwned>(body: &Bytes) -> Result<T, Detail> {
    let value: Value =
        serde_json::from_slice(body).map_err(|e| invalid(format!("the body is not JSON: {e}")))?;
    serde_json::from_value(value).map_err(|e| invalid(e.to_string()))
}

fn invalid(message: String) -> Detail {
    Detail(Problem::new(Code::InvalidInput, message))
}
