//! What is known of one upstream now: its status, its log and the way in for calls. Its actor writes it,
//! everybody reads it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use evi_domain::{Failure, Stage, StageKind, StageState, UpstreamName, UpstreamState, UpstreamStatus};

use crate::{call::Link, discovery::Inventory, error::Fault, log::Log, pulse::Pulse};

/// Lines of stderr that go with a failure.
const STDERR_TAIL: usize = 20;

const KINDS: [StageKind; 4] =
    [StageKind::Saved, StageKind::Started, StageKind::Handshake, StageKind::Discovery];

pub(crate) struct Board {
    pub(crate) name: UpstreamName,
    pub(crate) log: Log,
    pulse: Pulse,
    state: Mutex<State>,
}

struct State {
    status: UpstreamStatus,
    link: Option<Arc<Link>>,
    /// When the running stage began.
    since: Instant,
    /// Where the log of this run begins.
    mark: u64,
}

/// What a server that is ready says of itself.
pub(crate) struct Introduction {
    pub(crate) server: Option<(String, String)>,
    pub(crate) version: String,
    pub(crate) tools: usize,
}

impl Board {
    pub(crate) fn new(name: UpstreamName, log: Log, pulse: Pulse) -> Self {
        let status = UpstreamStatus {
            name: name.clone(),
            state: UpstreamState::Starting,
            stages: fresh_stages(),
            failure: None,
            tools: 0,
            server: None,
            protocol: None,
            pid: None,
        };
        let state = State { status, link: None, since: Instant::now(), mark: log.mark() };
        Self { name, log, pulse, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.pulse.tick();
    }

    pub(crate) fn status(&self) -> UpstreamStatus {
        self.state().status.clone()
    }

    /// Whether it is on its way and nothing is known of how that ends: one that failed and is tried again has its
    /// last failure.
    pub(crate) fn is_untried(&self) -> bool {
        let state = self.state();
        state.status.state.is_on_its_way() && state.status.failure.is_none()
    }

    /// The way in, while it is ready.
    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        self.state().link.clone()
    }

    /// Why there is no way in.
    pub(crate) fn unavailable(&self) -> String {
        let state = self.state();
        match (&state.status.failure, &state.status.state) {
            (Some(failure), _) => failure.message.clone(),
            (None, UpstreamState::Starting) => "it is still starting".to_owned(),
            (None, UpstreamState::Installing) => "it is still being installed".to_owned(),
            _ => "it is not running".to_owned(),
        }
    }

    /// A new start that somebody wants: what failed before is over.
    pub(crate) fn begin(&self) {
        self.state().status.failure = None;
        self.begin_again();
    }

    /// Another try. The last failure stays to be seen until this one ends.
    pub(crate) fn begin_again(&self) {
        self.update(|state| {
            state.status.state = UpstreamState::Starting;
            state.status.stages = fresh_stages();
            state.status.tools = 0;
            state.status.server = None;
            state.status.protocol = None;
            state.status.pid = None;
            state.since = Instant::now();
        });
    }

    /// What stderr says from now on belongs to this run.
    pub(crate) fn begin_run(&self) {
        let mark = self.log.mark();
        self.state().mark = mark;
    }

    pub(crate) fn stage_runs(&self, kind: StageKind) {
        self.update(|state| {
            state.since = Instant::now();
            if let Some(stage) = stage_mut(state, kind) {
                *stage = Stage { kind, state: StageState::Running, detail: None, took: None };
            }
        });
    }

    pub(crate) fn stage_done(&self, kind: StageKind, detail: String) {
        self.update(|state| {
            let took = Some(state.since.elapsed());
            if let Some(stage) = stage_mut(state, kind) {
                *stage = Stage { kind, state: StageState::Done, detail: Some(detail), took };
            }
        });
    }

    pub(crate) fn set_pid(&self, pid: Option<u32>) {
        self.update(|state| state.status.pid = pid);
    }

    /// While it is on its way: whether it downloads what it runs.
    pub(crate) fn installs(&self, installing: bool) {
        let (from, to) = if installing {
            (UpstreamState::Starting, UpstreamState::Installing)
        } else {
            (UpstreamState::Installing, UpstreamState::Starting)
        };
        if self.state().status.state == from {
            self.update(|state| state.status.state = to);
        }
    }

    /// What stderr of this run says so far.
    pub(crate) fn has_said_something(&self) -> bool {
        let mark = self.state().mark;
        !self.log.stderr_since(mark, 1).is_empty()
    }

    /// The stage under way, if any.
    pub(crate) fn running_stage(&self) -> Option<StageKind> {
        self.state().status.stages.iter().find(|s| s.state == StageState::Running).map(|s| s.kind)
    }

    /// Opens the way in. Before the catalogue has its offer, so that whoever finds a tool can call it.
    pub(crate) fn open(&self, link: Arc<Link>) {
        self.state().link = Some(link);
    }

    pub(crate) fn ready(&self, introduction: Introduction) {
        self.update(|state| {
            state.status.state = UpstreamState::Ready;
            state.status.failure = None;
            state.status.server = introduction.server;
            state.status.protocol = Some(introduction.version);
            state.status.tools = introduction.tools;
        });
    }

    /// Whether it is being asked if it is still there. Its tools stay offered meanwhile.
    pub(crate) fn doubted(&self, doubted: bool) {
        let (from, to) = if doubted {
            (UpstreamState::Ready, UpstreamState::Stale)
        } else {
            (UpstreamState::Stale, UpstreamState::Ready)
        };
        if self.state().status.state == from {
            self.update(|state| state.status.state = to);
        }
    }

    /// What it offers was listed again.
    pub(crate) fn relisted(&self, inventory: &Inventory) {
        self.update(|state| {
            state.status.tools = inventory.offer.tools.len();
            if let Some(stage) = stage_mut(state, StageKind::Discovery) {
                stage.detail = Some(inventory.detail());
            }
        });
    }

    /// Takes the way in: no new call finds it.
    pub(crate) fn unlink(&self) -> Option<Arc<Link>> {
        let link = self.state().link.take();
        self.pulse.tick();
        link
    }

    /// What this fault looks like to a person.
    pub(crate) fn describe(&self, fault: &Fault, was_ready: bool) -> Failure {
        let stderr = self.log.stderr_since(self.state().mark, STDERR_TAIL);
        let mut failure = fault.failure(self.name.as_str(), was_ready, stderr);
        failure.message = self.log.redact(&failure.message);
        failure.hint = failure.hint.map(|hint| self.log.redact(&hint));
        failure
    }

    /// It did not come up, or went away.
    pub(crate) fn failed(&self, fault: &Fault, was_ready: bool) {
        let failure = self.describe(fault, was_ready);
        self.log.push(evi_domain::LogStream::Evi, &failure.message);
        let shown = match fault {
            Fault::SecretLocked(_) => UpstreamState::SecretLocked,
            Fault::CrashLoop { .. } => UpstreamState::Parked,
            Fault::Status { status: 401, .. } => UpstreamState::SignInNeeded,
            _ => UpstreamState::Failed,
        };
        self.update(|state| {
            state.status.state = shown;
            state.status.failure = Some(failure);
            state.status.tools = 0;
            state.status.pid = None;
            let took = state.since.elapsed();
            for stage in state.status.stages.iter_mut().filter(|s| s.state == StageState::Running) {
                stage.state = StageState::Failed;
                stage.took = Some(took);
            }
        });
    }
}

fn fresh_stages() -> Vec<Stage> {
    let stage = |kind| match kind {
        StageKind::Saved => Stage { kind, state: StageState::Done, detail: None, took: Some(Duration::ZERO) },
        _ => Stage { kind, state: StageState::Pending, detail: None, took: None },
    };
    KINDS.map(stage).into()
}

fn stage_mut(state: &mut State, kind: StageKind) -> Option<&mut Stage> {
    state.status.stages.iter_mut().find(|stage| stage.kind == kind)
}
