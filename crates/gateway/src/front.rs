//! One message over HTTP: which session or client it belongs to, and in which form it is answered. Who may talk to us
//! was decided before.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use evi_domain::ToolHost;
use http::{HeaderMap, HeaderValue, StatusCode, header as std_header};
use tokio::sync::{mpsc, oneshot};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    answer::{self, Asked},
    changes::{self, Marks, Wanted},
    clients::{Client, Clients},
    flights::Flight,
    guard::Guard,
    headers::{self, Accepts},
    message::{self, Id, Identity, Incoming, Notification, Request, RpcError},
    protocol::{self, Era, Standing, code, header},
    sse,
};

/// How large a message may be.
const MAX_BODY: usize = 16 * 1024 * 1024;
/// How long a message may take to come in.
const BODY_TIME: Duration = Duration::from_mins(1);
/// How many messages wait for a slow reader of a stream.
const STREAM_WAITING: usize = 64;

/// What all requests share.
pub(crate) struct Front {
    pub(crate) host: Arc<dyn ToolHost>,
    pub(crate) guard: Guard,
    pub(crate) clients: Clients,
    /// The requests under way: they outlive the connections that brought them.
    pub(crate) tasks: TaskTracker,
    /// Cancelled to end in order.
    pub(crate) stop: CancellationToken,
    /// Cancelled to end at once.
    pub(crate) abandon: CancellationToken,
    /// Cancelled when the token is replaced, with every request that the old one let in.
    pub(crate) admitted: Mutex<CancellationToken>,
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front").field("clients", &self.clients).finish_non_exhaustive()
    }
}

impl Front {
    pub(crate) async fn post(self: &Arc<Self>, head: &HeaderMap, body: Body) -> Response {
        let accepts = Accepts::read(head);
        if !accepts.json && !accepts.stream {
            let message = "accept application/json and text/event-stream";
            return refuse(StatusCode::NOT_ACCEPTABLE, &RpcError::new(code::INVALID_REQUEST, message));
        }
        if !headers::is_json(head) {
            let message = "send application/json";
            return refuse(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                &RpcError::new(code::INVALID_REQUEST, message),
            );
        }
        let bytes = match read_body(head, body).await {
            Ok(bytes) => bytes,
            Err(response) => return response,
        };
        match message::parse(&bytes) {
            Ok(Incoming::Request(request)) => self.request(head, accepts, request).await,
            Ok(Incoming::Notification(notification)) => self.notification(head, &notification),
            Ok(Incoming::Response) => match self.session(head) {
                Ok(_) => StatusCode::ACCEPTED.into_response(),
                Err(response) => response,
            },
            Err(malformed) => json_response(
                StatusCode::BAD_REQUEST,
                message::error_message(malformed.id.as_ref(), &malformed.error),
            ),
        }
    }

    async fn request(self: &Arc<Self>, head: &HeaderMap, accepts: Accepts, request: Request) -> Response {
        let id = request.id.clone();
        let bad = |error: &RpcError| {
            json_response(StatusCode::BAD_REQUEST, message::error_message(Some(&id), error))
        };
        let standing = match headers::check(head, &request).and_then(|()| protocol::standing(&request)) {
            Ok(standing) => standing,
            Err(error) => return bad(&error),
        };
        let (client, era) = match standing {
            Standing::Initialize => return self.initialize(&request),
            Standing::Modern => {
                let who = Identity::read(request.meta.client_info.as_deref());
                let Some(client) = self.clients.modern(who) else { return too_many(Some(&id)) };
                (client, Era::Modern)
            }
            Standing::Legacy => {
                if let Err(error) = headers::check_legacy(head) {
                    return bad(&error);
                }
                match self.session(head) {
                    Ok(client) => (client, Era::Legacy),
                    Err(response) => return response,
                }
            }
        };
        if let Err(error) = headers::check_params(head, &request, standing, &*self.host, &client.caller) {
            return bad(&error);
        }
        self.clients.touch(&client, request.method == "tools/call");
        let Some(flight) = client.flights.start(&id, &self.admission()) else { return too_many(Some(&id)) };
        if era == Era::Modern && request.method == "subscriptions/listen" {
            return match (Wanted::read(&request), accepts.stream) {
                (Ok(wanted), true) => self.listen(client, id, wanted, flight),
                (Ok(_), false) => {
                    let message = "accept text/event-stream to listen";
                    refuse(StatusCode::NOT_ACCEPTABLE, &RpcError::new(code::INVALID_REQUEST, message))
                }
                (Err(error), _) => bad(&error),
            };
        }
        let wants_progress = request.method == "tools/call" && request.meta.progress_token().is_some();
        let streamed = accepts.stream && (wants_progress || !accepts.json);
        if streamed && answer::knows(era, &request.method) {
            self.answer_streamed(client, era, request, flight)
        } else {
            self.answer_plain(client, era, request, flight).await
        }
    }

    fn initialize(&self, request: &Request) -> Response {
        let asked = match request.params.protocol_version() {
            Ok(asked) => asked,
            Err(error) => {
                return json_response(StatusCode::OK, message::error_message(Some(&request.id), &error));
            }
        };
        let who = Identity::read(request.params.client_info.as_deref());
        let mut surface = None;
        let opened = self.clients.open(who, |caller| {
            let now = self.host.surface(caller);
            let marks = Marks::of(&now);
            surface = Some(now);
            marks
        });
        let Some(client) = opened else { return too_many(Some(&request.id)) };
        let surface = surface.unwrap_or_default();
        let result = answer::initialize_result(protocol::negotiate(&asked), &surface).to_string();
        let mut response = json_response(StatusCode::OK, message::result_message(&request.id, "", &result));
        if let Some(Ok(value)) = client.session().map(HeaderValue::try_from) {
            response.headers_mut().insert(header::SESSION, value);
        }
        response
    }

    fn notification(&self, head: &HeaderMap, notification: &Notification) -> Response {
        // A modern client cancels by closing its response, so there is nothing to do for it here.
        if headers::is_modern(head) || matches!(notification.meta.version(), Ok(Some(_))) {
            return StatusCode::ACCEPTED.into_response();
        }
        if let Err(error) = headers::check_legacy(head) {
            return refuse(StatusCode::BAD_REQUEST, &error);
        }
        let client = match self.session(head) {
            Ok(client) => client,
            Err(response) => return response,
        };
        self.clients.touch(&client, false);
        if notification.method == "notifications/cancelled"
            && let Some(id) = &notification.params.request_id
        {
            client.flights.cancel(id.get());
        }
        StatusCode::ACCEPTED.into_response()
    }

    /// The session that a legacy request names; the error is its answer.
    #[expect(clippy::result_large_err, reason = "it is sent at once")]
    pub(crate) fn session(&self, head: &HeaderMap) -> Result<Arc<Client>, Response> {
        let Some(id) = head.get(header::SESSION) else {
            let error =
                RpcError::new(code::INVALID_REQUEST, "Mcp-Session-Id is missing: send initialize first");
            return Err(refuse(StatusCode::BAD_REQUEST, &error));
        };
        id.to_str().ok().and_then(|id| self.clients.session(id)).ok_or_else(|| {
            let error = RpcError::new(code::NO_SESSION, "session not found: send initialize again");
            refuse(StatusCode::NOT_FOUND, &error)
        })
    }

    /// What the current token let in ends with it, and everything ends with us.
    fn admission(&self) -> CancellationToken {
        self.admitted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let abandon = self.abandon.clone();
        self.tasks.spawn(async move {
            abandon.run_until_cancelled(task).await;
        });
    }

    async fn answer_plain(
        self: &Arc<Self>,
        client: Arc<Client>,
        era: Era,
        request: Request,
        flight: Flight,
    ) -> Response {
        let id = request.id.clone();
        let (give, answered) = oneshot::channel();
        // A modern client that closes the connection takes its request back; a legacy one only loses the answer.
        let guard = (era == Era::Modern).then(|| flight.cancel.clone().drop_guard());
        let front = Arc::clone(self);
        self.spawn(async move {
            let reply = front.answer(&client, era, request, &flight, None).await;
            drop(flight);
            let _gone = give.send(reply);
        });
        let Ok(reply) = answered.await else { return self.unanswered(&id) };
        if let Some(guard) = guard {
            guard.disarm();
        }
        match reply.encode(&id, era) {
            Some(body) => json_response(protocol::http_status(era, reply.code()), body),
            None => self.unanswered(&id),
        }
    }

    fn answer_streamed(
        self: &Arc<Self>,
        client: Arc<Client>,
        era: Era,
        request: Request,
        flight: Flight,
    ) -> Response {
        let (out, messages) = mpsc::channel(STREAM_WAITING);
        let guard = (era == Era::Modern).then(|| flight.cancel.clone().drop_guard());
        let front = Arc::clone(self);
        self.spawn(async move {
            let id = request.id.clone();
            let reply = front.answer(&client, era, request, &flight, Some(out.clone())).await;
            drop(flight);
            if let Some(message) = reply.encode(&id, era) {
                let _gone = out.send(message).await;
            }
        });
        sse::response(messages, guard)
    }

    async fn answer(
        &self,
        client: &Client,
        era: Era,
        request: Request,
        flight: &Flight,
        progress: Option<mpsc::Sender<Bytes>>,
    ) -> answer::Reply {
        let (host, caller, cancel) = (&*self.host, &client.caller, flight.cancel.clone());
        answer::answer(Asked { host, caller, era, request, cancel, progress }).await
    }

    fn listen(self: &Arc<Self>, client: Arc<Client>, id: Id, wanted: Wanted, flight: Flight) -> Response {
        let (out, messages) = mpsc::channel(STREAM_WAITING);
        let guard = flight.cancel.clone().drop_guard();
        let front = Arc::clone(self);
        self.spawn(async move {
            let (host, caller) = (&*front.host, &client.caller);
            changes::listen(host, caller, &id, wanted, &out, &flight.cancel, &front.stop).await;
        });
        sse::response(messages, Some(guard))
    }

    /// `GET`: the stream of notices of a legacy session.
    pub(crate) fn open_stream(self: &Arc<Self>, head: &HeaderMap) -> Response {
        if !Accepts::read(head).stream {
            let message = "accept text/event-stream";
            return refuse(StatusCode::NOT_ACCEPTABLE, &RpcError::new(code::INVALID_REQUEST, message));
        }
        let client = match self.session(head) {
            Ok(client) => client,
            Err(response) => return response,
        };
        self.clients.touch(&client, false);
        let (out, messages) = mpsc::channel(STREAM_WAITING);
        let open = client.open_stream();
        let front = Arc::clone(self);
        self.spawn(async move {
            tokio::select! {
                () = front.stop.cancelled() => {}
                () = open.cancelled() => {}
                () = changes::follow(&*front.host, &client.caller, &client.seen, Wanted::ALL, None, &out) => {}
            }
            open.cancel();
            front.clients.touch(&client, false);
        });
        sse::response(messages, None)
    }

    /// What is sent where a request ended without an answer.
    fn unanswered(&self, id: &Id) -> Response {
        let (status, error) = if self.stop.is_cancelled() {
            (StatusCode::SERVICE_UNAVAILABLE, RpcError::new(code::BUSY, "the gateway stopped"))
        } else {
            (StatusCode::OK, RpcError::new(code::CANCELLED, "the request was cancelled"))
        };
        json_response(status, message::error_message(Some(id), &error))
    }
}

async fn read_body(head: &HeaderMap, body: Body) -> Result<Bytes, Response> {
    let too_large = || {
        let message = format!("a message may have {} MiB", MAX_BODY / 1024 / 1024);
        refuse(StatusCode::PAYLOAD_TOO_LARGE, &RpcError::new(code::INVALID_REQUEST, message))
    };
    let announced = head.get(std_header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|n| n > MAX_BODY) {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        // Either too large or broken off, and whoever broke off does not read this.
        Ok(Err(_)) => Err(too_large()),
        Err(_) => {
            let error = RpcError::new(code::INVALID_REQUEST, "the message did not come in within a minute");
            Err(refuse(StatusCode::REQUEST_TIMEOUT, &error))
        }
    }
}

fn json_response(status: StatusCode, body: Bytes) -> Response {
    (status, [(std_header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Says no to something that has no id, or none that was read.
pub(crate) fn refuse(status: StatusCode, error: &RpcError) -> Response {
    json_response(status, message::error_message(None, error))
}

fn too_many(id: Option<&Id>) -> Response {
    let error = RpcError::new(code::BUSY, "too many requests at once; try again when some have ended");
    let mut response = json_response(StatusCode::TOO_MANY_REQUESTS, message::error_message(id, &error));
    response.headers_mut().insert(std_header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

pub(crate) fn not_allowed(allowed: &'static str) -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, [(std_header::ALLOW, allowed)]).into_response()
}
