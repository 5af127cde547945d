//! How large a window is, as each kind of endpoint tells it.

use axum::{
    Json, Router,
    routing::{get, post},
};
use evi_chat::context_window;
use serde_json::{Value, json};

/// What an endpoint with these routes tells about the model `m`.
async fn told(routes: &[(&'static str, Value)]) -> Option<u32> {
    let mut router = Router::new();
    for (path, answer) in routes {
        let answer = answer.clone();
        let reply = async move || Json(answer);
        router = match *path {
            "/api/show" => router.route(path, post(reply)),
            _ => router.route(path, get(reply)),
        };
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/v1", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let window = context_window(&address, None, "m").await;
    serving.abort();
    window
}

#[tokio::test]
async fn i55_each_kind_of_endpoint_tells_its_window_in_its_own_way() {
    let list = |entry: Value| ("/v1/models", json!({"data": [{"id": "other", "context_length": 1}, entry]}));
    let plain = || list(json!({"id": "m"}));
    assert_eq!(told(&[plain()]).await, None, "what is not told is not guessed");
    assert_eq!(told(&[]).await, None);
    assert_eq!(told(&[list(json!({"id": "m", "context_length": 200_000}))]).await, Some(200_000));
    assert_eq!(told(&[list(json!({"id": "m", "max_model_len": 8192}))]).await, Some(8192));
    let llama = list(json!({"id": "m", "meta": {"n_ctx_train": 131_072, "n_ctx": 4096}}));
    assert_eq!(told(&[llama]).await, Some(4096));
    let props = ("/props", json!({"default_generation_settings": {"n_ctx": 8192}}));
    assert_eq!(told(&[plain(), props]).await, Some(8192), "llama.cpp");
    let studio = |entry: Value| ("/api/v0/models", json!({"data": [entry]}));
    let loaded = json!({"id": "m", "max_context_length": 131_072, "loaded_context_length": 4096});
    assert_eq!(told(&[plain(), studio(loaded)]).await, Some(4096), "LM Studio");
    assert_eq!(told(&[studio(json!({"id": "m", "max_context_length": 32_768}))]).await, Some(32_768));
    let show = |value: Value| ("/api/show", value);
    let info = json!({"llama.context_length": 131_072});
    assert_eq!(told(&[plain(), show(json!({"model_info": info}))]).await, Some(4096), "Ollama's usual");
    let set = json!({"model_info": info, "parameters": "stop \"x\"\nnum_ctx    16384"});
    assert_eq!(told(&[plain(), show(set.clone())]).await, Some(16_384), "set in its Modelfile");
    let running = ("/api/ps", json!({"models": [{"name": "m", "context_length": 65_536}]}));
    assert_eq!(told(&[plain(), show(set), running]).await, Some(65_536), "as it runs now");
    assert_eq!(told(&[list(json!({"id": "m", "context_length": "many"}))]).await, None);
}
