//! What a conversation holds of a call that ended: the beginning of its result, and where the whole is kept.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use evi_domain::{
    CallId, Caller, KeptResults, MessageId, ToolResult,
    chat::{CallOutcome, Message, Role},
};

use crate::Limits;

/// A longer result is kept beside the conversation, so that it can be read on when it has been cut for the model.
const KEEP_CHARS: usize = 2_000;
/// A larger result object does not go into the conversation itself: every look at it would load all of it.
const INLINE_BYTES: usize = 32 << 10;

/// How a call ended.
#[derive(Debug)]
pub enum Ended {
    /// With a result, to be kept when it is large.
    Result(ToolResult),
    /// With a part of a result that is kept already.
    Page(ToolResult),
    /// Without one: the stable word, and what the model reads.
    Without(&'static str, String),
}

/// The message that answers a call. A result that cannot be kept is cut all the same, and its end is lost.
pub async fn tool_message(
    results: &Arc<dyn KeptResults>,
    caller: &Caller,
    limits: Limits,
    call: CallId,
    ended: Ended,
    took: Duration,
) -> Message {
    let outcome = CallOutcome {
        call,
        outcome: String::new(),
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        result: None,
        chars: None,
        kept: None,
    };
    let (result, to_keep) = match ended {
        Ended::Result(result) => (result, true),
        Ended::Page(result) => (result, false),
        Ended::Without(code, text) => return message(outcome, code, text),
    };
    let (results, caller, lost) = (results.clone(), caller.clone(), outcome.clone());
    // Megabytes are read, and the disk may be slow.
    let made = tokio::task::spawn_blocking(move || {
        let whole = result.to_model_text();
        let chars = whole.chars().count();
        let small = result.raw().get().len() <= INLINE_BYTES;
        let kept = (to_keep && (chars > KEEP_CHARS || !small))
            .then(|| results.keep(&caller, &result))
            .and_then(|kept| kept.inspect_err(|error| tracing::warn!(%error, "a large result")).ok());
        let outcome =
            CallOutcome { result: small.then(|| result.to_value()), chars: Some(chars), kept, ..outcome };
        let code = if result.is_error() { "tool_error" } else { "ok" };
        let part = limits.fit(&whole).len();
        let mut text = whole;
        text.truncate(part);
        message(outcome, code, text)
    });
    made.await.unwrap_or_else(|_| message(lost, "internal", "ERROR: the result could not be read".to_owned()))
}

fn message(outcome: CallOutcome, code: &str, text: String) -> Message {
    let outcome = CallOutcome { outcome: code.to_owned(), ..outcome };
    Message { answers: Some(outcome), ..fresh(Role::Tool, text) }
}

/// A message of now.
pub(crate) fn fresh(role: Role, text: String) -> Message {
    let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    Message {
        id: MessageId::fresh(),
        at_ms: u64::try_from(at_ms).unwrap_or(u64::MAX),
        role,
        text,
        calls: Vec::new(),
        answers: None,
        ended: None,
    }
}
