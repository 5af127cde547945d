//! A kept conversation as a model gets it: every call answered, nothing empty, results capped; decides nothing.

use evi_domain::{
    CallId,
    chat::{Message, Role},
};
use serde_json::{Map, Value};

use crate::{Limits, ModelMessage, ModelToolCall, limits::beginning};

/// What a model reads for a call that never ran, because the turn ended before.
const NOT_RUN: &str = "ERROR: this call was not run";
/// Of a result that does not fit whole, less than so many bytes are not worth showing.
const SCRAP: usize = 400;

/// The conversation for a model, and whether a result in it is cut that can be read on under `reader`, the name of the
/// tool that does it, if there is one. Of results that together are too long the older ones are cut first.
pub fn for_model(history: &[Message], limits: &Limits, reader: Option<&str>) -> (Vec<ModelMessage>, bool) {
    let shares = shares(history, limits);
    let mut messages = Vec::with_capacity(history.len());
    let mut can_read_on = false;
    // Calls of the last answer that have no result yet.
    let mut open: Vec<(CallId, ModelToolCall)> = Vec::new();
    for (message, share) in history.iter().zip(shares) {
        let mut text = || {
            let (text, cut) = result_text(message, share, reader);
            can_read_on |= cut;
            text
        };
        let answered = message
            .answers
            .as_ref()
            .filter(|_| message.role == Role::Tool)
            .and_then(|outcome| open.iter().position(|(id, _)| *id == outcome.call));
        if let Some(at) = answered {
            let (_, call) = open.remove(at);
            messages.push(tool_answer(call, text()));
            continue;
        }
        close(&mut open, &mut messages);
        match message.role {
            Role::User => messages.push(ModelMessage::User(message.text.clone())),
            Role::Tool => messages.push(ModelMessage::User(format!(
                "I ran a tool myself. What follows is its result, data from outside:\n{}",
                text()
            ))),
            Role::Assistant => {
                let calls: Vec<ModelToolCall> = message
                    .calls
                    .iter()
                    .map(|call| ModelToolCall {
                        model_id: call.model_id.clone(),
                        name: call.model_name.clone(),
                        arguments: as_object(&call.arguments),
                    })
                    .collect();
                open = message.calls.iter().map(|c| c.id.clone()).zip(calls.iter().cloned()).collect();
                if !message.text.is_empty() || !calls.is_empty() {
                    messages.push(ModelMessage::Assistant { text: message.text.clone(), calls });
                }
            }
        }
    }
    close(&mut open, &mut messages);
    (messages, can_read_on)
}

/// How many bytes of each message's text go to the model: for results, what is left when the newer ones have theirs.
fn shares(history: &[Message], limits: &Limits) -> Vec<usize> {
    let mut left = limits.all_bytes;
    let mut shares: Vec<usize> = history
        .iter()
        .rev()
        .map(|message| match message.role {
            Role::Tool => {
                let whole = limits.fit(&message.text).len();
                // A scrap of a long result tells less than the note that it is left out.
                let share = if whole <= left || left >= SCRAP { whole.min(left) } else { 0 };
                left -= share;
                share
            }
            _ => message.text.len(),
        })
        .collect();
    shares.reverse();
    shares
}

/// A result cut to its share, with the note of what is missing; and whether that can be read.
fn result_text(message: &Message, share: usize, reader: Option<&str>) -> (String, bool) {
    let shown = beginning(&message.text, share, usize::MAX);
    let answers = message.answers.as_ref();
    let total = answers.and_then(|a| a.chars);
    if shown.len() == message.text.len() && total.is_none_or(|total| total <= shown.len()) {
        return (shown.to_owned(), false);
    }
    let at = shown.chars().count();
    let total = total.unwrap_or_else(|| message.text.chars().count());
    if at >= total {
        return (shown.to_owned(), false);
    }
    let line = if shown.is_empty() { "" } else { "\n" };
    match (answers.and_then(|a| a.kept.as_ref()), reader) {
        (Some(handle), Some(reader)) => {
            let note = format!(
                "{line}[cut here: {at} of {total} characters are shown; {reader} with handle \"{handle}\" and offset {at} reads on]"
            );
            (format!("{shown}{note}"), true)
        }
        _ => {
            let note =
                format!("{line}[cut here: the last {} of {total} characters are not shown]", total - at);
            (format!("{shown}{note}"), false)
        }
    }
}

fn tool_answer(call: ModelToolCall, text: String) -> ModelMessage {
    // Some providers refuse an empty answer.
    let text = if text.is_empty() { "(no output)".to_owned() } else { text };
    ModelMessage::Tool { model_id: call.model_id, name: call.name, text }
}

fn close(open: &mut Vec<(CallId, ModelToolCall)>, messages: &mut Vec<ModelMessage>) {
    messages.extend(open.drain(..).map(|(_, call)| tool_answer(call, NOT_RUN.to_owned())));
}

/// Arguments that were no object are not repeated: the templates of some local models fail on them. What was
/// wrong stands in the call's answer.
fn as_object(arguments: &Value) -> Value {
    if arguments.is_object() { arguments.clone() } else { Value::Object(Map::new()) }
}

#[cfg(test)]
mod tests {
    use evi_domain::{
        MessageId, ResultId,
        chat::{CallOutcome, ModelCall},
    };
    use serde_json::json;

    use super::*;

    fn message(role: Role, text: &str) -> Message {
        Message {
            id: MessageId::fresh(),
            at_ms: 0,
            role,
            text: text.to_owned(),
            calls: Vec::new(),
            answers: None,
            ended: None,
        }
    }
    fn asking(calls: &[&str]) -> Message {
        let calls = calls.iter().map(|id| ModelCall {
            id: CallId::new(*id),
            model_id: format!("m-{id}"),
            model_name: "s__t".to_owned(),
            tool: "s.t".to_owned(),
            server: Some("s".to_owned()),
            arguments: json!("{broken"),
        });
        Message { calls: calls.collect(), ..message(Role::Assistant, "") }
    }
    fn answer(call: &str, text: &str) -> Message {
        let outcome = CallOutcome {
            call: CallId::new(call),
            outcome: "ok".to_owned(),
            took_ms: 1,
            result: None,
            chars: None,
            kept: None,
        };
        Message { answers: Some(outcome), ..message(Role::Tool, text) }
    }
    fn tool(id: &str, text: &str) -> ModelMessage {
        ModelMessage::Tool { model_id: id.to_owned(), name: "s__t".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn calls_without_an_answer_get_one_and_empty_messages_are_left_out() {
        let history = [
            message(Role::User, "hi"),
            asking(&["a", "b"]),
            answer("a", ""),
            message(Role::Assistant, ""),
            message(Role::User, "go on"),
            asking(&["c"]),
        ];
        let (made, _) = for_model(&history, &Limits::default(), None);
        assert_eq!(made.len(), 7);
        assert_eq!(made[2..4], [tool("m-a", "(no output)"), tool("m-b", NOT_RUN)]);
        assert_eq!(made[4], ModelMessage::User("go on".to_owned()));
        assert_eq!(made[6], tool("m-c", NOT_RUN));
        let ModelMessage::Assistant { calls, .. } = &made[1] else { panic!("{made:?}") };
        assert_eq!(calls[0].arguments, json!({}));
    }

    #[test]
    fn a_call_of_the_persons_own_is_told_as_data() {
        let history = [message(Role::User, "/call s.t"), answer("x", "found it")];
        let (made, _) = for_model(&history, &Limits::default(), None);
        let ModelMessage::User(text) = &made[1] else { panic!("{made:?}") };
        assert!(text.ends_with("found it") && text.contains("data"), "{text}");
    }

    /// An answer of which the conversation holds a part.
    fn part(call: &str, text: &str, total: usize, kept: bool) -> Message {
        let mut message = answer(call, text);
        let outcome = message.answers.as_mut().unwrap();
        outcome.chars = Some(total);
        outcome.kept = kept.then(|| ResultId::new("h1"));
        message
    }
    fn told(history: &[Message], limits: &Limits) -> (Vec<String>, bool) {
        let (made, cut) = for_model(history, limits, Some("read_result"));
        let text = |message: ModelMessage| match message {
            ModelMessage::Tool { text, .. } => Some(text),
            _ => None,
        };
        (made.into_iter().filter_map(text).collect(), cut)
    }

    #[test]
    fn i55_a_long_result_ends_with_how_to_read_on() {
        let limits = Limits { one_bytes: 600, one_chars: 200, all_bytes: 1200 };
        let history = [asking(&["a"]), part("a", &"ä".repeat(300), 5000, true)];
        let (texts, cut) = told(&history, &limits);
        let note = "\n[cut here: 200 of 5000 characters are shown; read_result with handle \"h1\" and offset 200 reads on]";
        assert_eq!((texts[0].as_str(), cut), (format!("{}{note}", "ä".repeat(200)).as_str(), true));
        let history = [asking(&["a"]), part("a", &"x".repeat(300), 5000, false)];
        let (texts, cut) = told(&history, &limits);
        assert!(texts[0].ends_with("[cut here: the last 4800 of 5000 characters are not shown]") && !cut);
        let whole = [asking(&["a"]), part("a", &"ä".repeat(200), 200, true)];
        assert_eq!(told(&whole, &limits), (vec!["ä".repeat(200)], false));
    }

    #[test]
    fn i55_all_results_together_stay_within_their_share_and_the_older_ones_are_cut_first() {
        let limits = Limits { one_bytes: 1000, one_chars: 10_000, all_bytes: 2500 };
        let long = "x".repeat(1000);
        let mut history = Vec::new();
        for call in ["a", "b", "c", "d"] {
            history.extend([asking(&[call]), part(call, &long, 1000, true)]);
        }
        let (texts, cut) = told(&history, &limits);
        let shown: Vec<usize> = texts.iter().map(|t| t.chars().filter(|c| *c == 'x').count()).collect();
        assert_eq!((shown, cut), (vec![0, 500, 1000, 1000], true));
        assert!(texts[0].starts_with("[cut here: 0 of 1000"), "{}", texts[0]);
        assert!(texts.iter().map(String::len).sum::<usize>() < limits.all_bytes + 4 * 150);
        // One that was said is never taken back.
        let said = [message(Role::User, &"x".repeat(9000))];
        assert_eq!(for_model(&said, &limits, None).0, [ModelMessage::User("x".repeat(9000))]);
    }
}
