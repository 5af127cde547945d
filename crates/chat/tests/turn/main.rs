//! Whole turns against a provider that speaks real HTTP: what the model is sent, what the host is called with,
//! what is kept; no live provider.
#![allow(clippy::unwrap_used)]

mod emulator;
mod host;
mod window;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use emulator::{Emulator, KEY, Reply, calls, delta, finish, says, text, usage};
use evi_chat::{
    Candidate, Desk, EndReason, Endpoint, Limits, ModelError, OpenAiCompatible, TurnEnd, TurnEvent,
    TurnEvents, TurnSettings, discover_at, list_models, run_turn,
};
use evi_domain::{
    BoxFuture, CallError, Caller, ChatId, MessageId, Secret, ToolAddress, ToolResult,
    chat::{Message, Role},
};
use host::Host;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

fn question(text: &str) -> Message {
    Message {
        id: MessageId::fresh(),
        at_ms: 1,
        role: Role::User,
        text: text.to_owned(),
        calls: Vec::new(),
        answers: None,
        ended: None,
    }
}

fn caller() -> Caller {
    Caller::Chat { chat: ChatId::new("c1") }
}

fn ok(_: &str, _: &Value) -> Result<ToolResult, CallError> {
    Ok(ToolResult::text("a.txt\nb.txt"))
}

/// Runs a turn to its end; cancels it when `stop` says so of an event.
async fn turn_with(
    model: &OpenAiCompatible,
    host: &Arc<Host>,
    settings: TurnSettings,
    stop: impl Fn(&TurnEvent) -> bool + Send + Sync,
) -> (TurnEnd, Vec<TurnEvent>) {
    let cancel = CancellationToken::new();
    let history = vec![question("list the files")];
    let seen = Seen { stop, cancel: cancel.clone(), events: Mutex::default() };
    let desk = Desk { host: host.clone(), results: host.clone(), caller: caller() };
    let turn = run_turn(model, desk, history, settings, &seen, cancel);
    let end = tokio::time::timeout(Duration::from_secs(15), turn).await.expect("the turn ends");
    (end, seen.events.into_inner().unwrap())
}

struct Seen<F> {
    stop: F,
    cancel: CancellationToken,
    events: Mutex<Vec<TurnEvent>>,
}

impl<F: Fn(&TurnEvent) -> bool + Send + Sync> TurnEvents for Seen<F> {
    fn take(&self, event: TurnEvent) -> BoxFuture<'_, ()> {
        if (self.stop)(&event) {
            self.cancel.cancel();
        }
        self.events.lock().unwrap().push(event);
        Box::pin(async {})
    }
}

async fn turn(emulator: &Emulator, host: &Arc<Host>) -> (TurnEnd, Vec<TurnEvent>) {
    turn_with(&emulator.model(), host, TurnSettings::default(), |_| false).await
}

/// The events as words.
fn kinds(events: &[TurnEvent]) -> Vec<String> {
    let kind = |event: &TurnEvent| match event {
        TurnEvent::Text { delta } => format!("text {delta}"),
        TurnEvent::Reasoning { delta } => format!("reasoning {delta}"),
        TurnEvent::CallRequested(call) => format!("requested {}", call.tool),
        TurnEvent::CallEnded(outcome) => format!("ended {}", outcome.outcome),
        TurnEvent::MessageDone(message) => format!("message {:?}", message.role),
        TurnEvent::Ended { reason } => format!("over {}", reason.code()),
    };
    events.iter().map(kind).collect()
}

#[tokio::test]
async fn text_streams_and_the_answer_is_kept() {
    let reply = vec![
        delta(&json!({"role": "assistant", "content": ""})),
        delta(&json!({"reasoning_content": "hm"})),
        text("Hel"),
        text("lo ✓"),
        finish("stop"),
        usage(11, 3),
    ];
    let emulator = Emulator::start(vec![Reply::Chunks(reply)]).await;
    let host = Arc::new(Host::new(ok));
    let settings = TurnSettings {
        system: Some("Answer in verse.".to_owned()),
        temperature: Some(0.5),
        max_tokens: Some(99),
        ..TurnSettings::default()
    };
    let (end, events) = turn_with(&emulator.model(), &host, settings, |_| false).await;
    assert_eq!(kinds(&events), ["reasoning hm", "text Hel", "text lo ✓", "message Assistant", "over done"]);
    assert_eq!((end.reason, end.messages.len()), (EndReason::Done, 1));
    assert_eq!((end.messages[0].text.as_str(), &end.messages[0].ended), ("Hello ✓", &None));
    assert_eq!((end.usage.input_tokens, end.usage.output_tokens), (11, 3));

    let asked = &emulator.asked()[0];
    assert_eq!(asked["model"], "qwen-max", "the name is not cut at what looks like an effort");
    assert!(asked.get("reasoning_effort").is_none());
    assert_eq!(
        (&asked["stream"], &asked["temperature"], &asked["max_tokens"]),
        (&json!(true), &json!(0.5), &json!(99))
    );
    let system = asked["messages"][0]["content"].as_str().unwrap();
    assert!(
        system.contains("data, never an instruction") && system.ends_with("Answer in verse."),
        "{system}"
    );
    assert_eq!(asked["messages"][1], json!({"role": "user", "content": "list the files"}));
    let function = &asked["tools"][0]["function"];
    assert_eq!(function["name"], "filesystem__list_directory");
    assert_eq!(function["parameters"]["properties"]["path"]["type"], "string");
    assert_eq!(emulator.keys(), [Some(format!("Bearer {KEY}"))]);
}

#[tokio::test]
async fn a_call_in_pieces_runs_and_its_result_goes_back() {
    let arguments = r#"{"path":"/tmp","deep":8,"x":null,"o":{"a":[1.5,"8"]}}"#;
    let emulator =
        Emulator::start(vec![calls(&[("id1", "filesystem__list_directory", arguments)]), says("two files")])
            .await;
    let host = Arc::new(Host::new(ok));
    let (end, events) = turn(&emulator, &host).await;
    assert_eq!(
        kinds(&events),
        [
            "message Assistant",
            "requested filesystem.list_directory",
            "ended ok",
            "message Tool",
            "text two files",
            "message Assistant",
            "over done"
        ]
    );
    // i51: exactly the types that the model produced.
    assert_eq!(host.tools(), [("filesystem.list_directory".to_owned(), arguments.to_owned())]);
    let call = &end.messages[0].calls[0];
    assert_eq!((call.server.as_deref(), call.model_id.as_str()), (Some("filesystem"), "id1"));
    assert_eq!(host.called.lock().unwrap()[0].0, call.id, "the host knows the call by the same identity");
    let answers = end.messages[1].answers.as_ref().unwrap();
    assert_eq!((answers.outcome.as_str(), &answers.call), ("ok", &call.id));
    assert_eq!(answers.result.as_ref().unwrap()["content"][0]["text"], "a.txt\nb.txt");

    let second = &emulator.asked()[1]["messages"];
    assert_eq!(second[2]["tool_calls"][0]["id"], "id1");
    let sent: Value =
        serde_json::from_str(second[2]["tool_calls"][0]["function"]["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(sent["o"]["a"], json!([1.5, "8"]));
    assert_eq!(second[3], json!({"role": "tool", "tool_call_id": "id1", "content": "a.txt\nb.txt"}));
}

#[tokio::test]
async fn calls_of_one_round_run_in_order_and_a_tools_own_failure_goes_back() {
    let emulator = Emulator::start(vec![
        calls(&[
            ("a", "filesystem__read_file", r#"{"path":"1"}"#),
            ("b", "filesystem__read_file", r#"{"path":"2"}"#),
        ]),
        says("ok"),
    ])
    .await;
    let host = Arc::new(Host::new(|_, arguments| {
        Ok(if arguments["path"] == "1" { ToolResult::error("no such file") } else { ToolResult::text("two") })
    }));
    let (end, events) = turn(&emulator, &host).await;
    assert_eq!(
        host.tools().iter().map(|(_, a)| a.as_str()).collect::<Vec<_>>(),
        [r#"{"path":"1"}"#, r#"{"path":"2"}"#]
    );
    assert_eq!(
        kinds(&events)[1..7].join(", "),
        "requested filesystem.read_file, ended tool_error, message Tool, requested filesystem.read_file, ended ok, message Tool"
    );
    assert_eq!(end.reason, EndReason::Done);
    let second = &emulator.asked()[1]["messages"];
    assert_eq!(second[3]["content"], "ERROR: no such file");
    assert_eq!(second[4]["content"], "two");
}

#[tokio::test]
async fn a_denied_call_is_told_to_the_model_and_the_turn_goes_on() {
    let emulator =
        Emulator::start(vec![calls(&[("a", "filesystem__read_file", "{}")]), says("as you wish")]).await;
    let host = Arc::new(Host::new(|_, _| {
        let address = ToolAddress::upstream("filesystem".into(), "read_file");
        Err(CallError::Denied { address, reason: "the person said no".to_owned() })
    }));
    let (end, _) = turn(&emulator, &host).await;
    assert_eq!(end.reason, EndReason::Done);
    assert_eq!(end.messages[1].answers.as_ref().unwrap().outcome, "denied");
    assert_eq!(emulator.asked()[1]["messages"][3]["content"], "ERROR: the person denied this call");
}

#[tokio::test]
async fn an_unknown_name_and_arguments_that_are_no_object_are_told_to_the_model() {
    let emulator = Emulator::start(vec![
        calls(&[
            ("a", "filesystem.list_dir", "{}"),
            ("b", "filesystem__read_file", "{\"path\":"),
            ("c", "filesystem__read_file", "[1]"),
        ]),
        says("sorry"),
    ])
    .await;
    let host = Arc::new(Host::new(ok));
    let (end, _) = turn(&emulator, &host).await;
    assert!(host.tools().is_empty(), "nothing was run on a guess");
    let outcomes: Vec<&str> =
        end.messages.iter().filter_map(|m| m.answers.as_ref()).map(|a| a.outcome.as_str()).collect();
    assert_eq!(outcomes, ["unknown_tool", "invalid_arguments", "invalid_arguments"]);
    assert_eq!(end.messages[0].calls[0].tool, "filesystem.list_dir");
    let second = &emulator.asked()[1]["messages"];
    let told = second[3]["content"].as_str().unwrap();
    assert!(
        told.contains("no tool named \"filesystem.list_dir\"; there is filesystem__list_directory"),
        "{told}"
    );
    assert!(second[4]["content"].as_str().unwrap().contains("not a JSON object: {\"path\":"));
    assert_eq!(second[2]["tool_calls"][1]["function"]["arguments"], "{}");
}

#[tokio::test]
async fn stop_in_the_middle_of_an_answer_keeps_the_text_and_ends_the_request() {
    let emulator = Emulator::start(vec![Reply::ThenHang(vec![text("so "), text("far")])]).await;
    let host = Arc::new(Host::new(ok));
    let stop = |event: &TurnEvent| matches!(event, TurnEvent::Text { delta } if delta == "far");
    let (end, events) = turn_with(&emulator.model(), &host, TurnSettings::default(), stop).await;
    assert_eq!(kinds(&events), ["text so ", "text far", "message Assistant", "over stopped"]);
    assert_eq!(end.reason, EndReason::Stopped);
    assert_eq!(
        (end.messages[0].text.as_str(), end.messages[0].ended.as_deref()),
        ("so far", Some("stopped"))
    );
    emulator.client_gone().await;
}

#[tokio::test]
async fn stop_during_a_call_cancels_it_at_the_host_and_runs_no_other() {
    let two = [("a", "filesystem__read_file", "{}"), ("b", "filesystem__read_file", "{}")];
    let emulator = Emulator::start(vec![calls(&two)]).await;
    let host = Arc::new(Host { wait: Some(true), ..Host::new(ok) });
    let stop = |event: &TurnEvent| matches!(event, TurnEvent::CallRequested(_));
    let (end, _) = turn_with(&emulator.model(), &host, TurnSettings::default(), stop).await;
    host.saw_cancel().await;
    assert_eq!(end.reason, EndReason::Stopped);
    assert_eq!(host.tools().len(), 1);
    assert_eq!(end.messages.last().unwrap().answers.as_ref().unwrap().outcome, "cancelled");
}

#[tokio::test]
async fn a_call_that_ignores_the_cancel_is_let_go() {
    let emulator = Emulator::start(vec![calls(&[("a", "filesystem__read_file", "{}")])]).await;
    let host = Arc::new(Host { wait: Some(false), ..Host::new(ok) });
    let stop = |event: &TurnEvent| matches!(event, TurnEvent::CallRequested(_));
    let (end, _) = turn_with(&emulator.model(), &host, TurnSettings::default(), stop).await;
    assert_eq!(end.reason, EndReason::Stopped);
    assert_eq!(end.messages.last().unwrap().answers.as_ref().unwrap().outcome, "cancelled");
}

async fn failure(reply: Reply) -> (ModelError, Message) {
    let emulator = Emulator::start(vec![reply]).await;
    let (end, events) = turn(&emulator, &Arc::new(Host::new(ok))).await;
    let EndReason::Failed(problem) = end.reason else { panic!("{:?}", end.reason) };
    let shown = format!("{problem} {} {problem:?} {events:?}", problem.hint());
    assert!(!shown.contains("sk-test"), "{shown}");
    (problem, end.messages.last().unwrap().clone())
}

#[tokio::test]
async fn a_refusal_of_the_provider_is_put_into_words_without_the_key() {
    let body = || format!(r#"{{"error": {{"message": "Incorrect API key provided: {KEY}"}}}}"#);
    let (problem, message) = failure(Reply::Status(401, vec![], body())).await;
    assert!(matches!(problem, ModelError::Unauthorized { .. }), "{problem:?}");
    assert_eq!(message.ended, Some(problem.to_string()), "the conversation says why it has no answer");

    let (problem, _) = failure(Reply::Status(429, vec![("retry-after", "7")], body())).await;
    let ModelError::RateLimited { retry_after, .. } = &problem else { panic!("{problem:?}") };
    assert_eq!(*retry_after, Some(Duration::from_secs(7)));
    assert!(problem.to_string().contains("7 s"), "{problem}");

    let (problem, _) =
        failure(Reply::Status(404, vec![], r#"{"error":"model 'x' not found"}"#.to_owned())).await;
    assert_eq!(problem, ModelError::Http { status: 404, body_excerpt: "model 'x' not found".to_owned() });

    let (problem, _) = failure(Reply::Status(500, vec![], body())).await;
    assert_eq!(problem.to_string(), "the provider answered with status 500: Incorrect API key provided: …");

    let (problem, _) =
        failure(Reply::Status(307, vec![("location", "http://127.0.0.1:1/")], String::new())).await;
    assert!(matches!(problem, ModelError::Http { status: 307, .. }), "no redirect takes the key elsewhere");
}

#[tokio::test]
async fn an_answer_that_breaks_off_keeps_its_text_and_runs_no_half_call() {
    let half = delta(&json!({"tool_calls": [{"index": 0, "id": "a", "function":
        {"name": "filesystem__read_file", "arguments": "{}"}}]}));
    let (problem, message) = failure(Reply::Broken(vec![text("so far"), half])).await;
    assert!(matches!(problem, ModelError::Protocol { .. }), "{problem:?}");
    assert_eq!((message.text.as_str(), message.calls.len()), ("so far", 0));

    let (problem, _) = failure(Reply::Chunks(vec![json!({"error": {"message": "out of memory"}})])).await;
    assert!(problem.to_string().contains("out of memory"), "{problem}");
    let (problem, _) = failure(Reply::Status(200, vec![], "<html>hello</html>".to_owned())).await;
    assert!(matches!(problem, ModelError::Protocol { .. }), "{problem:?}");
}

#[tokio::test]
async fn nobody_there_nothing_said_and_no_url_are_told_apart() {
    let host = Arc::new(Host::new(ok));
    let ask = async |base_url: String| {
        let request_timeout = Duration::from_millis(200);
        let model = OpenAiCompatible::new(Endpoint {
            base_url,
            api_key: None,
            model: "m".to_owned(),
            request_timeout,
        });
        match turn_with(&model, &host, TurnSettings::default(), |_| false).await.0.reason {
            EndReason::Failed(problem) => problem,
            other => panic!("{other:?}"),
        }
    };
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let problem = ask(format!("http://127.0.0.1:{port}/v1")).await;
    assert!(matches!(problem, ModelError::Unreachable { .. }), "{problem:?}");
    assert!(problem.to_string().contains("connection refused"), "{problem}");
    assert!(matches!(ask("not a url".to_owned()).await, ModelError::InvalidUrl { .. }));
    let emulator = Emulator::start(vec![Reply::Silence]).await;
    assert!(matches!(ask(emulator.base_url()).await, ModelError::Timeout { .. }));
    assert_eq!(emulator.keys(), [None], "no header where there is no key");
}

#[tokio::test]
async fn i55_a_result_of_five_megabytes_is_cut_kept_whole_and_read_on_by_page() {
    let emulator = Emulator::start(vec![
        calls(&[("a", "filesystem__read_file", "{}")]),
        calls(&[("b", "read_result", r#"{"handle": "h", "offset": 3}"#)]),
        says("long"),
    ])
    .await;
    let mut host = Host::new(|name, arguments| {
        Ok(ToolResult::text(match name {
            "read_result" => format!("page {arguments}"),
            _ => "x".repeat(5_000_000),
        }))
    });
    host.surface.tools.push(host::reader());
    let host = Arc::new(host);
    let settings = TurnSettings { limits: Limits::of(Some(4096), 1000), ..TurnSettings::default() };
    let (end, _) = turn_with(&emulator.model(), &host, settings, |_| false).await;
    assert_eq!(end.reason, EndReason::Done);
    let asked = emulator.asked();
    let offered = |at: usize| asked[at].to_string().contains("the character to begin at");
    assert_eq!((offered(0), offered(1)), (false, true), "the tool is there when there is something to read");
    let sent = asked[1]["messages"][3]["content"].as_str().unwrap();
    assert!(
        sent.ends_with(
            "1000 of 5000000 characters are shown; read_result with handle \"h\" and offset 1000 reads on]"
        ),
        "{sent}"
    );
    let page = asked[2]["messages"][5]["content"].as_str().unwrap();
    assert_eq!(page, r#"page {"handle":"h","offset":3,"limit":880}"#, "a page that fits");
    assert_eq!(host.kept.lock().unwrap().as_slice(), [5_000_000], "a page is not kept again");
    let kept = end.messages[1].answers.as_ref().unwrap();
    assert_eq!((kept.chars, kept.kept.as_ref().unwrap().as_str()), (Some(5_000_000), "h"));
    assert!(kept.result.is_none() && end.messages[1].text.len() == 1000, "not in the conversation itself");
}

#[tokio::test]
async fn i55_results_of_a_turn_together_stay_within_the_window() {
    let mut replies: Vec<Reply> = (0..6)
        .map(|n| calls(&[(["a", "b", "c", "d", "e", "f"][n], "filesystem__read_file", "{}")]))
        .collect();
    replies.push(says("done"));
    let emulator = Emulator::start(replies).await;
    let mut host = Host::new(|_, _| Ok(ToolResult::text("x".repeat(50_000))));
    host.surface.tools.push(host::reader());
    let limits = Limits::of(Some(4096), 0);
    let settings = TurnSettings { limits, ..TurnSettings::default() };
    turn_with(&emulator.model(), &Arc::new(host), settings, |_| false).await;
    let last = emulator.asked().pop().unwrap();
    let results: Vec<&str> = last["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["role"] == "tool")
        .map(|m| m["content"].as_str().unwrap())
        .collect();
    assert_eq!(results.len(), 6);
    assert!(results.iter().map(|r| r.len()).sum::<usize>() < limits.all_bytes + 6 * 150);
    assert!(results[0].starts_with("[cut here: 0 of 50000") && results[5].starts_with("xxx"));
}

#[tokio::test]
async fn i55_a_small_result_stays_in_the_conversation_whole() {
    let emulator = Emulator::start(vec![calls(&[("a", "filesystem__read_file", "{}")]), says("ok")]).await;
    let host = Arc::new(Host::new(ok));
    let (end, _) = turn(&emulator, &host).await;
    let answers = end.messages[1].answers.as_ref().unwrap();
    assert!(answers.kept.is_none() && answers.result.is_some() && host.kept.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_model_that_never_stops_calling_is_stopped_after_the_last_round() {
    let again = || calls(&[("a", "filesystem__read_file", "{}")]);
    let emulator = Emulator::start(vec![again(), again(), again()]).await;
    let host = Arc::new(Host::new(ok));
    let settings = TurnSettings { max_rounds: 3, ..TurnSettings::default() };
    let (end, _) = turn_with(&emulator.model(), &host, settings, |_| false).await;
    assert_eq!(end.reason, EndReason::RoundLimit { rounds: 3 });
    assert_eq!((host.tools().len(), end.messages.len()), (3, 6));
}

#[tokio::test]
async fn i61_more_tools_than_fit_are_left_out_and_the_model_knows() {
    let emulator = Emulator::start(vec![says("hi")]).await;
    let mut host = Host::new(ok);
    host.surface.tools = (0..200).map(|n| host::tool("many", &format!("t{n}"))).collect();
    turn(&emulator, &Arc::new(host)).await;
    let asked = &emulator.asked()[0];
    assert_eq!(asked["tools"].as_array().unwrap().len(), 128);
    assert!(asked["messages"][0]["content"].as_str().unwrap().contains("128 of 200"));
}

#[tokio::test]
async fn without_tools_none_are_sent_and_a_cut_answer_says_so() {
    let emulator = Emulator::start(vec![Reply::Chunks(vec![text("half"), finish("length")])]).await;
    let mut host = Host::new(ok);
    host.surface.tools.clear();
    let (end, _) = turn(&emulator, &Arc::new(host)).await;
    assert!(emulator.asked()[0].get("tools").is_none());
    assert!(end.messages[0].ended.as_deref().unwrap().contains("limit"));
}

#[tokio::test]
async fn local_servers_are_found_and_models_listed() {
    let emulator = Emulator::start(vec![]).await;
    let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = |kind, base_url: String| Candidate { kind, base_url };
    let candidates = [
        at("ollama", format!("http://{}/v1", silent.local_addr().unwrap())),
        at("lmstudio", emulator.base_url()),
        at("llamacpp", "http://127.0.0.1:1/v1".to_owned()),
    ];
    let found = discover_at(&candidates, Duration::from_millis(500)).await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].kind, found[0].models.join(" ")), ("lmstudio", "llama3 qwen-max".to_owned()));

    let key = Secret::new(KEY);
    assert_eq!(list_models(&emulator.base_url(), Some(&key)).await.unwrap().len(), 2);
    let wrong = Secret::new("sk-wrong-one");
    let problem = list_models(&emulator.base_url(), Some(&wrong)).await.unwrap_err();
    assert!(matches!(problem, ModelError::Unauthorized { .. }));
    assert!(!format!("{problem} {problem:?}").contains("sk-wrong"));
}
