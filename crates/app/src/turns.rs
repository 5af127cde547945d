//! Running turns: starts them, keeps what they said, and passes their steps on as events. It neither talks to a
//! model nor runs a tool itself.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use evi_chat::{
    Desk, EndReason, Ended, Limits, ModelClient, TurnEvent, TurnEvents, TurnSettings, tool_message,
};
use evi_contract::{CallRow, ChatView, Code, MessageView, Problem, Tag, TurnEventView};
use evi_domain::{
    BoxFuture, CallContext, CallId, Caller, ChatId, KeptResults, MessageId, ToolHost, TurnId,
    chat::{ChatHead, Message, ModelCall, Role},
};
use evi_store::ChatStore;
use serde_json::{Map, Value, value::RawValue};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    approvals::Approvals,
    arguments,
    commands::tool::PREVIEW_CHARS,
    events::Events,
    guard::{Guard, now_ms, server_of},
    parse, problem, schema,
};

/// A turn that runs.
struct Running {
    turn: TurnId,
    cancel: CancellationToken,
    /// The answer so far.
    text: String,
}

/// A line that was understood: which tool, with what.
pub struct Command {
    tool: String,
    arguments: Map<String, Value>,
}

/// The turns of all conversations; at most one runs in each.
pub struct Turns {
    chats: ChatStore,
    guard: Arc<Guard>,
    approvals: Arc<Approvals>,
    events: Events,
    results: Arc<dyn KeptResults>,
    running: Mutex<HashMap<ChatId, Running>>,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

impl Turns {
    /// None running.
    pub fn new(
        chats: ChatStore,
        guard: Arc<Guard>,
        approvals: Arc<Approvals>,
        events: Events,
        results: Arc<dyn KeptResults>,
        tasks: TaskTracker,
        cancel: CancellationToken,
    ) -> Self {
        Self { chats, guard, approvals, events, results, running: Mutex::default(), tasks, cancel }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<ChatId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a turn runs in this conversation.
    pub fn is_running(&self, chat: &ChatId) -> bool {
        self.locked().contains_key(chat)
    }

    /// Begins a conversation or goes on with one.
    ///
    /// # Errors
    /// `busy` while a turn runs in it; `not_found` for a conversation that is not there.
    pub async fn open(&self, chat: Option<&str>, first: &str) -> Result<ChatId, Problem> {
        match chat {
            Some(id) => {
                let id = ChatId::new(id);
                self.head(&id).await?;
                if self.is_running(&id) {
                    return Err(Problem::new(
                        Code::Busy,
                        "an answer is still on its way in this conversation",
                    )
                    .hint("stop it first, or wait"));
                }
                Ok(id)
            }
            None => {
                let id = ChatId::fresh();
                let title = title_of(first);
                let (chats, chat) = (self.chats.clone(), id.clone());
                problem::blocking(move || chats.chat_create(&chat, &title)).await?;
                Ok(id)
            }
        }
    }

    async fn head(&self, chat: &ChatId) -> Result<ChatHead, Problem> {
        self.load(chat).await.map(|(head, _)| head)
    }

    /// A conversation as it is kept.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn load(&self, chat: &ChatId) -> Result<(ChatHead, Vec<Message>), Problem> {
        let (chats, id) = (self.chats.clone(), chat.clone());
        problem::blocking(move || chats.chat_get(&id)).await
    }

    async fn put(&self, chat: &ChatId, message: Message) -> Result<(), Problem> {
        let (chats, id) = (self.chats.clone(), chat.clone());
        problem::blocking(move || chats.message_put(&id, &message)).await
    }

    /// Says something and lets the model answer.
    ///
    /// # Errors
    /// Nothing was begun then.
    pub async fn begin(
        self: &Arc<Self>,
        chat: &ChatId,
        text: String,
        model: Arc<dyn ModelClient>,
        settings: TurnSettings,
    ) -> Result<TurnId, Problem> {
        let turn = self.occupy(chat)?;
        let (_, history) = match self.say(chat, text).await {
            Ok(()) => self.load(chat).await?,
            Err(problem) => {
                self.locked().remove(chat);
                return Err(problem);
            }
        };
        let (me, id) = (self.clone(), chat.clone());
        self.tasks.spawn(async move { me.drive(id, history, model, settings).await });
        Ok(turn)
    }

    /// Reads `/call <tool> key=value …`.
    ///
    /// # Errors
    /// A line that is not clear.
    pub async fn read_command(&self, line: &str) -> Result<Command, Problem> {
        let (tool, words) = call_line(line)?;
        let schema = self.guard.schema_for_person(&tool).unwrap_or_default();
        let arguments = arguments::from_words(&words, &schema)?;
        schema::check(&tool, schema, &arguments).await?;
        Ok(Command { tool, arguments })
    }

    /// Runs a call for the person, in the conversation.
    ///
    /// # Errors
    /// `busy`.
    pub async fn command(
        self: &Arc<Self>,
        chat: &ChatId,
        line: &str,
        command: Command,
        limits: Limits,
    ) -> Result<TurnId, Problem> {
        let turn = self.occupy(chat)?;
        if let Err(problem) = self.say(chat, line.to_owned()).await {
            self.locked().remove(chat);
            return Err(problem);
        }
        let (me, id) = (self.clone(), chat.clone());
        self.tasks.spawn(async move { me.run_command(id, command, limits).await });
        Ok(turn)
    }

    fn occupy(&self, chat: &ChatId) -> Result<TurnId, Problem> {
        let mut running = self.locked();
        if running.contains_key(chat) {
            return Err(Problem::new(Code::Busy, "an answer is still on its way in this conversation"));
        }
        let turn = TurnId::fresh();
        let cancel = self.cancel.child_token();
        let entry = Running { turn: turn.clone(), cancel, text: String::new() };
        running.insert(chat.clone(), entry);
        Ok(turn)
    }

    async fn say(&self, chat: &ChatId, text: String) -> Result<(), Problem> {
        let message = Message { text, ..blank(Role::User) };
        self.events.turn(chat.as_str(), TurnEventView::Message { message: view(&message, &[], &|_| None) });
        self.put(chat, message).await
    }

    async fn run_command(
        self: Arc<Self>,
        chat: ChatId,
        Command { tool, arguments }: Command,
        limits: Limits,
    ) {
        let call = ModelCall {
            id: CallId::fresh(),
            model_id: String::new(),
            model_name: tool.clone(),
            tool: tool.clone(),
            server: self.server_of(&tool),
            arguments: Value::Object(arguments),
        };
        let asked = Message { calls: vec![call.clone()], ..blank(Role::Assistant) };
        let cancel = self.locked().get(&chat).map(|r| r.cancel.clone()).unwrap_or_default();
        let mut reason = "done".to_owned();
        if self.put(&chat, asked).await.is_ok() {
            self.events.turn(chat.as_str(), TurnEventView::Call { call: self.row(&call, None) });
            let began = std::time::Instant::now();
            let context = CallContext { id: Some(call.id.clone()), cancel, progress: None };
            let raw = RawValue::from_string(call.arguments.to_string()).unwrap_or_default();
            let result = self.guard.call(&Caller::Person, &tool, raw, context).await;
            let ended = match result {
                Ok(result) => Ended::Result(result),
                Err(error) => Ended::Without(error.code(), error.to_string()),
            };
            // The model may read on later, so it is the conversation's.
            let caller = Caller::Chat { chat: chat.clone() };
            let answer =
                tool_message(&self.results, &caller, limits, call.id.clone(), ended, began.elapsed()).await;
            if answer.answers.as_ref().is_some_and(|o| o.outcome == "cancelled") {
                "stopped".clone_into(&mut reason);
            }
            self.events.turn(chat.as_str(), TurnEventView::Call { call: self.row(&call, Some(&answer)) });
            if let Err(problem) = self.put(&chat, answer).await {
                reason = problem.message;
            }
        }
        self.end(&chat, reason);
    }

    async fn drive(
        self: Arc<Self>,
        chat: ChatId,
        history: Vec<Message>,
        model: Arc<dyn ModelClient>,
        settings: TurnSettings,
    ) {
        let cancel = self.locked().get(&chat).map(|r| r.cancel.clone()).unwrap_or_default();
        let desk = Desk {
            host: self.guard.clone(),
            results: self.results.clone(),
            caller: Caller::Chat { chat: chat.clone() },
        };
        let follower = Follower { turns: &self, chat: &chat };
        let end = evi_chat::run_turn(&*model, desk, history, settings, &follower, cancel).await;
        self.end(&chat, end_words(&end.reason));
    }

    /// Keeps a step and passes it on.
    async fn step(&self, chat: &ChatId, step: TurnEvent) {
        match step {
            TurnEvent::Text { delta } => {
                if let Some(running) = self.locked().get_mut(chat) {
                    running.text.push_str(&delta);
                }
                self.events.turn(chat.as_str(), TurnEventView::Text { delta });
            }
            TurnEvent::Reasoning { delta } => {
                self.events.turn(chat.as_str(), TurnEventView::Reasoning { delta });
            }
            TurnEvent::CallRequested(call) => {
                self.events.turn(chat.as_str(), TurnEventView::Call { call: self.row(&call, None) });
            }
            // The outcome is kept with the message that follows; the end is told when nothing runs any more.
            TurnEvent::CallEnded(_) | TurnEvent::Ended { .. } => {}
            TurnEvent::MessageDone(message) => {
                if message.role == Role::Assistant
                    && let Some(running) = self.locked().get_mut(chat)
                {
                    running.text.clear();
                }
                if let Err(problem) = self.put(chat, message.clone()).await {
                    tracing::error!(%chat, error = %problem, "a message could not be kept");
                }
                match message.role {
                    Role::Tool => self.events.invalidate(&[Tag::Chats]),
                    _ => self.events.turn(
                        chat.as_str(),
                        TurnEventView::Message { message: view(&message, &[], &|id| self.state_of(id)) },
                    ),
                }
            }
        }
    }

    fn end(&self, chat: &ChatId, reason: String) {
        self.locked().remove(chat);
        self.events.turn(chat.as_str(), TurnEventView::Ended { reason });
        self.events.invalidate(&[Tag::Chats]);
    }

    /// Ends the running turn: its stream, its call, its question.
    pub fn stop(&self, chat: &ChatId) {
        if let Some(running) = self.locked().get(chat) {
            tracing::debug!(turn = %running.turn, "stopped");
            running.cancel.cancel();
        }
    }

    fn server_of(&self, tool: &str) -> Option<String> {
        self.guard.surface(&Caller::Person).tool(tool).and_then(|t| server_of(&t.address.owner))
    }

    fn state_of(&self, call: &CallId) -> Option<String> {
        Some(if self.approvals.waits(call) { "waiting" } else { "running" }.to_owned())
    }

    fn row(&self, call: &ModelCall, answer: Option<&Message>) -> CallRow {
        row(call, answer, &|id| self.state_of(id))
    }

    /// A conversation as a user interface sees it, with what is still growing.
    ///
    /// # Errors
    /// `not_found`.
    pub async fn chat(&self, chat: &ChatId) -> Result<ChatView, Problem> {
        let turn = || self.locked().get(chat).map(|running| running.turn.clone());
        let mut before = turn();
        let (mut head, mut messages) = self.load(chat).await?;
        // What was read while a turn began or ended is of neither time: a call would look as if it had been given up.
        while turn() != before {
            before = turn();
            (head, messages) = self.load(chat).await?;
        }
        let running = before.is_some();
        let state = |id: &CallId| {
            if running { self.state_of(id) } else { Some("cancelled".to_owned()) }
        };
        let mut views: Vec<MessageView> = messages
            .iter()
            .enumerate()
            .filter(|(_, m)| m.role != Role::Tool)
            .map(|(at, m)| view(m, &messages[at..], &state))
            .collect();
        let partial = self
            .locked()
            .get(chat)
            .map(|r| (r.turn.clone(), r.text.clone()))
            .filter(|(_, text)| !text.is_empty());
        if let Some((turn, text)) = partial {
            let message = Message { id: MessageId::new(turn.as_str()), text, ..blank(Role::Assistant) };
            views.push(view(&message, &[], &state));
        }
        let approvals =
            self.approvals.list().into_iter().filter(|a| a.chat.as_deref() == Some(chat.as_str())).collect();
        Ok(ChatView { id: chat.to_string(), title: head.title, messages: views, running, approvals })
    }
}

/// What follows a turn of one conversation.
struct Follower<'t> {
    turns: &'t Turns,
    chat: &'t ChatId,
}

impl TurnEvents for Follower<'_> {
    fn take(&self, event: TurnEvent) -> BoxFuture<'_, ()> {
        Box::pin(self.turns.step(self.chat, event))
    }
}

fn blank(role: Role) -> Message {
    Message {
        id: MessageId::fresh(),
        at_ms: now_ms(),
        role,
        text: String::new(),
        calls: Vec::new(),
        answers: None,
        ended: None,
    }
}

/// A message with its calls; `after` holds the answers.
fn view(message: &Message, after: &[Message], state: &dyn Fn(&CallId) -> Option<String>) -> MessageView {
    let answer = |id: &CallId| after.iter().find(|m| m.answers.as_ref().is_some_and(|o| o.call == *id));
    MessageView {
        id: message.id.to_string(),
        at_ms: message.at_ms,
        role: match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
        .to_owned(),
        text: message.text.clone(),
        calls: message.calls.iter().map(|call| row(call, answer(&call.id), state)).collect(),
        ended: message.ended.clone(),
    }
}

fn row(call: &ModelCall, answer: Option<&Message>, state: &dyn Fn(&CallId) -> Option<String>) -> CallRow {
    let outcome = answer.and_then(|m| m.answers.as_ref());
    let large = answer.is_some_and(is_large);
    CallRow {
        call: call.id.to_string(),
        tool: call.tool.clone(),
        server: call.server.clone(),
        arguments: call.arguments.clone(),
        state: outcome
            .map_or_else(|| state(&call.id).unwrap_or_else(|| "running".to_owned()), |o| o.outcome.clone()),
        took_ms: outcome.map(|o| o.took_ms),
        text: answer.map(shown),
        result: outcome.and_then(|o| o.result.clone()),
        chars: outcome.and_then(|o| o.chars).filter(|_| large),
        kept: outcome.and_then(|o| o.kept.as_ref()).filter(|_| large).map(ToString::to_string),
    }
}

/// Whether a user interface gets only the beginning of a result.
fn is_large(answer: &Message) -> bool {
    answer.answers.as_ref().and_then(|o| o.chars).is_some_and(|chars| chars > SHOWN_CHARS)
}

/// A conversation with many large results must stay quick to show.
const SHOWN_CHARS: usize = 20_000;

fn shown(answer: &Message) -> String {
    if is_large(answer) { answer.text.chars().take(PREVIEW_CHARS).collect() } else { answer.text.clone() }
}

/// Why a turn ended, for people; `done` and `stopped` are words that a user interface knows.
fn end_words(reason: &EndReason) -> String {
    match reason {
        EndReason::Done | EndReason::Stopped => reason.code().to_owned(),
        EndReason::RoundLimit { rounds } => {
            format!("stopped after {rounds} rounds of tool calls; send a message to go on")
        }
        EndReason::Failed(error) => format!("{error}; {}", error.hint()),
    }
}

/// The beginning of the first message.
fn title_of(text: &str) -> String {
    let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("New chat").trim();
    let mut title: String = line.chars().take(60).collect();
    if line.chars().count() > 60 {
        title.push('…');
    }
    title
}

/// Splits `/call <tool> words…`.
fn call_line(line: &str) -> Result<(String, Vec<String>), Problem> {
    let rest = line.trim().strip_prefix("/call").unwrap_or_default().trim();
    let (tool, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if tool.is_empty() {
        return Err(Problem::new(Code::InvalidInput, "/call needs the name of a tool")
            .hint("write /call <tool> name=value …"));
    }
    let rest = rest.trim();
    let words = if rest.starts_with('{') { vec![rest.to_owned()] } else { parse::split(rest)? };
    Ok((tool.to_owned(), words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_line_takes_words_or_json() {
        let (tool, words) = call_line("/call fs.list path='/a b' n=1").unwrap();
        assert_eq!((tool.as_str(), words), ("fs.list", vec!["path=/a b".to_owned(), "n=1".to_owned()]));
        assert_eq!(call_line("/call x {\"n\": 1}").unwrap().1, ["{\"n\": 1}"]);
        assert!(call_line("/call").is_err());
    }
}
