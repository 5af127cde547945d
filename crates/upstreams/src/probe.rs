//! Speaks to a process that somebody else started, as another application would: handshake, discovery, and how
//! each went. It neither starts nor ends the process.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use evi_domain::{Failure, Stage, StageKind, StageState};
use rmcp::{
    model::{ClientCapabilities, ClientConfig, Implementation},
    service::serve_directly,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    discovery::{Fresh, Inventory, ListError, list},
    error::Fault,
    handshake::{Broken, Lead, OnSilence, shake},
    log::Log,
    pipe::Pipe,
    wire::{Tap, Wire},
};

/// How a probe went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// `Started`, `Handshake`, `Discovery`, in this order.
    pub stages: Vec<Stage>,
    /// What failed, if anything did. Its stderr is empty: the process is the caller's.
    pub failure: Option<Failure>,
}

/// Speaks over `read` (the process's output) and `write` (its input) for at most `limit`. The way other
/// applications start: `initialize` first.
pub async fn probe(
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    limit: Duration,
) -> Probe {
    let mut stages = vec![
        Stage { kind: StageKind::Started, state: StageState::Done, detail: None, took: Some(Duration::ZERO) },
        pending(StageKind::Handshake),
        pending(StageKind::Discovery),
    ];
    let begun = Instant::now();
    let log = Log::new(None, None);
    let wire = Wire::new();
    let transport = Tap::new(Pipe::new(read, write, Arc::clone(&wire), log.clone()), Arc::clone(&wire));
    let run = run(transport, &wire, &log, &mut stages);
    let outcome = match tokio::time::timeout(limit, run).await {
        Ok(outcome) => outcome,
        Err(_) if stages[1].state == StageState::Done => Err(Fault::DiscoveryTimeout { after: limit }),
        Err(_) => Err(Fault::HandshakeTimeout { after: limit, noise: log.is_noisy() }),
    };
    let failure = outcome.err().map(|fault| {
        if let Some(stage) =
            stages.iter_mut().find(|s| matches!(s.state, StageState::Running | StageState::Pending))
        {
            stage.state = StageState::Failed;
            stage.took = Some(begun.elapsed());
        }
        fault.failure("evi", false, Vec::new())
    });
    Probe { stages, failure }
}

fn pending(kind: StageKind) -> Stage {
    Stage { kind, state: StageState::Pending, detail: None, took: None }
}

fn done(stage: &mut Stage, detail: String, since: Instant) {
    stage.state = StageState::Done;
    stage.detail = Some(detail);
    stage.took = Some(since.elapsed());
}

async fn run(
    mut transport: Tap<Pipe>,
    wire: &Arc<Wire>,
    log: &Log,
    stages: &mut [Stage],
) -> Result<(), Fault> {
    let me = Implementation::new("evi-probe", env!("CARGO_PKG_VERSION"));
    let since = Instant::now();
    stages[1].state = StageState::Running;
    let on_silence = OnSilence::Overlap(Duration::from_secs(3));
    let agreed =
        shake(&mut transport, Lead::Initialize, &me, on_silence, || ()).await.map_err(
            |broken| match broken {
                Broken::Fault(fault) => fault,
                Broken::Closed { .. } | Broken::Silent | Broken::Send(_) => Fault::ClosedOutput,
            },
        )?;
    done(&mut stages[1], format!("protocol {}", agreed.version), since);
    let since = Instant::now();
    stages[2].state = StageState::Running;
    let config = ClientConfig::new(ClientCapabilities::default(), me);
    let mut inventory = Inventory::new(&agreed.info, wire.server());
    let mut service = serve_directly(config, transport, Some(agreed.info));
    let listed = list(service.peer(), wire, log, inventory.declared).await;
    let _ = service.close_with_timeout(Duration::from_secs(1)).await;
    let fresh =
        listed.map_err(ListError::Transport).and_then(Fresh::proven).map_err(|error| match error {
            ListError::Answer(reason) => Fault::Discovery { reason },
            ListError::Transport(_) => Fault::ClosedOutput,
        })?;
    inventory.update(fresh, log);
    done(&mut stages[2], inventory.detail(), since);
    Ok(())
}
