//! The socket: binding exactly the address that was asked for, and taking connections from it until told to stop. It
//! reads no request.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::error::BindError;

/// How many connections are open at once; more wait outside.
const MAX_CONNECTIONS: usize = 1024;
/// How long a request's head may take, and how long an idle connection stays: longer than clients keep theirs, so that
/// it is they who end it.
const HEAD: Duration = Duration::from_mins(2);
/// How long open connections may take to finish when we stop.
const FINISH: Duration = Duration::from_secs(2);
/// How long we wait when the system has no socket to give.
const PAUSE: Duration = Duration::from_millis(100);

/// Binds `host`, a name or an address, at `port`; 0 lets the system choose. Never another port than asked.
///
/// # Errors
/// [`BindError::PortBusy`] when somebody has it, [`BindError::UnknownHost`] when the name leads nowhere.
pub async fn bind(host: &str, port: u16) -> Result<TcpListener, BindError> {
    let unknown = || BindError::UnknownHost { host: host.to_owned() };
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let mut addresses: Vec<SocketAddr> =
        tokio::net::lookup_host((bare, port)).await.map_err(|_| unknown())?.collect();
    // `localhost` is both; programs try 127.0.0.1 first.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    bind_at(*addresses.first().ok_or_else(unknown)?).await
}

/// Binds exactly `addr`.
pub(crate) async fn bind_at(addr: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(addr).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::PortBusy { addr },
        io::ErrorKind::AddrNotAvailable => BindError::UnknownHost { host: addr.ip().to_string() },
        _ => BindError::Refused { addr, source },
    })
}

/// Serves connections until `stop`, then lets the open ones finish for a bounded time.
pub(crate) async fn run(listener: TcpListener, router: Router, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let taking = async {
            // The semaphore is never closed.
            let permit = Arc::clone(&room).acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            (permit, accepted) = taking => match accepted {
                Ok((socket, _)) => {
                    let (router, stop) = (router.clone(), stop.clone());
                    connections.spawn(async move {
                        let _permit = permit;
                        converse(socket, router, stop).await;
                    });
                }
                Err(error) => {
                    tracing::debug!(%error, "no connection was taken");
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let finished = async { while connections.join_next().await.is_some() {} };
    let _timed_out = tokio::time::timeout(FINISH, finished).await;
    // What is left ends with the set.
}

async fn converse(socket: TcpStream, router: Router, stop: CancellationToken) {
    // Answers are small and somebody waits for each.
    let _best_effort = socket.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
