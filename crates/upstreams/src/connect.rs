//! Brings one upstream from its spec to the lists of what it offers, and takes it down again. It tells the board how far it
//! is; whether and when to try again is the actor's affair.

#![expect(deprecated, reason = "legacy servers still send log messages and ask for roots")]

use std::{
    collections::BTreeMap,
    convert::Infallible,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use evi_domain::{LogStream, Secret, StageKind, UpstreamSpec};
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ErrorData, Implementation, ListRootsRequestMethod, ListRootsResult,
        LoggingMessageNotificationParam,
    },
    service::{ClientCacheConfig, NotificationContext, RequestContext, RunningService, serve_directly},
    transport::Transport,
};
use tokio::time::{sleep, timeout};

use crate::{
    board::{Board, Introduction},
    call::sent_fault,
    discovery::{Changes, Fresh, Inventory, List, ListError, Lists, list},
    error::Fault,
    expand::{Expanded, Target, expand},
    handshake::{Agreed, Broken, Era, Lead, OnSilence, shake},
    http::Endpoint,
    hub::{Core, seconds},
    log::Log,
    pipe::Pipe,
    process::{self, Process, Program},
    sse::{self, EventStream},
    streamable::Streamable,
    wire::{Tap, Wire},
};

/// How long a server may think about `server/discover` before `initialize` is sent as well.
const OVERLAP_AFTER: Duration = Duration::from_secs(3);
/// The same over HTTP, where one waits for the other.
const HTTP_PROBE: Duration = Duration::from_secs(10);
/// All of a handshake over HTTP, where every message waits for its answer.
const HTTP_HANDSHAKE: Duration = Duration::from_secs(30);
/// How long a program that fetches what it runs may take before it shows as installing: with and without a word on
/// stderr.
const INSTALL_AFTER: Duration = Duration::from_secs(1);
const INSTALL_SURELY: Duration = Duration::from_secs(5);
const INSTALL_POLL: Duration = Duration::from_millis(200);
/// How long a process may take to be seen to have ended once its output closed.
const EXIT_LIMIT: Duration = Duration::from_secs(1);
/// How long rmcp may take to close; over HTTP it sends a DELETE.
const CLOSE_LIMIT: Duration = Duration::from_secs(3);

/// What rmcp calls for messages that nobody asked for.
pub(crate) struct Ear {
    me: Implementation,
    log: Log,
    changes: Arc<Changes>,
}

// No roots, no sampling, no elicitation: none is declared, and a server that asks all the same is refused.
impl ClientHandler for Ear {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), self.me.clone())
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.add(List::Tools);
    }

    async fn on_resource_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.add(Lists::RESOURCES);
    }

    async fn on_prompt_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changes.add(List::Prompts);
    }

    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = match message.data {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        self.log.push(LogStream::Evi, &format!("log message: {text}"));
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }
}

type Session = RunningService<RoleClient, Ear>;

/// Everything that must be taken down.
#[derive(Default)]
pub(crate) struct Live {
    service: Option<Session>,
    pub(crate) process: Option<Process>,
}

impl Live {
    /// Closes the session, then ends the process tree.
    pub(crate) async fn stop(&mut self) {
        if let Some(mut service) = self.service.take() {
            let _ = service.close_with_timeout(CLOSE_LIMIT).await;
        }
        if let Some(mut process) = self.process.take() {
            process.stop().await;
        }
    }
}

/// A connection whose offer is known.
pub(crate) struct Ready {
    pub(crate) peer: rmcp::service::Peer<RoleClient>,
    pub(crate) wire: Arc<Wire>,
    pub(crate) host: Option<String>,
    pub(crate) inventory: Inventory,
    pub(crate) introduction: Introduction,
    pub(crate) era: Era,
    pub(crate) changes: Arc<Changes>,
}

/// Starts, shakes hands, lists what there is. May be dropped at any point: what must be taken down is in `live`.
pub(crate) async fn connect(
    core: &Core,
    board: &Board,
    spec: &UpstreamSpec,
    lead: Lead,
    live: &mut Live,
) -> Result<Ready, Fault> {
    board.begin_run();
    board.stage_runs(StageKind::Started);
    let Expanded { target, ca, hidden } = expand(spec, Arc::clone(&core.secrets)).await?;
    board.log.hide(hidden);
    let within = spec.options.start_secs.map_or(HTTP_HANDSHAKE, seconds);
    match target {
        Target::Stdio { command, args, env, cwd } => {
            let program = Program { command, args, env, cwd };
            connect_process(core, board, &program, lead, live).await
        }
        Target::Http { url, headers } => {
            let endpoint = endpoint(&url, &headers, ca).await?;
            connect_http(core, board, &endpoint, lead, within, live).await
        }
        Target::Sse { url, headers } => {
            let endpoint = endpoint(&url, &headers, ca).await?;
            let opening = sse::open(&endpoint, &board.log);
            let limit = Err(Fault::TimedOut { host: endpoint.host() });
            match timeout(within, opening).await.unwrap_or(limit) {
                Ok(stream) => connect_sse(core, board, stream, endpoint.host(), live).await,
                Err(fault) => {
                    if !fault.is_out_of_reach() {
                        reached(board);
                    }
                    Err(fault)
                }
            }
        }
    }
}

/// Where a server behind HTTP is, with what it is trusted by.
async fn endpoint(
    url: &Secret,
    headers: &BTreeMap<String, Secret>,
    ca: Option<PathBuf>,
) -> Result<Endpoint, Fault> {
    let mut endpoint = Endpoint::new(url, headers)?;
    if let Some(file) = ca {
        endpoint.trust(&file).await?;
    }
    Ok(endpoint)
}

async fn connect_process(
    core: &Core,
    board: &Board,
    program: &Program,
    mut lead: Lead,
    live: &mut Live,
) -> Result<Ready, Fault> {
    loop {
        board.begin_run();
        let (process, stdin, stdout) = program.spawn(&board.log, &core.leftovers).await?;
        let pid = process.pid();
        let process = live.process.insert(process);
        board.set_pid(pid);
        board.stage_done(
            StageKind::Started,
            pid.map_or_else(|| "started".to_owned(), |pid| format!("pid {pid}")),
        );
        board.stage_runs(StageKind::Handshake);
        let wire = Wire::new();
        let pipe = Pipe::new(stdout, stdin, Arc::clone(&wire), board.log.clone());
        let mut transport = Tap::new(pipe, Arc::clone(&wire));
        let me = core.me();
        let silence = OnSilence::Overlap(OVERLAP_AFTER);
        let shaking = shake(&mut transport, lead, &me, silence, || board.installs(false));
        let shaken = tokio::select! {
            shaken = shaking => shaken,
            never = watch_install(board, &program.command) => match never {},
        };
        let initialize_sent = match shaken {
            Ok(agreed) => return settle(core, board, transport, wire, agreed, None, live).await,
            Err(Broken::Fault(fault)) => return Err(fault),
            Err(Broken::Closed { initialize_sent }) => initialize_sent,
            // A process that never read anything may have died of its own; so may one that read the probe.
            Err(Broken::Send(_) | Broken::Silent) => false,
        };
        drop(transport);
        let status = process.end_within(EXIT_LIMIT).await;
        process.stop().await;
        if lead != Lead::Auto || initialize_sent {
            return Err(status.map_or(Fault::ClosedOutput, |status| Fault::ExitedEarly { status }));
        }
        // Some servers end when anything comes before `initialize`.
        lead = Lead::Initialize;
        board.log.push(
            LogStream::Evi,
            "it ended on the first message; starting it once more with initialize first",
        );
        board.stage_runs(StageKind::Started);
    }
}

/// Shows that a program which fetches what it runs is at it: it writes to stderr, or takes long, before it answers.
async fn watch_install(board: &Board, command: &str) -> Infallible {
    if process::fetches_first(command) {
        let begun = Instant::now();
        // A server that is there already says hello on stderr, too, and answers soon.
        sleep(INSTALL_AFTER).await;
        while !board.has_said_something() && begun.elapsed() < INSTALL_SURELY {
            sleep(INSTALL_POLL).await;
        }
        board.installs(true);
    }
    std::future::pending().await
}

async fn connect_http(
    core: &Core,
    board: &Board,
    endpoint: &Endpoint,
    mut lead: Lead,
    within: Duration,
    live: &mut Live,
) -> Result<Ready, Fault> {
    let host = endpoint.host();
    loop {
        let wire = Wire::new();
        let streamable = Streamable::new(endpoint, Arc::clone(&wire), board.log.clone())?;
        let mut transport = Tap::new(streamable, Arc::clone(&wire));
        let me = core.me();
        let shaking = shake(&mut transport, lead, &me, OnSilence::GiveUp(HTTP_PROBE), || reached(board));
        let shaken = timeout(within, shaking).await.unwrap_or(Err(Broken::Silent));
        if shaken.is_err() {
            // It may have opened a session, and some servers have only one.
            let _ = transport.close().await;
        }
        match shaken {
            Ok(agreed) => return settle(core, board, transport, wire, agreed, Some(host), live).await,
            Err(Broken::Silent) if lead == Lead::Auto => lead = Lead::Initialize,
            Err(Broken::Silent) => return Err(Fault::TimedOut { host }),
            Err(Broken::Closed { .. }) => {
                return Err(Fault::NotMcp { what: "it closed the connection without an answer".to_owned() });
            }
            Err(Broken::Send(fault)) => {
                if !fault.is_out_of_reach() {
                    reached(board);
                }
                if !matches!(fault, Fault::Status { status: 404 | 405, .. }) || lead == Lead::Discover {
                    return Err(fault);
                }
                // Nothing takes a POST here: that is how the event stream of an older server looks.
                let opening = sse::open(endpoint, &board.log);
                let Ok(Ok(stream)) = timeout(HTTP_PROBE, opening).await else { return Err(fault) };
                board.log.push(LogStream::Evi, "it speaks the older HTTP+SSE (transport sse)");
                return connect_sse(core, board, stream, host, live).await;
            }
            Err(Broken::Fault(fault)) => return Err(fault),
        }
    }
}

/// The server answered.
fn reached(board: &Board) {
    if board.running_stage() == Some(StageKind::Started) {
        board.stage_done(StageKind::Started, "reached".to_owned());
        board.stage_runs(StageKind::Handshake);
    }
}

async fn connect_sse(
    core: &Core,
    board: &Board,
    stream: EventStream,
    host: String,
    live: &mut Live,
) -> Result<Ready, Fault> {
    reached(board);
    let wire = stream.wire();
    let mut transport = Tap::new(stream, Arc::clone(&wire));
    let me = core.me();
    // It is from before the other era.
    let shaking = shake(&mut transport, Lead::Initialize, &me, OnSilence::Overlap(HTTP_PROBE), || ());
    match timeout(HTTP_HANDSHAKE, shaking).await.unwrap_or(Err(Broken::Silent)) {
        Ok(agreed) => settle(core, board, transport, wire, agreed, Some(host), live).await,
        Err(Broken::Silent) => Err(Fault::TimedOut { host }),
        Err(Broken::Closed { .. }) => {
            Err(Fault::NotMcp { what: "it closed its event stream without an answer".to_owned() })
        }
        Err(Broken::Send(fault) | Broken::Fault(fault)) => Err(fault),
    }
}

/// From the agreement to the lists.
async fn settle<T>(
    core: &Core,
    board: &Board,
    transport: T,
    wire: Arc<Wire>,
    agreed: Agreed,
    host: Option<String>,
    live: &mut Live,
) -> Result<Ready, Fault>
where
    T: Transport<RoleClient> + 'static,
{
    let Agreed { info, era, version } = agreed;
    board.stage_done(StageKind::Handshake, format!("protocol {version}"));
    if let Some(process) = &live.process {
        process.look_again().await;
    }
    board.stage_runs(StageKind::Discovery);
    let server = info.server_info.as_ref().map(|s| (s.name.clone(), s.version.clone()));
    let mut inventory = Inventory::new(&info, wire.server());
    let changes = Arc::new(Changes::default());
    let ear = Ear { me: core.me(), log: board.log.clone(), changes: Arc::clone(&changes) };
    let service = live.service.insert(serve_directly(ear, transport, Some(info)));
    let peer = service.peer().clone();
    // It would answer for a server that is dead.
    peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
    let listed = list(&peer, &wire, &board.log, inventory.declared).await;
    match listed.map_err(ListError::Transport).and_then(Fresh::proven) {
        Ok(fresh) => inventory.update(fresh, &board.log),
        Err(error) => return Err(list_fault(error, live).await),
    };
    board.stage_done(StageKind::Discovery, inventory.detail());
    let introduction = Introduction { server, version, tools: inventory.offer.tools.len() };
    Ok(Ready { peer, wire, host, inventory, introduction, era, changes })
}

/// Why the list did not come, with the process's own end where it ended.
pub(crate) async fn list_fault(error: ListError, live: &mut Live) -> Fault {
    match error {
        ListError::Answer(reason) => Fault::Discovery { reason },
        ListError::Transport(error) => {
            if let rmcp::service::ServiceError::TransportSend(error) = error
                && let Some(fault) = sent_fault(error)
            {
                return fault;
            }
            if let Some(process) = &mut live.process
                && let Some(status) = process.end_within(EXIT_LIMIT).await
            {
                return Fault::Exited { status };
            }
            Fault::Discovery { reason: "the connection ended".to_owned() }
        }
    }
}
