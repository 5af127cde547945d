//! One upstream's life: starts it, watches it, starts it again after a while, stops it in order. It owns the
//! connection, the process and the board's content; nothing else writes them.

use std::{
    future::pending,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use evi_domain::{EraChoice, LogStream, StageKind, TransportSpec, UpstreamSpec};
use rmcp::{
    RoleClient,
    model::{RequestId, ServerNotification, SubscriptionFilter},
    service::{Peer, ServiceError},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::{
    board::Board,
    call::{Limits, Link},
    connect::{Live, Ready, connect, list_fault},
    discovery::{Changes, Fresh, List, ListError, Lists, list},
    error::{Fault, Outlook},
    handshake::{Era, Lead},
    hub::{Core, seconds},
    memory, process,
};

/// How long running calls may take to end when the upstream is stopped.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// How long a start may keep others waiting: a server that hangs must not hold up the rest.
const TURN_LIMIT: Duration = Duration::from_secs(15);
/// How much longer a start may take that downloads first.
const FETCH_FACTOR: u32 = 3;
/// How long lists that changed may take.
const REFRESH_LIMIT: Duration = Duration::from_secs(30);
/// Announcements of changes often come in bunches.
const SETTLE_TIME: Duration = Duration::from_millis(100);
/// A run at least this long was no crash at once.
const STEADY: Duration = Duration::from_secs(60);
/// Crashes in a row before it is left alone.
const CRASHES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// What calls tell an actor. May be left out when too much comes at once.
pub(crate) enum Note {
    /// Tell the server that nobody waits for this request any more.
    TellCancelled(RequestId),
    /// A call found this wrong with the connection.
    Suspect(Fault),
}

pub(crate) struct Actor {
    pub(crate) core: Arc<Core>,
    pub(crate) board: Arc<Board>,
    /// What to run; every change means a new start, also one to the same spec.
    pub(crate) orders: watch::Receiver<UpstreamSpec>,
    pub(crate) notes: mpsc::Receiver<Note>,
    /// For the links that this actor opens.
    pub(crate) note_sender: mpsc::Sender<Note>,
    pub(crate) cancel: CancellationToken,
    /// What the server turned out to speak.
    pub(crate) era: Option<Era>,
}

/// How a run ended.
enum End {
    /// For good.
    Stop,
    /// Somebody wants a new one, or it is worth one at once.
    Again,
    /// By itself; with how long it had been ready.
    Lost(Fault, Option<Duration>),
}

impl Actor {
    /// Lives until it is cancelled.
    pub(crate) async fn run(mut self) {
        let mut crashes = 0;
        let mut spec = self.orders.borrow_and_update().clone();
        self.era = memory::recall(&self.core, &spec).await;
        loop {
            match self.run_once(&spec).await {
                End::Stop => return,
                End::Again => crashes = 0,
                End::Lost(fault, ready_for) => {
                    if ready_for.is_some_and(|up| up >= STEADY) {
                        crashes = 0;
                    }
                    crashes += 1;
                    let (fault, pause) = judge(fault, ready_for.is_some(), crashes);
                    self.board.failed(&fault, ready_for.is_some());
                    match self.wait(pause).await {
                        None => {}
                        Some(End::Again) => crashes = 0,
                        Some(_) => return,
                    }
                }
            }
            let ordered = self.orders.borrow_and_update().clone();
            if ordered != spec {
                spec = ordered;
                self.era = memory::recall(&self.core, &spec).await;
            }
            // What calls said was about the connection that is gone.
            while self.notes.try_recv().is_ok() {}
        }
    }

    async fn run_once(&mut self, spec: &UpstreamSpec) -> End {
        let mut live = Live::default();
        self.board.begin_again();
        let ready = match self.start(spec, &mut live).await {
            Ok(ready) => ready,
            Err(end) => {
                live.stop().await;
                return end;
            }
        };
        let since = Instant::now();
        let limits = self.core.limits(&spec.options);
        let end = self.serve(ready, limits, &mut live).await;
        // No caller finds it from here on; those that are inside may finish unless it is dead.
        self.core.withdraw(&self.board.name);
        let link = self.board.unlink();
        let end = match end {
            End::Lost(fault, _) => End::Lost(fault, Some(since.elapsed())),
            other => other,
        };
        if let Some(link) = link {
            match &end {
                End::Lost(fault, _) => link.close(self.board.describe(fault, true).message),
                _ => {
                    link.drain(DRAIN_LIMIT).await;
                    link.close("it was stopped".to_owned());
                }
            }
        }
        live.stop().await;
        end
    }

    /// Until it is ready, or not.
    async fn start(&mut self, spec: &UpstreamSpec, live: &mut Live) -> Result<Ready, End> {
        let Self { core, board, orders, cancel, era, .. } = self;
        let lead = match spec.options.era {
            EraChoice::Legacy => Lead::Initialize,
            EraChoice::Modern => Lead::Discover,
            EraChoice::Auto if *era == Some(Era::Legacy) => Lead::Initialize,
            EraChoice::Auto => Lead::Auto,
        };
        let limit = match &spec.transport {
            _ if spec.options.start_secs.is_some() => {
                spec.options.start_secs.map_or(core.settings.start_limit, seconds)
            }
            TransportSpec::Stdio { command, .. } if process::fetches_first(command) => {
                core.settings.start_limit * FETCH_FACTOR
            }
            _ => core.settings.start_limit,
        };
        let starting = async {
            let mut turn = core.starts.acquire().await.ok();
            let connecting = tokio::time::timeout(limit, connect(core, board, spec, lead, live));
            tokio::pin!(connecting);
            loop {
                tokio::select! {
                    result = &mut connecting => break result,
                    () = sleep(TURN_LIMIT), if turn.is_some() => turn = None,
                }
            }
        };
        let result = tokio::select! {
            biased;
            end = told(orders, cancel) => return Err(end),
            result = starting => result,
        };
        match result {
            Ok(Ok(ready)) => {
                if *era != Some(ready.era) {
                    *era = Some(ready.era);
                    memory::keep(core, spec, ready.era);
                }
                Ok(ready)
            }
            // It may have been replaced by one of the other era.
            Ok(Err(fault)) if fault.is_disagreement() && era.take().is_some() => Err(End::Again),
            Ok(Err(fault)) => Err(End::Lost(fault, None)),
            Err(_) => {
                let fault = match board.running_stage() {
                    Some(StageKind::Handshake) => {
                        Fault::HandshakeTimeout { after: limit, noise: board.log.is_noisy() }
                    }
                    Some(StageKind::Discovery) => Fault::DiscoveryTimeout { after: limit },
                    _ => Fault::StartTimeout { after: limit },
                };
                Err(End::Lost(fault, None))
            }
        }
    }

    /// While it is ready.
    async fn serve(&mut self, ready: Ready, limits: Limits, live: &mut Live) -> End {
        let Ready { peer, wire, host, mut inventory, introduction, era, changes } = ready;
        let Self { core, board, orders, notes, note_sender, cancel, .. } = self;
        let (mut wakes, mut losses) = (core.health.wakes(), core.health.losses());
        let limit = core.settings.check_limit;
        let link =
            Arc::new(Link::new(peer.clone(), Arc::clone(&wire), host.clone(), note_sender.clone(), limits));
        board.open(Arc::clone(&link));
        core.publish(&board.name, Arc::clone(&inventory.offer));
        board.ready(introduction);
        let (declared, announced) = (inventory.declared, inventory.announced);
        let asking = |limit, after, lists: Option<Lists>| {
            let (peer, wire, board) = (peer.clone(), Arc::clone(&wire), Arc::clone(board));
            let changes = Arc::clone(&changes);
            let refresh: Refresh = Box::pin(async move {
                sleep(after).await;
                let lists = lists.unwrap_or_else(|| changes.take());
                tokio::time::timeout(limit, list(&peer, &wire, &board.log, lists)).await.ok()
            });
            refresh
        };
        // Cancels on their way to the server; they end with this loop.
        let mut cancels = JoinSet::new();
        let mut refreshing: Option<Refresh> = None;
        let mut proving = false;
        let subscribed = async {
            if era == Era::Modern && announced.any() {
                follow_changes(&peer, announced, &changes).await;
            }
            pending::<()>().await;
        };
        tokio::pin!(subscribed);
        loop {
            tokio::select! {
                biased;
                end = told(orders, cancel) => return end,
                Some(note) = notes.recv() => match note {
                    Note::TellCancelled(id) => {
                        let peer = peer.clone();
                        cancels.spawn(async move { Link::tell_cancelled(&peer, id, "the caller went away").await });
                    }
                    Note::Suspect(fault @ Fault::SessionExpired) => return End::Lost(fault, None),
                    Note::Suspect(fault) => {
                        if fault.is_of_the_network() && host.is_some() {
                            core.health.lost_network();
                            losses.mark_unchanged();
                        }
                        proving = true;
                        board.doubted(true);
                        refreshing = Some(asking(limit, Duration::ZERO, Some(declared)));
                    }
                },
                fault = wire.doubted() => drop(note_sender.try_send(Note::Suspect(fault))),
                () = either(&mut wakes, host.is_some().then_some(&mut losses)), if !proving => {
                    proving = true;
                    board.doubted(true);
                    let asking = asking(limit, Duration::ZERO, Some(declared));
                    let (core, link) = (Arc::clone(core), Arc::clone(&link));
                    refreshing = Some(Box::pin(async move {
                        // A server that does one thing at a time answers only after its call, which has its own limit.
                        link.drain(link.limits.total).await;
                        core.health.in_turn(asking).await
                    }));
                }
                Some(_) = cancels.join_next(), if !cancels.is_empty() => {}
                () = wire.ended.cancelled() => return End::Lost(ended(live, host.as_deref()).await, None),
                status = process_end(live) => return End::Lost(Fault::Exited { status }, None),
                () = changes.some(), if refreshing.is_none() => {
                    refreshing = Some(asking(REFRESH_LIMIT, SETTLE_TIME, None));
                }
                result = poll_refresh(&mut refreshing) => {
                    refreshing = None;
                    let proven = std::mem::take(&mut proving);
                    let result = result.map(|listed| {
                        let listed = listed.map_err(ListError::Transport);
                        if proven { listed.and_then(Fresh::proven) } else { listed }
                    });
                    match result {
                        Some(Ok(fresh)) => {
                            board.doubted(false);
                            let changed = inventory.update(fresh, &board.log);
                            board.relisted(&inventory);
                            if changed {
                                core.publish(&board.name, Arc::clone(&inventory.offer));
                            }
                        }
                        Some(Err(error)) if proven => {
                            return End::Lost(list_fault(error, live).await, None);
                        }
                        None if proven => {
                            let fault = host.map_or(Fault::Unresponsive { after: limit }, |host| Fault::TimedOut { host });
                            return End::Lost(fault, None);
                        }
                        // The connection's own end tells more.
                        Some(Err(_)) => {}
                        None => board.log.push(LogStream::Evi, "what changed was not listed in time"),
                    }
                }
                () = &mut subscribed => {}
            }
        }
    }

    /// After a failure: until the pause is over (`None`), or somebody wants something.
    async fn wait(&mut self, pause: Option<Duration>) -> Option<End> {
        let Self { core, orders, cancel, .. } = self;
        let mut wakes = core.health.wakes();
        tokio::select! {
            biased;
            end = told(orders, cancel) => Some(end),
            // What was out of reach before the machine slept may be there now.
            Ok(()) = wakes.changed(), if pause.is_some() => None,
            () = async { match pause { Some(pause) => sleep(pause).await, None => pending().await } } => None,
        }
    }
}

/// A pause, or a loss of the network for whom that matters.
async fn either(wakes: &mut watch::Receiver<u64>, losses: Option<&mut watch::Receiver<u64>>) {
    let changed = async |seen: &mut watch::Receiver<u64>| {
        if seen.changed().await.is_err() {
            pending::<()>().await;
        }
    };
    let lost = async {
        match losses {
            Some(losses) => changed(losses).await,
            None => pending().await,
        }
    };
    tokio::select! {
        () = changed(wakes) => {}
        () = lost => {}
    }
}

/// What ends everything that is under way.
async fn told(orders: &mut watch::Receiver<UpstreamSpec>, cancel: &CancellationToken) -> End {
    tokio::select! {
        biased;
        () = cancel.cancelled() => End::Stop,
        order = orders.changed() => if order.is_ok() { End::Again } else { End::Stop },
    }
}

/// What to show, and when to try again; `None` for never by itself.
fn judge(fault: Fault, was_ready: bool, crashes: u32) -> (Fault, Option<Duration>) {
    match fault.outlook() {
        // It worked a moment ago; a server that lost its sessions may say anything.
        Outlook::Permanent | Outlook::Locked if was_ready => (fault, Some(pause(crashes))),
        Outlook::Permanent | Outlook::Locked => (fault, None),
        Outlook::Crash if crashes >= CRASHES => {
            (Fault::CrashLoop { times: crashes, last: fault.to_string() }, None)
        }
        Outlook::Crash | Outlook::Passing if matches!(fault, Fault::SessionExpired) && crashes == 1 => {
            (fault, Some(Duration::ZERO))
        }
        Outlook::Crash | Outlook::Passing => (fault, Some(pause(crashes))),
    }
}

/// Doubles from half a second to a minute, give or take a quarter, so that many do not start together.
fn pause(crashes: u32) -> Duration {
    let pause = FIRST_PAUSE.saturating_mul(1 << crashes.saturating_sub(1).min(10)).min(LONGEST_PAUSE);
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.subsec_nanos());
    let jitter = f64::from(nanos % 1000) / 2000.0 + 0.75;
    pause.mul_f64(jitter)
}

/// `None` when it took too long.
type Refresh = Pin<Box<dyn Future<Output = Option<Result<Fresh, ServiceError>>> + Send>>;

async fn poll_refresh(refreshing: &mut Option<Refresh>) -> Option<Result<Fresh, ServiceError>> {
    match refreshing {
        Some(future) => future.await,
        None => pending().await,
    }
}

async fn process_end(live: &mut Live) -> String {
    match &mut live.process {
        Some(process) => match process.ended().await {
            Some(status) => {
                let _ = process.end_within(Duration::from_millis(100)).await;
                crate::platform::describe(status)
            }
            None => pending().await,
        },
        None => pending().await,
    }
}

/// The connection ended: with the process's own end where there is one.
async fn ended(live: &mut Live, host: Option<&str>) -> Fault {
    if let Some(host) = host {
        return Fault::Broken { host: host.to_owned(), reason: "the connection was closed".to_owned() };
    }
    let status = match &mut live.process {
        Some(process) => process.end_within(Duration::from_millis(500)).await,
        None => None,
    };
    status.map_or(Fault::ClosedOutput, |status| Fault::Exited { status })
}

/// Modern servers tell of changes only to those who asked. Asks again when the stream ends.
async fn follow_changes(peer: &Peer<RoleClient>, announced: Lists, changes: &Changes) {
    let mut again = Duration::from_secs(1);
    loop {
        let mut filter = SubscriptionFilter::builder();
        if announced.has(List::Tools) {
            filter = filter.tools_list_changed();
        }
        if announced.has(List::Resources) {
            filter = filter.resources_list_changed();
        }
        if announced.has(List::Prompts) {
            filter = filter.prompts_list_changed();
        }
        match peer.listen(filter.build()).await {
            Ok(mut subscription) => {
                while let Ok(Some(notification)) = subscription.next().await {
                    again = Duration::from_secs(1);
                    changes.add(match notification {
                        ServerNotification::ToolListChangedNotification(_) => Lists::from(List::Tools),
                        ServerNotification::ResourceListChangedNotification(_) => Lists::RESOURCES,
                        ServerNotification::PromptListChangedNotification(_) => Lists::from(List::Prompts),
                        _ => announced,
                    });
                }
                // Something may change while nobody listens.
                changes.add(announced);
            }
            Err(ServiceError::McpError(_)) => return,
            Err(_) => {}
        }
        sleep(again).await;
        again = (again * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i27_pauses_grow_and_a_crash_loop_is_left_alone() {
        assert!(pause(1) < Duration::from_millis(700) && pause(1) >= Duration::from_millis(375));
        assert!(pause(4) >= Duration::from_secs(3));
        assert!(pause(40) <= Duration::from_secs(75));
        let exited = || Fault::Exited { status: "code 1".into() };
        assert!(judge(exited(), true, CRASHES - 1).1.is_some());
        let (fault, pause) = judge(exited(), true, CRASHES);
        assert_eq!((fault.code(), pause), ("crash_loop", None));
        let refused = Fault::Refused { host: "h".into() };
        assert!(judge(refused, false, 100).1.is_some());
    }
}
