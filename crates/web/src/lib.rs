//! The HTTP shell: the same page in a browser, the commands of the contract, their events, and the documented
//! routes under `/api/mcp`. It holds no state but its sockets.

mod guard;
mod mcp_routes;
mod page;

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, State},
    http::StatusCode,
    middleware,
    response::{IntoResponse, Response, Sse, sse::Event},
    routing::{get, post},
};
use evi_app::{Front, Problem, contract::Code, domain::Secret};
use futures::{Stream, StreamExt};
use serde_json::Value;
use tokio::{net::TcpListener, sync::broadcast::error::RecvError};
use tokio_util::sync::CancellationToken;

/// The largest body of a command.
const BODY: usize = 8 * 1024 * 1024;

/// How to serve the page.
#[derive(Debug)]
pub struct WebSettings {
    /// A loopback address.
    pub addr: SocketAddr,
    /// What `/api` asks for as `Authorization: Bearer`.
    pub token: Secret,
}

/// A running page.
pub struct Web {
    address: SocketAddr,
    listener: TcpListener,
    router: Router,
}

#[derive(Clone)]
struct Shared {
    front: Front,
    ended: CancellationToken,
}

impl Web {
    /// Binds the address, and no other.
    ///
    /// # Errors
    /// A busy port, or an address beyond this machine.
    pub async fn bind(
        front: Front,
        settings: WebSettings,
        ended: CancellationToken,
    ) -> Result<Self, Problem> {
        if !settings.addr.ip().is_loopback() {
            return Err(Problem::new(
                Code::UnsafeAddress,
                format!("the page is not served on {}", settings.addr.ip()),
            )
            .hint("it stays on this machine: use 127.0.0.1, and a tunnel such as ssh -L from elsewhere"));
        }
        let listener = TcpListener::bind(settings.addr).await.map_err(|error| {
            if error.kind() == std::io::ErrorKind::AddrInUse {
                Problem::new(
                    Code::PortBusy,
                    format!("port {} is in use by another program", settings.addr.port()),
                )
                .hint("stop that program, or choose another port with --port")
            } else {
                Problem::new(Code::Internal, format!("could not listen on {}: {error}", settings.addr))
            }
        })?;
        let address = listener.local_addr().map_err(|e| Problem::new(Code::Internal, e.to_string()))?;
        let shared = Shared { front, ended };
        let api = Router::new()
            .route("/api/events", get(events))
            .merge(mcp_routes::router())
            .route("/api/{command}", post(command))
            .layer(middleware::from_fn_with_state(Arc::new(settings.token), guard::token))
            .with_state(shared);
        let router = Router::new()
            .merge(api)
            .fallback(page::serve)
            .layer(DefaultBodyLimit::max(BODY))
            .layer(middleware::from_fn_with_state(address, guard::host_and_origin));
        Ok(Self { address, listener, router })
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `cancel`.
    ///
    /// # Errors
    /// The system took the socket away.
    pub async fn run(self, cancel: CancellationToken) -> Result<(), Problem> {
        axum::serve(self.listener, self.router)
            .with_graceful_shutdown(async move { cancel.cancelled().await })
            .await
            .map_err(|e| Problem::new(Code::Internal, format!("the page's server ended: {e}")))
    }
}

/// A problem as an HTTP answer.
struct Failed(Problem);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(self.0)).into_response()
    }
}

async fn command(
    State(shared): State<Shared>,
    Path(command): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Failed> {
    let params = if body.is_empty() { Value::Null } else { parse(&body)? };
    // Words of the other side of the local socket are not the page's.
    if evi_app::contract::info(&command).is_none() {
        return Err(Failed(Problem::new(Code::UnknownCommand, format!("unknown command: {command}"))));
    }
    shared.front.call(&command, params).await.map(Json).map_err(Failed)
}

fn parse(body: &[u8]) -> Result<Value, Failed> {
    serde_json::from_slice(body)
        .map_err(|e| Failed(Problem::new(Code::InvalidInput, format!("the body is not JSON: {e}"))))
}

async fn events(State(shared): State<Shared>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let receiver = shared.front.events();
    let ended = shared.ended.clone();
    let events = futures::stream::unfold(receiver, |mut receiver| async move {
        let data = match receiver.recv().await {
            Ok(event) => event.to_string(),
            // A reader that missed some has to fetch again what it shows.
            Err(RecvError::Lagged(_)) => r#"{"kind":"lagged"}"#.to_owned(),
            Err(RecvError::Closed) => return None,
        };
        Some((Ok(Event::default().data(data)), receiver))
    });
    // The first line tells the page that it is connected.
    let hello = futures::stream::once(async { Ok(Event::default().comment("connected")) });
    let until = async move { ended.cancelled().await };
    Sse::new(hello.chain(events).take_until(until)).keep_alive(axum::response::sse::KeepAlive::default())
}
