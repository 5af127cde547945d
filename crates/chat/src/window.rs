//! How large a model's window is, where its endpoint tells. A guess is never made here: what is not told is not known.

use std::time::Duration;

use evi_domain::Secret;
use reqwest::Url;
use serde_json::{Value, json};

use crate::{endpoints::get, http};

/// How long the endpoint may take to tell.
const ASK: Duration = Duration::from_secs(2);
/// What Ollama runs a model with when nobody says otherwise, on a machine without much video memory. It cuts what is
/// longer without a word, so what the model itself could take does not count until it is loaded with it.
const OLLAMA_USUAL: u32 = 4096;

/// The window of a model in tokens, as its endpoint tells: the list of models (OpenRouter, vLLM and others), and on a
/// server of one's own network LM Studio's, llama.cpp's and Ollama's own routes. The narrowest that is in effect wins.
pub async fn context_window(base_url: &str, api_key: Option<&Secret>, model: &str) -> Option<u32> {
    let base = http::base_url(base_url).ok()?;
    tokio::time::timeout(ASK, ask(&base, api_key, model)).await.ok()?
}

async fn ask(base: &Url, api_key: Option<&Secret>, model: &str) -> Option<u32> {
    let client = http::client(base).ok()?;
    let told = async |request: reqwest::RequestBuilder| -> Option<Value> {
        serde_json::from_slice(&get(request, base, api_key).await.ok()?).ok()
    };
    let list = told(client.get(http::under(base, "models")));
    // The routes of local servers; a provider on the internet has none of them.
    let own = base.scheme() == "http";
    let root = |path: &str| {
        let mut url = base.clone();
        url.set_path(path);
        url
    };
    let local = async |request: reqwest::RequestBuilder| if own { told(request).await } else { None };
    let name = json!({ "model": model });
    let (list, studio, props, running, shown) = tokio::join!(
        list,
        local(client.get(root("/api/v0/models"))),
        local(client.get(root("/props"))),
        local(client.get(root("/api/ps"))),
        local(client.post(root("/api/show")).json(&name)),
    );
    of_studio(studio.as_ref(), model)
        .or_else(|| of_props(props.as_ref()))
        .or_else(|| of_ollama(running.as_ref(), shown.as_ref(), model))
        .or_else(|| of_list(list.as_ref(), model))
}

fn tokens(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0)
}

fn first(entry: &Value, keys: &[&str]) -> Option<u32> {
    keys.iter().find_map(|key| tokens(&entry[*key]))
}

fn find<'v>(list: &'v Value, keys: &[&str], model: &str) -> Option<&'v Value> {
    list.as_array()?.iter().find(|entry| keys.iter().any(|key| entry[*key] == model))
}

fn of_list(list: Option<&Value>, model: &str) -> Option<u32> {
    let entry = find(&list?["data"], &["id"], model)?;
    first(&entry["meta"], &["n_ctx"]).or_else(|| {
        first(entry, &["context_length", "max_model_len", "context_window", "max_context_length"])
    })
}

fn of_studio(list: Option<&Value>, model: &str) -> Option<u32> {
    let entry = find(&list?["data"], &["id"], model)?;
    first(entry, &["loaded_context_length", "max_context_length"])
}

fn of_props(props: Option<&Value>) -> Option<u32> {
    first(&props?["default_generation_settings"], &["n_ctx"])
}

fn of_ollama(running: Option<&Value>, shown: Option<&Value>, model: &str) -> Option<u32> {
    let loaded = running.and_then(|running| find(&running["models"], &["name", "model"], model));
    if let Some(now) = loaded.and_then(|entry| tokens(&entry["context_length"])) {
        return Some(now);
    }
    let shown = shown?;
    let parameters = shown["parameters"].as_str().unwrap_or_default();
    let set = parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
    set.or_else(|| {
        let info = shown["model_info"].as_object()?;
        let most = info.iter().find(|(key, _)| key.ends_with(".context_length"))?;
        tokens(most.1).map(|most| most.min(OLLAMA_USUAL))
    })
}
