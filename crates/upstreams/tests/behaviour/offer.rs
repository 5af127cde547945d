//! What a server offers beside tools: its lists, and reading, getting and completing.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use evi_domain::{CallContext, CallError, CatalogCache, Completes, Offer};
use evi_upstreams::Settings;
use serde_json::{Value, json};

use crate::support::*;

fn offer(house: &House, name: &str) -> Arc<Offer> {
    Arc::clone(&house.upstreams.catalog().upstreams[&name.into()])
}

fn uris(offer: &Offer) -> Vec<&str> {
    offer.resources.iter().map(evi_domain::ResourceDef::uri).collect()
}

#[tokio::test]
async fn every_list_that_a_server_declares_is_read_to_its_end_and_one_that_fails_fails_alone() {
    let house = house();
    let status = house.ready(server("a", &["offer"])).await;
    let offer = offer(&house, "a");
    assert_eq!(uris(&offer), ["x:1", "x:2"], "two pages, and the one that stands twice once");
    assert_eq!(offer.resources[0].json()["x-own"].to_string(), "[1.0]");
    assert_eq!(offer.prompt("greet").unwrap().json()["arguments"][0]["name"], "who");
    assert_eq!(offer.instructions.as_deref(), Some("Be quick."));
    let about = offer.server.as_ref().unwrap();
    assert_eq!((&about["title"], &about["websiteUrl"]), (&json!("Fake server"), &json!("https://e.org")));
    assert_eq!(about["x-own"].to_string(), "[1.0]", "also what nobody knows yet");
    assert!(offer.completes);
    assert_eq!(
        details(&status)[3],
        "Discovery Done 4 tools, 2 resources, no resource templates (see its log), 1 prompt, 1 left out (see its log)"
    );
    let log = house.log("a");
    assert!(log.contains("lists the resource x:1 twice"), "{log}");
    assert!(log.contains("its resource templates could not be listed: no templates today"), "{log}");
    // The cache is written beside.
    until("the offer is kept", || house.cache.get(&"a".into()).is_some_and(|kept| kept == *offer)).await;
}

#[tokio::test]
async fn a_server_is_ready_when_any_list_came_and_failed_when_none_did() {
    let house = house();
    let status = house.ready(server("p", &["only_prompts"])).await;
    let detail = &details(&status)[3];
    assert!(detail.starts_with("Discovery Done no tools (see its log), no resources"), "{detail}");
    assert_eq!(offer(&house, "p").prompts.len(), 1);
    let status = house.run(server("n", &["no_lists"])).await;
    let failure = status.failure.unwrap();
    assert!(failure.message.contains("no list today"), "{failure:?}");
}

#[tokio::test]
async fn a_changed_list_of_resources_is_read_again_and_the_others_are_not() {
    let house = house();
    house.ready(server("a", &["offer"])).await;
    let before = house.log("a").matches("could not be listed").count();
    let mut changed = house.upstreams.catalog_changed();
    changed.mark_unchanged();
    house.upstreams.call(&"a".into(), "more", &raw("{}"), &CallContext::default()).await.unwrap();
    tokio::time::timeout(LONG, changed.changed()).await.unwrap().unwrap();
    assert_eq!(uris(&offer(&house, "a")), ["x:1", "x:2", "x:3"]);
    let log = house.log("a");
    assert_eq!(log.matches("could not be listed").count(), before + 1, "{log}");
}

#[tokio::test]
async fn a_modern_server_is_asked_for_every_change_that_it_announces() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let house = house();
    let status = house.ready(server("a", &["modern_offer", &notes.display().to_string()])).await;
    assert!(details(&status)[3].contains("2 resources"), "{status:?}");
    assert_eq!(offer(&house, "a").server.as_ref().unwrap()["x-own"].to_string(), "[1.0]");
    let said = "listens to promptsListChanged resourcesListChanged toolsListChanged\n";
    until("the subscription", || std::fs::read_to_string(&notes).is_ok_and(|text| text == said)).await;
    let mut changed = house.upstreams.catalog_changed();
    changed.mark_unchanged();
    house.upstreams.call(&"a".into(), "more", &raw("{}"), &CallContext::default()).await.unwrap();
    tokio::time::timeout(LONG, changed.changed()).await.unwrap().unwrap();
    assert_eq!(uris(&offer(&house, "a")), ["x:1", "x:2", "x:3"]);
}

#[tokio::test]
async fn reading_getting_and_completing_send_what_was_asked_and_give_the_whole_result() {
    let settings = Settings {
        start_limit: Duration::from_secs(15),
        call_limit: Duration::from_millis(1500),
        ..Settings::default()
    };
    let house = house_with(settings);
    house.ready(server("a", &["offer"])).await;
    let (a, context) = ("a".into(), CallContext::default());
    let read = house.upstreams.read_resource(&a, "x:9", &context).await.unwrap();
    assert!(read.get().contains("\"x-own\": [1.0]"), "byte for byte: {read}");

    let arguments = BTreeMap::from([("who".to_owned(), "Zoë".to_owned())]);
    let value = |raw: Box<serde_json::value::RawValue>| serde_json::from_str::<Value>(raw.get()).unwrap();
    let got = value(house.upstreams.get_prompt(&a, "greet", &arguments, &context).await.unwrap());
    assert_eq!(
        (&got["params"]["name"], &got["params"]["arguments"]),
        (&json!("greet"), &json!({"who": "Zoë"}))
    );
    let of = Completes::Template("x:{n}".to_owned());
    let got = house.upstreams.complete(&a, &of, ("n", "1"), &arguments, &context).await.unwrap();
    let got = value(got);
    assert_eq!(got["params"]["ref"], json!({"type": "ref/resource", "uri": "x:{n}"}));
    assert_eq!(got["params"]["argument"], json!({"name": "n", "value": "1"}));
    assert_eq!(got["params"]["context"], json!({"arguments": {"who": "Zoë"}}));

    let error = house.upstreams.read_resource(&a, "x:none", &context).await.unwrap_err();
    assert!(matches!(error, CallError::Rpc { code: -32002, data: Some(_), .. }), "{error:?}");
    let error = house.upstreams.read_resource(&a, "x:slow", &context).await.unwrap_err();
    assert_eq!(error.to_string(), "a.x:slow gave no answer within 1 s; the server may still be working");
}
