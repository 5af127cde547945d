//! Who owns a home: claims that race, owners that die, higher ranks, other protocols, long paths.

use std::{path::Path, time::Duration};

use evi_attach::{AttachError, Claim, Entry, Hello, Kind, Place, Rank};
use evi_domain::Exposure;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
};

use crate::support::{Peer, claim, own, soon};

fn home() -> (TempDir, Place) {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path().join("state/run"));
    (folder, place)
}

fn hello(kind: Kind, rank: Rank) -> Hello {
    Hello::new(kind, rank, Exposure::default())
}

#[tokio::test]
async fn one_of_eight_claims_at_once_owns_the_home() {
    let (_folder, place) = home();
    let mut claims = JoinSet::new();
    for _ in 0..8 {
        let place = place.clone();
        claims.spawn(async move { claim(&place, Rank::Serve).await });
    }
    let claims = soon(claims.join_all()).await;
    let owners: Vec<_> = claims
        .iter()
        .filter_map(|claim| if let Claim::Owner(owner) = claim { Some(owner) } else { None })
        .collect();
    assert_eq!(owners.len(), 1);
    for claim in &claims {
        if let Claim::Other(info) = claim {
            assert_eq!(info, owners[0].info());
        }
    }
}

#[tokio::test]
async fn one_of_four_processes_owns_the_home() {
    let (folder, _) = home();
    let mut peers: Vec<_> = (0..4).map(|_| Peer::start(folder.path(), Rank::Serve)).collect();
    let mut said = Vec::new();
    for peer in &mut peers {
        said.push(peer.says().await);
    }
    said.sort();
    assert_eq!(said, ["other", "other", "other", "owner"]);
}

#[tokio::test]
async fn a_killed_owner_frees_the_home_and_its_socket_is_replaced() {
    let (folder, place) = home();
    let run_dir = folder.path().join("state/run");
    let mut peer = Peer::start(&run_dir, Rank::Desktop);
    assert_eq!(peer.says().await, "owner");
    let Claim::Other(former) = claim(&place, Rank::Serve).await else { panic!("taken twice") };
    assert_eq!(Some(former.pid), peer.process.id());

    peer.process.kill().await.unwrap();
    let mut owner = own(&place, Rank::Command).await;
    assert_ne!(owner.info().id, former.id);
    let caller = place.clone();
    let connecting = tokio::spawn(async move { caller.connect(hello(Kind::Mcp, Rank::Serve)).await });
    let mut incoming = soon(owner.accept()).await;
    let mut connection = connecting.await.unwrap().unwrap();
    connection.write_all(b"ping").await.unwrap();
    let mut got = [0; 4];
    incoming.stream.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"ping");
}

#[tokio::test]
async fn a_hello_carries_what_the_client_may_see() {
    let (_folder, place) = home();
    let mut owner = own(&place, Rank::Serve).await;
    let exposure = Exposure {
        profile: Some("work".into()),
        categories: Some(vec!["memory".into()]),
        tools: Some(vec!["a".into()]),
    };
    let said = Hello::new(Kind::App, Rank::Command, exposure);
    let _connection = place.connect(said.clone()).await.unwrap();
    assert_eq!(soon(owner.accept()).await.hello, said);
}

#[tokio::test]
async fn a_higher_rank_gets_the_home_and_a_lower_or_equal_one_does_not() {
    let (folder, place) = home();
    let mut peer = Peer::start(&folder.path().join("state/run"), Rank::Serve);
    assert_eq!(peer.says().await, "owner");
    for rank in [Rank::Command, Rank::Serve] {
        assert!(matches!(claim(&place, rank).await, Claim::Other(info) if info.rank == Rank::Serve));
    }
    let desktop = own(&place, Rank::Desktop).await;
    assert_eq!(peer.says().await, "released");
    assert!(matches!(claim(&place, Rank::Desktop).await, Claim::Other(info) if &info == desktop.info()));
}

#[tokio::test]
async fn an_old_owner_that_claims_again_at_once_does_not_get_between() {
    let (_folder, place) = home();
    let old = own(&place, Rank::Serve).await;
    let handover = old.handover();
    let again = place.clone();
    let old = tokio::spawn(async move {
        handover.cancelled().await;
        old.release().await;
        let attached = again.enter(hello(Kind::Mcp, Rank::Serve), Duration::from_secs(10)).await.unwrap();
        assert!(matches!(attached, Entry::Attached(_)), "it owns the home again");
    });
    let mut desktop = own(&place, Rank::Desktop).await;
    assert_eq!(soon(desktop.accept()).await.hello.rank, Rank::Serve);
    soon(old).await.unwrap();
}

#[tokio::test]
async fn an_owner_that_does_not_let_go_keeps_the_home_and_turns_newcomers_away() {
    let (_folder, place) = home();
    let owner = own(&place, Rank::Serve).await;
    let refused = place.claim(Rank::Desktop, Duration::from_millis(200)).await;
    assert!(matches!(refused, Err(AttachError::Silent { .. })), "{refused:?}");
    assert!(owner.handover().is_cancelled());
    owner.release().await;
    let gone = place.connect(hello(Kind::Mcp, Rank::Serve)).await;
    assert!(matches!(gone, Err(AttachError::NoOwner)), "{gone:?}");
}

#[tokio::test]
async fn everybody_attaches_to_one_new_owner_when_the_old_one_is_killed() {
    let (folder, place) = home();
    let mut peer = Peer::start(&folder.path().join("state/run"), Rank::Desktop);
    assert_eq!(peer.says().await, "owner");
    peer.process.kill().await.unwrap();
    let mut entering = JoinSet::new();
    for _ in 0..6 {
        let place = place.clone();
        entering.spawn(async move {
            place.enter(hello(Kind::Mcp, Rank::Serve), Duration::from_secs(10)).await.unwrap()
        });
    }
    let entries = soon(entering.join_all()).await;
    let attached = entries.iter().filter(|entry| matches!(entry, Entry::Attached(_))).count();
    assert_eq!(attached, 5);
}

#[tokio::test]
async fn another_protocol_is_told_apart_from_a_dead_owner() {
    let (_folder, place) = home();
    let _owner = own(&place, Rank::Serve).await;
    let mut other = hello(Kind::Mcp, Rank::Serve);
    other.proto = 99;
    let refused = place.connect(other).await;
    assert!(matches!(refused, Err(AttachError::Proto { theirs: 1, ours: 99 })), "{refused:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_first_line_without_an_end_or_a_sense_is_turned_away() {
    let (_folder, place) = home();
    let mut owner = own(&place, Rank::Serve).await;
    for line in ["x".repeat(70_000), "{}\n".into(), "{\"proto\":1,\"kind\":\"tea\"}\n".into()] {
        let mut stream = tokio::net::UnixStream::connect(&owner.info().socket).await.unwrap();
        // The owner may have closed before all of it was written.
        let _ = stream.write_all(line.as_bytes()).await;
        let mut answer = String::new();
        let _ = soon(stream.read_to_string(&mut answer)).await;
        assert!(answer.is_empty() || answer.contains(r#""ok":false"#), "{answer}");
    }
    let _connection = place.connect(hello(Kind::Mcp, Rank::Serve)).await.unwrap();
    assert_eq!(soon(owner.accept()).await.hello.kind, Kind::Mcp);
}

#[cfg(unix)]
#[tokio::test]
async fn the_socket_and_its_folder_are_closed_to_others() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, place) = home();
    let owner = own(&place, Rank::Serve).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let run_dir = folder.path().join("state/run");
    assert_eq!(mode(&run_dir), 0o700);
    assert_eq!(mode(Path::new(&owner.info().socket)), 0o600);
    assert_eq!(mode(&run_dir.join("owner.json")), 0o600);
    let socket = owner.info().socket.clone();
    owner.release().await;
    assert!(!Path::new(&socket).exists());
    assert!(place.present().is_none());
}

#[cfg(unix)]
#[tokio::test]
async fn a_long_path_is_reached_from_another_environment() {
    let (folder, _) = home();
    let run_dir = folder.path().join("long".repeat(30)).join("run");
    let runtime = tempfile::tempdir().unwrap();
    std::fs::set_permissions(runtime.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let mut peer = Peer::start_with(&run_dir, Rank::Serve, &[("XDG_RUNTIME_DIR", runtime.path())]);
    assert_eq!(peer.says().await, "owner");
    let place = Place::new(&run_dir);
    let info = place.present().unwrap();
    assert!(Path::new(&info.socket).starts_with(runtime.path()), "{}", info.socket);
    place.connect(hello(Kind::Mcp, Rank::Serve)).await.unwrap();

    // The next owner, with another environment, cleans up after a killed one.
    peer.process.kill().await.unwrap();
    let owner = own(&place, Rank::Serve).await;
    let socket = owner.info().socket.clone();
    assert!(socket == info.socket || !Path::new(&info.socket).exists());
    owner.release().await;
    assert!(!Path::new(&socket).exists());
}
