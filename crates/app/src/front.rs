//! A shell's way to the application, whoever owns the home: here, or in another process. Owners come and go; the
//! shell keeps one handle. It decides nothing about calls.

use std::{future::Future, sync::Arc, time::Duration};

use evi_attach::{AppCallError, AppClient, AttachError, Backend, Entry, Hello, Incoming, Kind, Owner, Place};
use evi_contract::{Code, Problem, Tag};
use evi_domain::{Exposure, ToolHost};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio::{
    sync::{broadcast, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{App, Home, Options, Servers, Shell, remote};

/// How long a shell waits to own the home or to reach its owner: an owner that hands over first drains its calls.
const ENTER: Duration = Duration::from_secs(30);
/// How long a command waits for an owner while one hands over to another.
const SEAT: Duration = Duration::from_secs(20);
/// How long a one-shot command may finish what it does before it hands over.
const FINISH: Duration = Duration::from_secs(8);

/// Where the application is now.
#[derive(Clone)]
pub(crate) enum Seat {
    /// On its way here or elsewhere.
    Moving,
    /// In this process.
    Here(App),
    /// In another process.
    There(Arc<AppClient>),
    /// Nowhere, and it will not come.
    Gone(Problem),
}

/// The handle; clones share it.
#[derive(Clone)]
pub struct Front {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    place: Place,
    seat: watch::Sender<Seat>,
    events: broadcast::Sender<Value>,
    busy: watch::Sender<usize>,
    stop: CancellationToken,
    ended: CancellationToken,
}

impl Front {
    /// Begins to own the home or to attach to who does, and returns at once; commands wait for it. Needs a tokio
    /// runtime.
    pub fn start(options: Options) -> Self {
        let front = Self::new(options);
        let keeper = front.clone();
        tokio::spawn(async move {
            keeper.keep().await;
            keeper.inner.ended.cancel();
        });
        front
    }

    /// Owns the home, or attaches to who does; returns when one of them is true.
    ///
    /// # Errors
    /// Neither within 30 s, or the application did not start.
    pub async fn open(options: Options) -> Result<Self, Problem> {
        let front = Self::start(options);
        front.seat(ENTER + SEAT).await?;
        Ok(front)
    }

    /// An application of this process alone, which neither owns the home nor attaches: for commands that only
    /// change files, and for servers that nobody runs because `[tools] mcp` is off.
    ///
    /// # Errors
    /// The application did not start.
    pub async fn alone(options: Options) -> Result<Self, Problem> {
        let front = Self::new(options);
        let app = App::start(front.inner.options.clone()).await?;
        front.inner.seat.send_replace(Seat::Here(app));
        let keeper = front.clone();
        tokio::spawn(async move {
            keeper.inner.stop.cancelled().await;
            if let Seat::Here(app) = keeper.inner.seat.send_replace(Seat::Moving) {
                app.shutdown().await;
            }
            keeper.inner.ended.cancel();
        });
        Ok(front)
    }

    fn new(options: Options) -> Self {
        let place = Place::new(options.home.run());
        Self {
            inner: Arc::new(Inner {
                options,
                place,
                seat: watch::channel(Seat::Moving).0,
                events: broadcast::channel(1024).0,
                busy: watch::channel(0).0,
                stop: CancellationToken::new(),
                ended: CancellationToken::new(),
            }),
        }
    }

    /// Runs a command of the contract wherever the application is.
    ///
    /// # Errors
    /// The command's problem; `attach` when the owner went while it ran.
    pub async fn call(&self, command: &str, params: Value) -> Result<Value, Problem> {
        let _busy = Busy::begin(&self.inner.busy);
        match self.seat(SEAT).await? {
            Seat::Here(app) => app.dispatch(command, params).await,
            Seat::There(client) => client.call(command, params).await.map_err(|e| problem_of(&e)),
            Seat::Moving | Seat::Gone(_) => Err(nobody()),
        }
    }

    /// Events of the contract as JSON, from now on, over all changes of owner.
    pub fn events(&self) -> broadcast::Receiver<Value> {
        self.inner.events.subscribe()
    }

    /// Whether the application runs in this process.
    pub fn is_owner(&self) -> bool {
        matches!(*self.inner.seat.borrow(), Seat::Here(_))
    }

    /// The application of this process, for what only its own shell may do.
    pub fn app(&self) -> Option<App> {
        match &*self.inner.seat.borrow() {
            Seat::Here(app) => Some(app.clone()),
            _ => None,
        }
    }

    /// Serves one MCP client on two streams until it ends, over all changes of owner.
    ///
    /// # Errors
    /// No owner could be reached any more.
    pub async fn serve_client(
        &self,
        exposure: Exposure,
        read: impl tokio::io::AsyncRead + Send + Unpin,
        write: impl tokio::io::AsyncWrite + Send + Unpin,
    ) -> Result<(), Problem> {
        let connect = || self.backend(exposure.clone());
        evi_attach::bridge(read, write, connect, self.inner.stop.child_token())
            .await
            .map_err(|e| attach_problem(&e))
    }

    /// What runs calls, wherever the application is: for an HTTP endpoint of this process.
    pub fn host(&self, exposure: Exposure) -> Arc<dyn ToolHost> {
        remote::FrontHost::start(self.clone(), exposure)
    }

    /// Ends: what runs here stops, the home is given free. Bounded to about 20 s.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        let _ = tokio::time::timeout(ENTER, self.inner.ended.cancelled()).await;
    }

    pub(crate) fn seats(&self) -> watch::Receiver<Seat> {
        self.inner.seat.subscribe()
    }

    pub(crate) fn stopping(&self) -> CancellationToken {
        self.inner.stop.clone()
    }

    /// The seat, once somebody sits on it.
    async fn seat(&self, within: Duration) -> Result<Seat, Problem> {
        let mut seats = self.inner.seat.subscribe();
        let settled = seats.wait_for(|seat| !matches!(seat, Seat::Moving));
        match tokio::time::timeout(within, settled).await {
            Ok(Ok(seat)) => match &*seat {
                Seat::Gone(problem) => Err(problem.clone()),
                seat => Ok(seat.clone()),
            },
            _ => Err(nobody()),
        }
    }

    async fn backend(&self, exposure: Exposure) -> Result<Backend, String> {
        match self.seat(SEAT).await.map_err(|p| p.message)? {
            Seat::Here(app) => {
                let (ours, theirs) = tokio::io::duplex(256 * 1024);
                let cancel = app.cancel.child_token();
                tokio::spawn(async move {
                    let (read, write) = tokio::io::split(ours);
                    let guests = &app.endpoint.guests;
                    if let Err(error) =
                        evi_gateway::serve_guest(app.host(), exposure, read, write, cancel, guests).await
                    {
                        tracing::debug!(%error, "a client's stream ended");
                    }
                });
                Ok(Box::new(theirs))
            }
            Seat::There(_) => {
                let hello = Hello::new(Kind::Mcp, self.inner.options.shell.rank(), exposure);
                let connection = self.inner.place.connect(hello).await.map_err(|e| e.to_string())?;
                Ok(Box::new(connection))
            }
            Seat::Moving | Seat::Gone(_) => Err(nobody().message),
        }
    }

    /// Takes the home or attaches, again and again, until it is told to stop.
    async fn keep(&self) {
        let stop = &self.inner.stop;
        let rank = self.inner.options.shell.rank();
        while !stop.is_cancelled() {
            let hello = Hello::new(Kind::App, rank, Exposure::default());
            let entry = tokio::select! {
                () = stop.cancelled() => break,
                entry = self.inner.place.enter(hello, ENTER) => entry,
            };
            match entry {
                Ok(Entry::Owner(owner)) => {
                    if let Err(problem) = self.own(owner).await {
                        self.move_to(Seat::Gone(problem));
                        break;
                    }
                }
                Ok(Entry::Attached(connection)) => {
                    let client = Arc::new(AppClient::new(connection));
                    let ended = client.ended();
                    let pumped = pump(events_of(client.events()), &self.inner.events);
                    self.move_to(Seat::There(client.clone()));
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = ended.cancelled() => {}
                        () = pumped => {}
                    }
                    self.move_to(Seat::Moving);
                }
                Err(AttachError::Proto { theirs, ours }) => {
                    tracing::warn!(
                        theirs,
                        ours,
                        "the owner of this home is another version; only eVi's own tools are served here"
                    );
                    self.own_tools_only().await;
                    break;
                }
                Err(error) => {
                    tracing::warn!(%error, "the home is neither owned nor reached");
                    self.move_to(Seat::Gone(attach_problem(&error)));
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = tokio::time::sleep(Duration::from_secs(2)) => {}
                    }
                }
            }
        }
    }

    /// Beside an owner that speaks another version: no servers, so that nothing runs twice.
    async fn own_tools_only(&self) {
        let options = Options { servers: Servers::Leave, ..self.inner.options.clone() };
        match App::start(options).await {
            Ok(app) => {
                self.move_to(Seat::Here(app.clone()));
                self.inner.stop.cancelled().await;
                self.move_to(Seat::Moving);
                app.shutdown().await;
            }
            Err(problem) => self.move_to(Seat::Gone(problem)),
        }
    }

    async fn own(&self, mut owner: Owner) -> Result<(), Problem> {
        let app = match App::start(self.inner.options.clone()).await {
            Ok(app) => app,
            Err(problem) => {
                owner.release().await;
                return Err(problem);
            }
        };
        let pumped = pump(
            tokio_stream::wrappers::BroadcastStream::new(app.events())
                .filter_map(|event| async { serde_json::to_value(event.ok()?).ok() }),
            &self.inner.events,
        );
        tokio::pin!(pumped);
        self.move_to(Seat::Here(app.clone()));
        let handover = owner.handover();
        let cancel = CancellationToken::new();
        let mut guests = JoinSet::new();
        loop {
            tokio::select! {
                () = self.inner.stop.cancelled() => break,
                () = handover.cancelled() => {
                    self.finish_command().await;
                    break;
                }
                incoming = owner.accept() => {
                    guests.spawn(serve_guest(app.clone(), incoming, self.inner.events.clone(), cancel.child_token()));
                }
                Some(_) = guests.join_next() => {}
                () = &mut pumped => {}
            }
        }
        self.move_to(Seat::Moving);
        app.shutdown().await;
        cancel.cancel();
        let _ = tokio::time::timeout(Duration::from_secs(2), async {
            while guests.join_next().await.is_some() {}
        })
        .await;
        guests.abort_all();
        owner.release().await;
        Ok(())
    }

    /// A one-shot command finishes first: it takes no longer than a handover may.
    async fn finish_command(&self) {
        if self.inner.options.shell == Shell::Command {
            let mut busy = self.inner.busy.subscribe();
            let _ = tokio::time::timeout(FINISH, busy.wait_for(|n| *n == 0)).await;
        }
    }

    fn move_to(&self, seat: Seat) {
        let settled = !matches!(seat, Seat::Moving);
        self.inner.seat.send_replace(seat);
        if settled {
            // Everything may be different at a new owner.
            let tags = [
                Tag::App,
                Tag::Settings,
                Tag::Upstreams,
                Tag::Logs,
                Tag::Tools,
                Tag::Gateway,
                Tag::Chats,
                Tag::Approvals,
                Tag::Activity,
            ];
            let _ = self.inner.events.send(json!({"kind": "invalidated", "tags": tags}));
        }
    }
}

/// Whoever runs the home now, for a command that only looks and takes nothing over; `None` when nobody does.
///
/// # Errors
/// It could not be reached.
pub(crate) async fn owner(home: &Home) -> Result<Option<AppClient>, Problem> {
    let hello = Hello::new(Kind::App, Shell::Command.rank(), Exposure::default());
    match Place::new(home.run()).connect(hello).await {
        Ok(connection) => Ok(Some(AppClient::new(connection))),
        Err(AttachError::NoOwner) => Ok(None),
        Err(error) => Err(attach_problem(&error)),
    }
}

/// Counts a command that runs.
struct Busy<'a>(&'a watch::Sender<usize>);

impl<'a> Busy<'a> {
    fn begin(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|n| *n += 1);
        Self(count)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

fn events_of(receiver: broadcast::Receiver<Value>) -> impl futures::Stream<Item = Value> + Send {
    evi_attach::events_of(receiver)
}

/// Passes events on until there are no more, then waits: whoever selects over it ends by something else.
fn pump(
    events: impl futures::Stream<Item = Value> + Send,
    to: &broadcast::Sender<Value>,
) -> impl Future<Output = ()> + Send {
    let to = to.clone();
    async move {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            let _ = to.send(event);
        }
        std::future::pending::<()>().await;
    }
}

async fn serve_guest(
    app: App,
    incoming: Incoming,
    events: broadcast::Sender<Value>,
    cancel: CancellationToken,
) {
    let Incoming { hello, stream } = incoming;
    tracing::debug!(kind = ?hello.kind, pid = hello.pid, "an evi process attached");
    match hello.kind {
        Kind::Mcp => {
            let (read, write) = tokio::io::split(stream);
            let cancel = app.cancel.child_token();
            let guests = &app.endpoint.guests;
            if let Err(error) =
                evi_gateway::serve_guest(app.host(), hello.exposure, read, write, cancel, guests).await
            {
                tracing::debug!(%error, "an attached client's stream ended");
            }
        }
        Kind::App => {
            let events = evi_attach::events_of(events.subscribe());
            let calls = remote::Served::new(app);
            evi_attach::serve_app(stream, move |command, params| calls.run(command, params), events, cancel)
                .await;
        }
        Kind::Handover => {}
    }
}

pub(crate) fn problem_of(error: &AppCallError) -> Problem {
    match error {
        AppCallError::Problem(value) => serde_json::from_value(value.clone()).unwrap_or_else(|_| {
            Problem::new(Code::Attach, "the owner of the home answered in words that are not known here")
        }),
        AppCallError::Attach(error) => attach_problem(error),
    }
}

fn attach_problem(error: &AttachError) -> Problem {
    let problem = Problem::new(Code::Attach, error.to_string());
    match error.hint() {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn nobody() -> Problem {
    Problem::new(Code::Attach, "no evi process took over this home in time")
        .hint("try again; if it stays, quit the other evi")
}
