//! A response that is a stream of messages (`text/event-stream`). It has no event ids: nothing can be resumed.

use std::{convert::Infallible, time::Duration};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, header};
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

use crate::message::one_line;

/// How often a quiet stream shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A response of the messages that come out of `messages`, until its senders are gone. `guard` goes when the client
/// does.
pub(crate) fn response(messages: mpsc::Receiver<Bytes>, guard: Option<DropGuard>) -> Response {
    let events = stream::unfold((messages, guard), |(mut messages, guard)| async {
        let event = match tokio::time::timeout(KEEP_ALIVE, messages.recv()).await {
            Ok(Some(message)) => event(message),
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b": still here\n\n"),
        };
        Some((Ok::<_, Infallible>(event), (messages, guard)))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn event(message: Bytes) -> Bytes {
    let message = one_line(message);
    let mut event = Vec::with_capacity(message.len() + 24);
    event.extend_from_slice(b"event: message\ndata: ");
    event.extend_from_slice(&message);
    event.extend_from_slice(b"\n\n");
    event.into()
}
