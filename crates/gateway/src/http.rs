//! MCP over streamable HTTP at `/mcp`, in both eras, for one exposure. It serves only the address that was asked for,
//! and only whom the guard lets in.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    extract::{Request as HttpRequest, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing,
};
use evi_domain::{Exposure, Secret, ToolHost};
use http::{HeaderValue, Method, StatusCode, header as std_header};
use serde_json::json;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    clients::{ClientInfo, Clients},
    error::{BindError, GatewayError},
    front::{self, Front},
    guard::{self, Guard},
    headers, listener,
    message::RpcError,
    protocol::code,
};

/// The one path.
const PATH: &str = "/mcp";
/// Where clients learn how to be let in (RFC 9728).
const METADATA: &str = "/.well-known/oauth-protected-resource";
/// How often idle clients are looked for.
const SWEEP: Duration = Duration::from_mins(1);
/// How long [`HttpGateway::stop`] takes at most.
const STOP: Duration = Duration::from_secs(3);

/// What to serve and to whom.
#[derive(Debug)]
pub struct HttpSettings {
    /// Where; port 0 lets the system choose.
    pub addr: SocketAddr,
    /// What clients must send as a bearer token. Without one everybody on this machine gets in.
    pub token: Option<Secret>,
    /// What clients may see.
    pub exposure: Exposure,
    /// Whether other machines may get in without a token.
    pub insecure_no_auth: bool,
}

/// A running endpoint. It ends when dropped, or in order with [`HttpGateway::stop`].
#[derive(Debug)]
pub struct HttpGateway {
    front: Arc<Front>,
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl HttpGateway {
    /// Starts to serve `host`.
    ///
    /// # Errors
    /// [`GatewayError::PortBusy`] when another program has the port, [`GatewayError::TokenRequired`] when other machines
    /// could get in without a token, [`GatewayError::Bind`] for anything else about the address.
    pub async fn start(host: Arc<dyn ToolHost>, settings: HttpSettings) -> Result<Self, GatewayError> {
        let HttpSettings { addr, token, exposure, insecure_no_auth } = settings;
        let token = token.filter(|t| !t.is_empty());
        if !addr.ip().is_loopback() && token.is_none() && !insecure_no_auth {
            return Err(GatewayError::TokenRequired { addr });
        }
        let listener = listener::bind_at(addr).await?;
        let address = listener.local_addr().map_err(|source| BindError::Refused { addr, source })?;
        let stop = CancellationToken::new();
        let front = Arc::new(Front {
            host,
            guard: Guard::new(address, token.as_ref()),
            clients: Clients::new(exposure),
            tasks: TaskTracker::new(),
            admitted: Mutex::new(stop.child_token()),
            abandon: CancellationToken::new(),
            stop,
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&front)));
        Ok(Self { front, address, serving })
    }

    /// Where it is served; the path is `/mcp`.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who is connected.
    pub fn clients(&self) -> Vec<ClientInfo> {
        self.front.clients.list()
    }

    /// Ticks when [`HttpGateway::clients`] may have changed.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.front.clients.changed()
    }

    /// Replaces the token and ends what the old one opened. An empty token is not taken.
    #[expect(clippy::needless_pass_by_value, reason = "the caller gives its copy away")]
    pub fn set_token(&self, token: Secret) {
        if token.is_empty() {
            tracing::warn!("an empty token was not taken");
            return;
        }
        self.front.guard.set_token(&token);
        let old = {
            let mut admitted = self.front.admitted.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *admitted, self.front.stop.child_token())
        };
        old.cancel();
        self.front.clients.close_all();
    }

    /// Stops: calls under way are cancelled, streams end, connections close; within 3 s in any case.
    pub async fn stop(mut self) {
        self.front.stop.cancel();
        self.front.tasks.close();
        let ended = async {
            let _result = (&mut self.serving).await;
            self.front.tasks.wait().await;
        };
        let _timed_out = tokio::time::timeout(STOP, ended).await;
        // `drop` ends what is left.
    }
}

impl Drop for HttpGateway {
    fn drop(&mut self) {
        self.front.stop.cancel();
        self.front.abandon.cancel();
        self.front.tasks.close();
        self.serving.abort();
    }
}

async fn serve(listener: tokio::net::TcpListener, front: Arc<Front>) {
    let sweeping = async {
        let mut every = tokio::time::interval(SWEEP);
        loop {
            every.tick().await;
            front.clients.sweep(Instant::now());
        }
    };
    tokio::select! {
        () = listener::run(listener, router(Arc::clone(&front)), front.stop.clone()) => {}
        () = sweeping => {}
    }
}

fn router(front: Arc<Front>) -> Router {
    let metadata = routing::get(metadata);
    Router::new()
        .route(PATH, routing::any(mcp))
        .route(METADATA, metadata.clone())
        .route(&format!("{METADATA}{PATH}"), metadata)
        .fallback(|| async { StatusCode::NOT_FOUND })
        .layer(middleware::from_fn_with_state(Arc::clone(&front), admit))
        .with_state(front)
}

async fn admit(State(front): State<Arc<Front>>, request: HttpRequest, next: Next) -> Response {
    let open = request.uri().path().starts_with(METADATA);
    let Err(refusal) = front.guard.check(request.uri(), request.headers(), !open) else {
        return next.run(request).await;
    };
    let mut response = front::refuse(refusal.status, &RpcError::new(code::INVALID_REQUEST, refusal.message));
    if refusal.status == StatusCode::UNAUTHORIZED {
        let mut challenge = r#"Bearer realm="evi""#.to_owned();
        if let Some(authority) = guard::authority(request.uri(), request.headers()) {
            challenge = format!(r#"{challenge}, resource_metadata="http://{authority}{METADATA}""#);
        }
        if let Ok(challenge) = HeaderValue::try_from(challenge) {
            response.headers_mut().insert(std_header::WWW_AUTHENTICATE, challenge);
        }
    }
    response
}

async fn metadata(request: HttpRequest) -> Response {
    let Some(authority) = guard::authority(request.uri(), request.headers()) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    Json(json!({
        "resource": format!("http://{authority}{PATH}"),
        "resource_name": "eVi",
        "bearer_methods_supported": ["header"],
    }))
    .into_response()
}

async fn mcp(State(front): State<Arc<Front>>, request: HttpRequest) -> Response {
    let (head, body) = request.into_parts();
    match head.method {
        Method::POST => front.post(&head.headers, body).await,
        // Sessions and their streams are legacy.
        Method::GET | Method::DELETE if headers::is_modern(&head.headers) => front::not_allowed("POST"),
        Method::GET => front.open_stream(&head.headers),
        Method::DELETE => match front.session(&head.headers) {
            Ok(client) => {
                front.clients.close(&client);
                StatusCode::NO_CONTENT.into_response()
            }
            Err(response) => response,
        },
        _ => front::not_allowed("GET, POST, DELETE"),
    }
}
