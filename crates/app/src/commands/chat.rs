//! Conversations and approvals.

use std::{sync::Arc, time::Duration};

use evi_chat::{Endpoint, Limits, OpenAiCompatible, TurnSettings};
use evi_contract::*;
use evi_domain::{CallId, Caller, ChatId, KeptResults as _};

use crate::{App, commands::settings, problem};

pub async fn chat_list(app: &App, _: Nothing) -> Result<Vec<ChatRow>, Problem> {
    let chats = app.chats.clone();
    let heads = problem::blocking(move || chats.chat_list()).await?;
    Ok(heads
        .into_iter()
        .map(|head| ChatRow {
            running: app.turns.is_running(&head.id),
            id: head.id.to_string(),
            title: head.title,
            updated_ms: head.updated_ms,
        })
        .collect())
}

pub async fn chat_get(app: &App, params: ChatRef) -> Result<ChatView, Problem> {
    app.turns.chat(&ChatId::new(params.chat)).await
}

pub async fn chat_send(app: &App, params: ChatSend) -> Result<ChatSent, Problem> {
    let text = params.text.trim().to_owned();
    if text.is_empty() {
        return Err(Problem::new(Code::InvalidInput, "the message is empty").field("text"));
    }
    if text.starts_with("/call") {
        // Before anything is kept: a line that is not clear begins nothing.
        let command = app.turns.read_command(&text).await?;
        let chat = app.turns.open(params.chat.as_deref(), &text).await?;
        let config = &app.config.current().config;
        let limits = Limits::of(config.llm.context_size, config.tools.mcp_max_output_chars);
        let turn = app.turns.command(&chat, &text, command, limits).await?;
        return Ok(ChatSent { chat: chat.to_string(), turn: turn.to_string() });
    }
    // Before anything is kept: without a model nothing would answer.
    let endpoint = settings::endpoint(app).await?;
    let chat = app.turns.open(params.chat.as_deref(), &text).await?;
    let config = app.config.current().config.clone();
    let llm = &config.llm;
    let window = match llm.context_size.filter(|tokens| *tokens > 0) {
        Some(said) => Some(said),
        None => app.windows.of(&endpoint).await,
    };
    let settings = TurnSettings {
        temperature: llm.temperature,
        max_tokens: llm.max_tokens,
        limits: Limits::of(window, config.tools.mcp_max_output_chars),
        ..TurnSettings::default()
    };
    let model = Arc::new(OpenAiCompatible::new(Endpoint {
        base_url: endpoint.base_url,
        api_key: endpoint.key,
        model: endpoint.model,
        request_timeout: Duration::from_secs(llm.request_timeout.filter(|s| *s > 0).unwrap_or(120)),
    }));
    let turn = app.turns.begin(&chat, text, model, settings).await?;
    Ok(ChatSent { chat: chat.to_string(), turn: turn.to_string() })
}

pub async fn chat_stop(app: &App, params: ChatRef) -> Result<Nothing, Problem> {
    app.turns.stop(&ChatId::new(params.chat));
    Ok(Nothing {})
}

pub async fn chat_rename(app: &App, params: ChatRename) -> Result<Nothing, Problem> {
    let title = params.title.trim().to_owned();
    if title.is_empty() {
        return Err(Problem::new(Code::InvalidInput, "the title is empty").field("title"));
    }
    let (chats, chat) = (app.chats.clone(), ChatId::new(params.chat));
    problem::blocking(move || chats.chat_rename(&chat, &title)).await?;
    Ok(Nothing {})
}

pub async fn chat_delete(app: &App, params: ChatRef) -> Result<Nothing, Problem> {
    let chat = ChatId::new(params.chat);
    app.turns.stop(&chat);
    app.approvals.forget_chat(&chat);
    let (chats, results) = (app.chats.clone(), app.results.clone());
    problem::blocking(move || {
        chats.chat_delete(&chat)?;
        results.forget(&Caller::Chat { chat });
        Ok::<_, evi_store::StoreError>(())
    })
    .await?;
    Ok(Nothing {})
}

pub async fn approval_list(app: &App, _: Nothing) -> Result<Vec<ApprovalView>, Problem> {
    Ok(app.approvals.list())
}

pub async fn approval_answer(app: &App, params: ApprovalAnswer) -> Result<Nothing, Problem> {
    if app.approvals.answer(&CallId::new(params.call), params.answer) {
        Ok(Nothing {})
    } else {
        Err(Problem::new(Code::NotFound, "this call does not wait for an answer any more"))
    }
}
