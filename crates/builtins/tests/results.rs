//! Reading kept results: a page, the next one, and what is not there; no disk.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use evi_builtins::Builtins;
use evi_domain::{
    Caller, ChatId, KeptError, KeptResults, ResultId, ToolResult,
    kept::{Form, Page},
};
use serde_json::{Value, json, value::RawValue};

/// Holds one result, `h`, of the conversation `c`.
struct One(String);

impl KeptResults for One {
    fn keep(&self, _: &Caller, _: &ToolResult) -> Result<ResultId, KeptError> {
        Err(KeptError::Failed("it is full".to_owned()))
    }
    fn read(
        &self,
        caller: &Caller,
        id: &ResultId,
        _: Form,
        offset: usize,
        limit: usize,
    ) -> Result<Page, KeptError> {
        let own = *caller == chat("c") && id.as_str() == "h";
        own.then(|| Page::of(&self.0, offset, limit)).ok_or_else(|| KeptError::NotThere(id.clone()))
    }
    fn forget(&self, _: &Caller) {}
}

fn chat(id: &str) -> Caller {
    Caller::Chat { chat: ChatId::new(id) }
}

async fn read(caller: &Caller, arguments: Value) -> ToolResult {
    let tools =
        Builtins::with_results("/nowhere/m".into(), "/nowhere/c".into(), Arc::new(One("äbcde".into())));
    let raw = RawValue::from_string(arguments.to_string()).unwrap();
    tools.call(caller, "read_result", &raw).await.unwrap()
}

#[tokio::test]
async fn i55_a_page_says_where_it_is_and_where_the_next_one_begins() {
    let page = read(&chat("c"), json!({"handle": "h", "limit": 4})).await;
    // Four bytes: a letter that takes two counts as two.
    assert_eq!(page.to_model_text(), "[characters 0 to 3 of 5; the next page begins at offset 3]\näbc");
    assert_eq!(page.to_value()["structuredContent"], json!({"offset": 0, "total": 5, "next_offset": 3}));
    let last = read(&chat("c"), json!({"handle": " h ", "offset": 4.0})).await;
    assert_eq!(last.to_model_text(), "[characters 4 to 5 of 5; this is the last page]\ne");
    assert!(!last.is_error());
}

#[tokio::test]
async fn a_bad_a_foreign_and_an_expired_handle_look_the_same() {
    let foreign = read(&chat("other"), json!({"handle": "h"})).await;
    let made_up = read(&chat("c"), json!({"handle": "../../etc/passwd"})).await;
    assert!(foreign.is_error() && made_up.is_error());
    assert_eq!(foreign.to_model_text(), made_up.to_model_text());
    for bad in [json!({}), json!({"handle": "h", "offset": -1}), json!({"handle": "h", "limit": 0})] {
        assert!(read(&chat("c"), bad.clone()).await.to_model_text().starts_with("ERROR: invalid"), "{bad}");
    }
}

#[test]
fn without_kept_results_there_is_no_tool_to_read_them() {
    let tools = Builtins::new("/nowhere/m".into(), "/nowhere/c".into()).tools();
    assert!(tools.iter().all(|tool| tool.def.name() != "read_result"));
}
