//! How a server comes up, and every way in which it does not.

use std::time::Duration;

use evi_domain::{LogStream, StageKind, StageState, TransportSpec, UpstreamSpec, UpstreamState};
use evi_upstreams::{Settings, probe};

use crate::support::{House, Vault, command, details, house, house_with, http_spec, server, with_env};

async fn failure(house: &House, spec: UpstreamSpec) -> evi_domain::Failure {
    let status = house.run(spec).await;
    assert_eq!(status.state, UpstreamState::Failed, "{status:?}");
    assert_eq!(status.tools, 0);
    status.failure.unwrap()
}

#[tokio::test]
async fn a_server_goes_through_its_four_stages() {
    let house = house();
    let status = house.ready(server("a", &["plain"])).await;
    let details = details(&status);
    assert_eq!(details[0], "Saved Done -");
    assert_eq!(details[1], format!("Started Done pid {}", status.pid.unwrap()));
    assert_eq!(details[2], "Handshake Done protocol 2025-11-25");
    assert_eq!(details[3], "Discovery Done 4 tools");
    assert!(status.stages.iter().all(|s| s.took.is_some()));
    assert_eq!(status.server, Some(("fake".into(), "1".into())));
    assert_eq!(house.tools("a"), ["echo", "slow", "crash", "grow"]);
    let catalog = house.upstreams.catalog();
    let echo = catalog.upstreams.values().next().unwrap().tools[0].json().clone();
    assert_eq!(echo["execution"]["taskSupport"], "optional");
    assert_eq!(echo["x-own"].to_string(), "[1.0]");
    let _ = evi_domain::CatalogCache::get(house.cache.as_ref(), &"a".into()).is_some();
}

#[tokio::test]
async fn i34_a_banner_and_a_byte_order_mark_are_logged_and_skipped() {
    let house = house();
    house.ready(server("a", &["banner"])).await;
    let log = house.upstreams.log(&"a".into());
    assert!(log.iter().any(|l| l.stream == LogStream::Stdout && l.text == "Starting…"), "{log:?}");
    assert!(log.iter().any(|l| l.stream == LogStream::Evi && l.text.contains("prints to stdout")));
}

#[tokio::test]
async fn a_missing_program_is_named_with_what_to_install() {
    let house = house();
    let failure = failure(&house, command("a", "evi-no-such-npx", vec![])).await;
    assert_eq!(failure.code, "program_not_found");
    assert_eq!(failure.message, "could not start \"a\": program not found: evi-no-such-npx");
    assert!(failure.hint.unwrap().contains("searched: /"));
}

#[tokio::test]
async fn a_program_that_exits_at_once_shows_its_code_and_its_last_lines() {
    let house = house();
    let failure = failure(&house, server("a", &["exit"])).await;
    assert_eq!(failure.code, "exited");
    assert!(failure.message.contains("code 2"), "{}", failure.message);
    assert_eq!(failure.stderr, ["first line", "no API key"]);
    let stages = house.upstreams.status(&"a".into()).unwrap().stages;
    assert_eq!((stages[2].kind, stages[2].state), (StageKind::Handshake, StageState::Failed));
}

#[tokio::test]
async fn while_it_is_tried_again_the_last_failure_is_seen_and_nobody_waits_for_it() {
    let house = house();
    house.upstreams.apply(vec![server("a", &["exit"])]);
    let again = house.wait("a", |s| s.state == UpstreamState::Starting && s.failure.is_some()).await;
    assert_eq!(again.failure.unwrap().code, "exited");
    house.upstreams.settled(crate::support::LONG).await;
    house.upstreams.restart(&"a".into());
    assert_eq!(
        house.upstreams.status(&"a".into()).unwrap().failure,
        None,
        "a start that somebody wants is a new one"
    );
}

#[tokio::test]
async fn junk_and_silence_end_in_a_handshake_timeout_and_leave_no_process() {
    let house = house_with(Settings { start_limit: Duration::from_secs(3), ..Settings::default() });
    house.upstreams.apply(vec![server("hang", &["hang"]), server("junk", &["junk"])]);
    let hang = house.wait("hang", |s| s.state == UpstreamState::Failed).await.failure.unwrap();
    assert_eq!(hang.code, "handshake_timeout");
    let junk = house.wait("junk", |s| s.state == UpstreamState::Failed).await.failure.unwrap();
    assert_eq!(junk.code, "handshake_timeout");
    assert!(junk.message.contains("not the protocol"), "{}", junk.message);
    assert!(
        house.log("junk").contains("the last line came")
            || house.log("junk").contains("Stdout not the protocol")
    );
}

#[tokio::test]
async fn i60_a_first_run_that_downloads_shows_as_installing_with_its_stderr() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (npx, gate) = (folder.path().join("npx"), folder.path().join("gate"));
    let script = "#!/bin/sh\necho 'fetching the package' >&2\nwhile [ ! -e \"$1\" ]; do sleep 0.05; done\nexec python3 \"$2\" lines plain\n";
    std::fs::write(&npx, script).unwrap();
    std::fs::set_permissions(&npx, std::fs::Permissions::from_mode(0o755)).unwrap();
    let house = house_with(Settings { start_limit: Duration::from_secs(6), ..Settings::default() });
    let args = vec![gate.to_str().unwrap().to_owned(), crate::support::fixture("adversary")];
    house.upstreams.apply(vec![command("a", npx.to_str().unwrap(), args)]);
    let status = house.wait("a", |s| s.state == UpstreamState::Installing).await;
    assert_eq!((status.stages[1].state, status.stages[2].state), (StageState::Done, StageState::Running));
    assert!(house.log("a").contains("Stderr fetching the package"));
    let arguments = crate::support::raw("{}");
    let early = house.upstreams.call(&"a".into(), "echo", &arguments, &Default::default()).await.unwrap_err();
    assert!(early.to_string().contains("being installed"), "{early}");
    std::fs::write(&gate, "").unwrap();
    house.wait("a", |s| s.state == UpstreamState::Ready).await;
}

#[tokio::test]
async fn i36_any_known_version_is_accepted_and_others_are_refused_by_name() {
    let house = house();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let status = house.ready(server("a", &["version", version])).await;
        assert_eq!(status.protocol.as_deref(), Some(version));
    }
    let failure = failure(&house, server("b", &["version", "2099-01-01"])).await;
    assert_eq!(failure.code, "unsupported_version");
    assert!(failure.message.contains("2099-01-01"));
}

#[tokio::test]
async fn i37_a_server_that_never_answers_the_probe_is_initialized() {
    let house = house();
    house.upstreams.apply(vec![
        server("silent", &["silent_discover"]),
        server("slow", &["slow_start"]),
        server("odd", &["odd"]),
        server("dies", &["dies_on_discover"]),
        server("echoes", &["version", "2026-07-28"]),
        server("modern", &["modern"]),
        server("refuses", &["says_32022"]),
    ]);
    for name in ["silent", "slow", "odd", "dies", "echoes", "modern", "refuses"] {
        let status = house.wait(name, |s| s.state != UpstreamState::Starting).await;
        assert_eq!(status.state, UpstreamState::Ready, "{name}: {status:?}");
        assert_eq!(status.tools, 4);
    }
    let protocol = |name: &str| house.upstreams.status(&name.into()).unwrap().protocol.unwrap();
    assert_eq!(protocol("dies"), "2025-11-25");
    assert_eq!(protocol("modern"), "2026-07-28");
}

#[tokio::test]
async fn every_page_of_tools_is_read_and_a_repeated_one_ends_the_list() {
    let house = house();
    house.upstreams.apply(vec![server("p", &["paged"]), server("r", &["repeat"])]);
    house.upstreams.settled(crate::support::LONG).await;
    assert_eq!(house.tools("p"), ["t0", "t1", "t2", "t3", "t4"]);
    assert_eq!(house.tools("r"), ["first", "second"]);
    assert!(house.log("r").contains("repeats a page"));
    house.ready(server("e", &["endless"])).await;
    assert_eq!(house.tools("e").len(), 200, "a list without an end has one");
    assert!(house.log("e").contains("more than 200 pages"), "{}", house.log("e"));
}

#[tokio::test]
async fn i47_of_two_tools_with_one_name_the_first_counts_and_the_person_is_told() {
    let house = house();
    house.ready(server("d", &["duplicate"])).await;
    assert_eq!(house.tools("d"), ["x"]);
    let catalog = house.upstreams.catalog();
    assert_eq!(catalog.upstreams[&"d".into()].tools[0].description(), Some("one"));
    assert!(house.log("d").contains("lists the tool x twice"));
    let stages = house.upstreams.status(&"d".into()).unwrap().stages;
    assert_eq!(stages[3].detail.as_deref(), Some("1 tool, 2 left out (see its log)"));
}

#[tokio::test]
async fn a_server_that_never_lists_its_tools_or_lists_nonsense_fails_in_that_step() {
    let house = house_with(Settings { start_limit: Duration::from_secs(2), ..Settings::default() });
    for (mode, code) in [("never_lists", "discovery_timeout"), ("lists_nonsense", "discovery_failed")] {
        let failure = failure(&house, server("a", &[mode])).await;
        assert_eq!(failure.code, code, "{failure:?}");
        let stages = house.upstreams.status(&"a".into()).unwrap().stages;
        assert_eq!((stages[3].kind, stages[3].state), (StageKind::Discovery, StageState::Failed));
    }
}

#[tokio::test]
async fn i68_a_reference_without_value_stops_the_start_and_a_locked_one_waits() {
    let house = house();
    let missing = failure(&house, with_env(server("a", &["plain"]), "KEY", "${secret:nope}")).await;
    assert_eq!(missing.code, "reference_missing");
    assert!(missing.message.contains("secret nope"), "{}", missing.message);
    let unset = failure(&house, with_env(server("b", &["plain"]), "KEY", "${EVI_TEST_UNSET}")).await;
    assert!(unset.message.contains("EVI_TEST_UNSET"));
    let locked =
        |vault: &Vault| vault.0.lock().unwrap().insert("l".into(), Err(evi_domain::SecretError::Locked));
    locked(&house.vault);
    let status = house.run(with_env(server("c", &["plain"]), "KEY", "${secret:l}")).await;
    assert_eq!(status.state, UpstreamState::SecretLocked);
    assert_eq!(status.failure.unwrap().code, "secret_locked");
    house.vault.0.lock().unwrap().insert("l".into(), Ok("open".into()));
    house.upstreams.restart(&"c".into());
    house.wait("c", |s| s.state == UpstreamState::Ready).await;
}

#[tokio::test]
async fn an_address_that_is_none_is_refused_before_anything_starts() {
    let house = house();
    let bad = failure(&house, http_spec("a", "not a url")).await;
    assert_eq!(bad.code, "invalid_config");
    assert!(bad.hint.is_some());
}

#[tokio::test]
async fn a_probe_speaks_to_a_process_that_another_one_started() {
    let start = |mode: &str| {
        let spec = server("x", &[mode]);
        let TransportSpec::Stdio { command, args, .. } = spec.transport else { panic!("not stdio") };
        let mut process = tokio::process::Command::new(command);
        process.args(args).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        process.stderr(std::process::Stdio::null()).kill_on_drop(true).spawn().unwrap()
    };
    let mut good = start("plain");
    let report = probe(good.stdout.take().unwrap(), good.stdin.take().unwrap(), crate::support::LONG).await;
    let kinds: Vec<_> = report.stages.iter().map(|s| (s.kind, s.state)).collect();
    assert_eq!(
        kinds,
        [StageKind::Started, StageKind::Handshake, StageKind::Discovery].map(|k| (k, StageState::Done))
    );
    assert_eq!(report.stages[2].detail.as_deref(), Some("4 tools"));
    assert_eq!(report.failure, None);
    let mut bad = start("exit");
    let report = probe(bad.stdout.take().unwrap(), bad.stdin.take().unwrap(), crate::support::LONG).await;
    assert_eq!(report.stages[1].state, StageState::Failed);
    assert_eq!(report.failure.unwrap().code, "not_mcp");
}
