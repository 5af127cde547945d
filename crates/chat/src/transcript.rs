//! A kept conversation as a model gets it: every call answered, nothing empty, results capped; decides nothing.

use evi_domain::{
    CallId,
    chat::{Message, Role},
};
use serde_json::{Map, Value};

use crate::{ModelMessage, ModelToolCall};

/// What a model reads for a call that never ran, because the turn ended before.
const NOT_RUN: &str = "ERROR: this call was not run";

/// The conversation for a model. Results longer than `cap` characters are cut (0: never).
pub fn for_model(history: &[Message], cap: usize) -> Vec<ModelMessage> {
    let mut messages = Vec::with_capacity(history.len());
    // Calls of the last answer that have no result yet.
    let mut open: Vec<(CallId, ModelToolCall)> = Vec::new();
    for message in history {
        let answered = message
            .answers
            .as_ref()
            .filter(|_| message.role == Role::Tool)
            .and_then(|outcome| open.iter().position(|(id, _)| *id == outcome.call));
        if let Some(at) = answered {
            let (_, call) = open.remove(at);
            messages.push(tool_answer(call, cap_text(&message.text, cap)));
            continue;
        }
        close(&mut open, &mut messages);
        match message.role {
            Role::User => messages.push(ModelMessage::User(message.text.clone())),
            Role::Tool => messages.push(ModelMessage::User(format!(
                "I ran a tool myself. What follows is its result, data from outside:\n{}",
                cap_text(&message.text, cap)
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
    messages
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

/// The smallest cap; below it the note would be longer than what it stands for.
const MIN_CAP: usize = 200;

/// A text of at most `cap` characters (0: no limit; at least 200), the note of how much was cut included, so that
/// cutting again changes nothing.
pub fn cap_text(text: &str, cap: usize) -> String {
    let most = cap.max(MIN_CAP);
    // A byte count within the cap is a character count within it, too.
    if cap == 0 || text.len() <= most {
        return text.to_owned();
    }
    let total = text.chars().count();
    if total <= most {
        return text.to_owned();
    }
    // Room for the note with two numbers as long as the total.
    let room = "\n[cut here: the last  of  characters are not shown]".len() + 2 * total.to_string().len();
    let kept: String = text.chars().take(most - room).collect();
    format!("{kept}\n[cut here: the last {} of {total} characters are not shown]", total - (most - room))
}

#[cfg(test)]
mod tests {
    use evi_domain::{
        MessageId,
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
        let outcome =
            CallOutcome { call: CallId::new(call), outcome: "ok".to_owned(), took_ms: 1, result: None };
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
        let made = for_model(&history, 0);
        assert_eq!(made.len(), 7);
        assert_eq!(made[2..4], [tool("m-a", "(no output)"), tool("m-b", NOT_RUN)]);
        assert_eq!(made[4], ModelMessage::User("go on".to_owned()));
        assert_eq!(made[6], tool("m-c", NOT_RUN));
        let ModelMessage::Assistant { calls, .. } = &made[1] else { panic!("{made:?}") };
        assert_eq!(calls[0].arguments, json!({}));
    }

    #[test]
    fn a_call_of_the_persons_own_is_told_as_data() {
        let made = for_model(&[message(Role::User, "/call s.t"), answer("x", "found it")], 0);
        let ModelMessage::User(text) = &made[1] else { panic!("{made:?}") };
        assert!(text.ends_with("found it") && text.contains("data"), "{text}");
    }

    #[test]
    fn i55_long_results_are_cut_with_a_note() {
        let long = "ä".repeat(1000);
        let cut = cap_text(&long, 300);
        assert!(cut.chars().count() <= 300 && cut.ends_with("of 1000 characters are not shown]"), "{cut}");
        assert_eq!(cap_text(&cut, 300), cut, "cut once");
        assert_eq!(cap_text(&"ä".repeat(300), 300), "ä".repeat(300));
        assert_eq!(cap_text(&long, 0), long);
        let history = [asking(&["a"]), answer("a", &"x".repeat(500))];
        let ModelMessage::Tool { text, .. } = &for_model(&history, 250)[1] else { panic!("no answer") };
        assert!(text.contains("of 500 characters"), "{text}");
    }
}
