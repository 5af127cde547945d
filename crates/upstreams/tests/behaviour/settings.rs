//! Settings of one server, the way to it, and the states that follow from both.

use std::{
    collections::BTreeMap,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use evi_domain::{CallContext, CallError, EraChoice, TransportSpec, UpstreamSpec, UpstreamState};
use evi_upstreams::{Settings, Upstreams};

use crate::support::{House, Vault, Web, house, house_with, http_spec, raw, server, until};

async fn call(house: &House, name: &str, tool: &str) -> Result<String, CallError> {
    let called = house.upstreams.call(&name.into(), tool, &raw("{}"), &CallContext::default()).await;
    called.map(|result| result.to_model_text())
}

fn with(mut spec: UpstreamSpec, set: impl FnOnce(&mut evi_domain::UpstreamOptions)) -> UpstreamSpec {
    set(&mut spec.options);
    spec
}

#[tokio::test]
async fn i37_a_server_is_spoken_to_as_its_settings_say() {
    let (old, new) = (Web::start("plain"), Web::start("modern"));
    let house = house();
    house.ready(with(old.spec("a"), |o| o.era = EraChoice::Legacy)).await;
    assert_eq!(old.saw("POST server/discover"), 0);
    let status = house.ready(with(new.spec("b"), |o| o.era = EraChoice::Modern)).await;
    assert_eq!(status.protocol.as_deref(), Some("2026-07-28"));
    let refused = house.run(with(old.spec("c"), |o| o.era = EraChoice::Modern)).await.failure.unwrap();
    assert!(refused.message.contains("era modern"), "{refused:?}");
    until("POST initialize", || old.saw("POST initialize") == 1).await;
    let refused = house.run(with(new.spec("d"), |o| o.era = EraChoice::Legacy)).await;
    assert_eq!(refused.state, UpstreamState::Failed, "{refused:?}");
    let silent = with(server("e", &["modern"]), |o| o.era = EraChoice::Modern);
    assert_eq!(house.ready(silent).await.protocol.as_deref(), Some("2026-07-28"));
}

#[tokio::test]
async fn i37_the_era_is_remembered_over_restarts_and_a_wrong_memory_heals() {
    let (old, new) = (Web::start("plain"), Web::start("modern"));
    let first = house();
    first.upstreams.apply(vec![old.spec("a"), new.spec("b")]);
    first.wait("a", |s| s.state == UpstreamState::Ready).await;
    first.wait("b", |s| s.state == UpstreamState::Ready).await;
    until("POST server/discover", || old.saw("POST server/discover") == 1).await;
    until("both are noted", || first.cache.1.lock().unwrap().len() == 2).await;
    first.upstreams.shutdown().await;
    let cache = first.cache.clone();
    for note in cache.1.lock().unwrap().values_mut() {
        *note = note.replace("modern", "legacy");
    }
    let again = || {
        let upstreams =
            Upstreams::new(Settings::default(), std::sync::Arc::new(Vault::default()), cache.clone());
        House { upstreams, vault: first.vault.clone(), cache: cache.clone() }
    };
    let second = again();
    second.ready(old.spec("a")).await;
    until("POST server/discover", || old.saw("POST server/discover") == 1).await;
    second.upstreams.shutdown().await;
    let third = again();
    third.upstreams.apply(vec![new.spec("b")]);
    third.wait("b", |s| s.state == UpstreamState::Ready).await;
    until("POST initialize", || new.saw("POST initialize") == 1).await;
    until("the right one is noted", || cache.1.lock().unwrap().values().any(|note| note.contains("modern")))
        .await;
    // Another spec is another server.
    let fourth = again();
    fourth.ready(with(old.spec("a"), |o| o.call_secs = Some(9))).await;
    until("POST server/discover", || old.saw("POST server/discover") == 2).await;
}

#[tokio::test]
async fn the_limits_of_a_server_hold_and_stand_in_the_words() {
    let web = Web::start("plain");
    let house = house();
    house.ready(with(web.spec("a"), |o| o.call_secs = Some(1))).await;
    let error = call(&house, "a", "hang").await.unwrap_err();
    assert!(
        matches!(error, CallError::TimedOut { after, .. } if after == Duration::from_secs(1)),
        "{error:?}"
    );
    house.ready(with(web.spec("b"), |o| o.total_secs = Some(1))).await;
    let error = call(&house, "b", "hang").await.unwrap_err();
    assert!(
        matches!(error, CallError::TimedOut { after, .. } if after == Duration::from_secs(1)),
        "{error:?}"
    );
    let hangs = with(server("c", &["hang"]), |o| o.start_secs = Some(1));
    let failure = house.run(hangs).await.failure.unwrap();
    assert!(failure.message.contains("within 1 s"), "{failure:?}");
}

#[tokio::test]
async fn a_certificate_of_ones_own_is_trusted_where_its_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = rcgen::CertifiedIssuer::self_signed(params, ca_key).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let cert =
        rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
    for (name, text) in [("ca.pem", ca.pem()), ("cert.pem", cert.pem()), ("key.pem", key.serialize_pem())] {
        std::fs::write(file(name), text).unwrap();
    }
    let web = Web::start_tls("plain", &file("cert.pem"), &file("key.pem"));
    let house = house();
    let spec = |name: &str, ca: Option<String>| {
        let spec = http_spec(name, &format!("https://127.0.0.1:{}/mcp", web.port));
        with(spec, |options| options.ca = ca)
    };
    let failure = house.run(spec("a", None)).await.failure.unwrap();
    assert_eq!(failure.code, "tls", "{failure:?}");
    house.vault.0.lock().unwrap().insert("place".into(), Ok(file("ca.pem")));
    house.ready(spec("b", Some("${secret:place}".into()))).await;
    assert!(call(&house, "b", "echo").await.is_ok());
    for (name, wrong) in [("c", file("none.pem")), ("d", fixture_that_is_no_pem())] {
        let failure = house.run(spec(name, Some(wrong.clone()))).await.failure.unwrap();
        assert_eq!(failure.code, "invalid_config", "{failure:?}");
        assert!(failure.message.contains(&wrong) && failure.hint.is_some(), "{failure:?}");
    }
}

fn fixture_that_is_no_pem() -> String {
    crate::support::fixture("adversary/web.py")
}

const PROXIED: &str = "EVI_TEST_PROXIED";

/// A process of its own: what a proxy is, is read from its environment.
#[tokio::test]
async fn plays_the_one_behind_a_proxy() {
    let Some(direct) = std::env::var(PROXIED).ok() else { return };
    let house = house();
    house.ready(http_spec("far", "http://evi-test.invalid/mcp")).await;
    house.ready(http_spec("near", &direct)).await;
    let excepted = house.run(http_spec("excepted", "http://direct.invalid/mcp")).await.failure.unwrap();
    assert_eq!(excepted.code, "host_not_found", "{excepted:?}");
    house.upstreams.shutdown().await;
}

#[tokio::test]
async fn the_proxy_of_the_environment_is_used_and_this_machine_is_reached_without_it() {
    let (proxy, near) = (Web::start("plain"), Web::start("plain"));
    let mut behind = Command::new(std::env::current_exe().unwrap());
    behind.args(["--exact", "settings::plays_the_one_behind_a_proxy"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"] {
        behind.env(name, format!("http://127.0.0.1:{}", proxy.port));
    }
    behind.env("NO_PROXY", "direct.invalid").env("no_proxy", "direct.invalid");
    behind.env(PROXIED, format!("http://127.0.0.1:{}/mcp", near.port)).stdout(Stdio::null());
    let mut behind = behind.spawn().unwrap();
    until("it has ended", || behind.try_wait().unwrap().is_some()).await;
    assert!(behind.wait().unwrap().success());
    until("both were asked", || (proxy.saw("POST initialize"), near.saw("POST initialize")) == (1, 1)).await;
}

#[tokio::test]
async fn a_service_that_wants_a_sign_in_says_so_at_the_start_and_later() {
    let house = house();
    let refusing = Web::start("401");
    let status = house.run(refusing.spec("a")).await;
    assert_eq!(status.state, UpstreamState::SignInNeeded, "{status:?}");
    assert!(status.failure.unwrap().hint.unwrap().contains("sign in"));
    let asked = refusing.saw("POST");
    let web = Web::start("plain");
    house.ready(web.spec("b")).await;
    call(&house, "b", "lock").await.unwrap();
    call(&house, "b", "echo").await.unwrap_err();
    house.wait("b", |s| s.state == UpstreamState::SignInNeeded).await;
    // One new session is tried, and then it waits for the person.
    until("one more try", || web.saw("POST server/discover") + web.saw("POST initialize") >= 3).await;
    house.wait("b", |s| s.state == UpstreamState::SignInNeeded).await;
    assert_eq!(refusing.saw("POST"), asked, "it is not asked again by itself");
}

#[tokio::test]
async fn i20_a_server_that_is_asked_again_is_stale_and_its_tools_stay_offered() {
    let web = Web::start("plain");
    let house = house();
    house.ready(web.spec("a")).await;
    call(&house, "a", "shut").await.unwrap();
    house.upstreams.check();
    house.wait("a", |s| s.state == UpstreamState::Stale).await;
    assert_eq!(house.tools("a").len(), 3);
    call(&house, "a", "open").await.unwrap();
    house.wait("a", |s| s.state == UpstreamState::Ready).await;
    until("POST initialize", || web.saw("POST initialize") == 1).await;
}

#[tokio::test]
async fn i20_when_the_way_to_one_server_fails_every_other_behind_a_network_is_asked_again() {
    let (lost, other) = (Web::start("plain"), Web::start("plain"));
    let house = house();
    house.upstreams.apply(vec![lost.spec("a"), other.spec("b"), server("c", &["plain"])]);
    for name in ["a", "b", "c"] {
        house.wait(name, |s| s.state == UpstreamState::Ready).await;
    }
    let before = other.saw("POST tools/list");
    drop(lost);
    call(&house, "a", "echo").await.unwrap_err();
    until("the other is asked", || other.saw("POST tools/list") > before).await;
    house.wait("b", |s| s.state == UpstreamState::Ready).await;
    assert_eq!(house.wait("c", |_| true).await.state, UpstreamState::Ready);
}

#[tokio::test]
async fn i06_arguments_arrive_element_for_element_and_a_childs_path_holds_its_own_folder() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("my tools");
    std::fs::create_dir(&own).unwrap();
    let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let python = String::from_utf8(python.stdout).unwrap();
    let program = own.join("evi test python");
    std::os::unix::fs::symlink(Path::new(python.trim()), &program).unwrap();
    let words = [
        "C:\\My Vault\\",
        "a \"b\" 'c'",
        "&",
        "^",
        "%PATH%",
        "$HOME",
        "*",
        "",
        "tab\tand\nline",
        "é",
        "back\\",
    ];
    let mut spec = server("a", &[&["plain"], &words[..]].concat());
    if let TransportSpec::Stdio { command, env, .. } = &mut spec.transport {
        *command = program.to_string_lossy().into_owned();
        *env = BTreeMap::new();
    }
    let house = house_with(Settings { start_limit: Duration::from_secs(15), ..Settings::default() });
    house.ready(spec).await;
    let got: serde_json::Value = serde_json::from_str(&call(&house, "a", "argv").await.unwrap()).unwrap();
    assert_eq!(got["argv"], serde_json::json!(words));
    let own = serde_json::json!(own);
    assert!(got["path"].as_array().unwrap().contains(&own), "{got}");
}
