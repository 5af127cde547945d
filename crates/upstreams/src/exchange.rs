//! One request over HTTP: sends it once, reads its answer from a body or a stream, and goes on with a stream that
//! ends early. A request that gets no answer ends with the reason, never in silence. It never sends anything again.

use std::time::Duration;

use http::HeaderMap;
use reqwest::Response;
use rmcp::model::{ErrorCode, ErrorData, NumberOrString, ServerJsonRpcMessage};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    error::Fault,
    events::Decoder,
    http::{EVENT_STREAM, JSON, drain, explain, kind_of},
    message::{ENDS, MESSAGE_CAP, Messages, Noise},
    streamable::{Post, take},
};

/// How long a request may take when whoever sent it may have gone away without a word.
const EXCHANGE_LIMIT: Duration = Duration::from_secs(300);
/// How long a message that wants no answer may take.
const NOTICE_LIMIT: Duration = Duration::from_secs(30);
/// Bytes of the body of a refusal.
const REFUSAL_CAP: usize = 1 << 20;
/// What else comes after the answer may take, so that the connection can be used again.
const REST_LIMIT: Duration = Duration::from_millis(200);
/// The pause before a stream is gone on with, unless the server names another.
const RESUME_PAUSE: Duration = Duration::from_secs(1);
/// Failures in a row to go on with a stream.
const RESUMES: u32 = 4;

/// A request made ready.
pub(crate) struct Outgoing {
    pub(crate) id: NumberOrString,
    pub(crate) body: Vec<u8>,
    pub(crate) headers: HeaderMap,
    /// Ends it: nobody waits any more.
    pub(crate) stop: CancellationToken,
    /// Without a session.
    pub(crate) modern: bool,
    pub(crate) initializes: bool,
    pub(crate) discovers: bool,
    /// Whoever waits says when to stop: a call, or a subscription, whose stream has no end.
    pub(crate) unlimited: bool,
    pub(crate) has_session: bool,
}

/// Takes the request off the list of those under way, however it ends.
struct Over<'a>(&'a Post, &'a NumberOrString);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over(self.1);
    }
}

/// Sends what wants no answer.
pub(crate) async fn plain_post(post: &Post, body: Vec<u8>, headers: HeaderMap) -> Result<(), Fault> {
    let host = || post.host.clone();
    let sending = post.client.post(post.url.clone()).headers(headers).body(body).send();
    let sent = timeout(NOTICE_LIMIT, sending).await.map_err(|_| Fault::TimedOut { host: host() })?;
    let mut response = sent.map_err(|error| explain(&error, &post.host))?;
    let status = response.status();
    drain(&mut response, REST_LIMIT).await;
    if status.is_success() { Ok(()) } else { Err(Fault::Status { host: host(), status: status.as_u16() }) }
}

impl Post {
    /// Until the answer was delivered, or `Err` with why there is none.
    pub(crate) async fn exchange(&self, outgoing: Outgoing) -> Result<(), Fault> {
        let _over = Over(self, &outgoing.id);
        let limit = if outgoing.unlimited { Duration::MAX } else { EXCHANGE_LIMIT };
        let talking = timeout(limit, self.talk(&outgoing));
        match outgoing.stop.run_until_cancelled(talking).await {
            None => Ok(()),
            Some(talked) => talked.unwrap_or_else(|_| Err(Fault::TimedOut { host: self.host.clone() })),
        }
    }

    async fn talk(&self, outgoing: &Outgoing) -> Result<(), Fault> {
        let request =
            self.client.post(self.url.clone()).headers(outgoing.headers.clone()).body(outgoing.body.clone());
        let response = request.send().await.map_err(|error| explain(&error, &self.host))?;
        let status = response.status().as_u16();
        if !response.status().is_success() {
            return self.refused(response, outgoing).await;
        }
        if outgoing.initializes {
            self.remember_session(&response);
        }
        let kind = kind_of(&response);
        if kind == EVENT_STREAM {
            return self.follow(response, outgoing).await;
        }
        if matches!(status, 202 | 204) {
            // Some servers answer on the stream of notices.
            if self.is_listening() {
                return Ok(());
            }
            return Err(Fault::NotMcp { what: "it accepted a request without answering it".to_owned() });
        }
        if !kind.is_empty() && kind != JSON {
            return Err(Fault::NotMcp { what: format!("it sends {kind}") });
        }
        self.body(response, outgoing).await
    }

    /// An answer that is not a success: an error of the protocol where it is one, else what the status says.
    async fn refused(&self, mut response: Response, outgoing: &Outgoing) -> Result<(), Fault> {
        let status = response.status().as_u16();
        let refusal = || Fault::Status { host: self.host.clone(), status };
        if matches!(status, 300..=399 | 401 | 403 | 429) {
            return Err(refusal());
        }
        let (mut body, mut whole) = (Vec::new(), kind_of(&response) == JSON);
        while whole
            && let Some(bytes) = response.chunk().await.map_err(|error| explain(&error, &self.host))?
        {
            body.extend_from_slice(&bytes);
            whole = body.len() <= REFUSAL_CAP;
        }
        let error = match serde_json::from_slice(&body) {
            Ok(ServerJsonRpcMessage::Error(error)) if whole => Some(error.error),
            _ => None,
        };
        let unknown_method = error.as_ref().is_some_and(|error| error.code == ErrorCode::METHOD_NOT_FOUND);
        if status == 404 && outgoing.has_session && !unknown_method {
            // It did not take the message.
            return Err(Fault::SessionExpired);
        }
        let error = match error {
            Some(error) => error,
            // A server that wants `initialize` first may say so in any words.
            None if outgoing.discovers && matches!(status, 400..=499) => {
                ErrorData::invalid_request(format!("HTTP {status}"), None)
            }
            None => return Err(refusal()),
        };
        self.wire.take_expected(&outgoing.id);
        let error = ServerJsonRpcMessage::error(error, Some(outgoing.id.clone()));
        self.deliver(error, Some(outgoing)).await;
        Ok(())
    }

    /// An answer in one piece.
    async fn body(&self, mut response: Response, outgoing: &Outgoing) -> Result<(), Fault> {
        let mut messages = self.messages(Noise::Body);
        let mut body = Vec::new();
        let broken = |error: reqwest::Error| explain(&error, &self.host);
        while let Some(bytes) = response.chunk().await.map_err(broken)? {
            body.extend_from_slice(&bytes);
            if body.len() > MESSAGE_CAP {
                // The rest would tell nothing: the answer is whose request it is.
                messages.too_long(&body[..ENDS], &body[body.len() - ENDS..], Some(&outgoing.id));
                self.pass(&mut messages, outgoing).await;
                return Ok(());
            }
        }
        messages.accept(&body);
        if self.pass(&mut messages, outgoing).await {
            return Ok(());
        }
        Err(Fault::NotMcp { what: "its answer is not JSON-RPC".to_owned() })
    }

    /// An answer at the end of a stream, which may come in parts.
    async fn follow(&self, mut response: Response, outgoing: &Outgoing) -> Result<(), Fault> {
        let (mut decoder, mut messages) = (Decoder::default(), self.messages(Noise::Event));
        loop {
            let ended = loop {
                match response.chunk().await {
                    Ok(Some(bytes)) => decoder.feed(&bytes),
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
                while let Some(event) = decoder.events.pop_front() {
                    take(event, &mut messages, Some(&outgoing.id));
                    if self.pass(&mut messages, outgoing).await {
                        drain(&mut response, REST_LIMIT).await;
                        return Ok(());
                    }
                }
            };
            let Some(last) = decoder.last_id.clone().filter(|_| !outgoing.modern) else {
                return Err(match ended {
                    Some(error) => explain(&error, &self.host),
                    None => self.cut_off(),
                });
            };
            response = self.resume(&last, decoder.retry.unwrap_or(RESUME_PAUSE)).await?;
            decoder = decoder.resumed();
        }
    }

    /// The rest of a stream that ended after the event `last`.
    async fn resume(&self, last: &[u8], pause: Duration) -> Result<Response, Fault> {
        let mut failures = 0;
        loop {
            sleep(pause.max(Duration::from_millis(10)) * 2u32.pow(failures)).await;
            match self.get(Some(last)).await {
                Ok(response) => return Ok(response),
                // The request may have run, so this is not the end of a session that can be said to be known.
                Err(Fault::Status { status: 400..=499, .. } | Fault::NotMcp { .. }) => {
                    return Err(self.cut_off());
                }
                Err(fault) if failures + 1 >= RESUMES => return Err(fault),
                Err(_) => failures += 1,
            }
        }
    }

    fn cut_off(&self) -> Fault {
        Fault::Broken { host: self.host.clone(), reason: "its stream ended before the answer".to_owned() }
    }

    /// Delivers what there is; whether the answer was among it.
    async fn pass(&self, messages: &mut Messages, outgoing: &Outgoing) -> bool {
        let mut answered = false;
        while let Some(mut message) = messages.next() {
            if let ServerJsonRpcMessage::Error(error) = &mut message {
                // An error without an id can only be about what was asked here.
                error.id.get_or_insert_with(|| outgoing.id.clone());
            }
            answered |= match &message {
                ServerJsonRpcMessage::Response(answer) => same(&answer.id, &outgoing.id),
                ServerJsonRpcMessage::Error(error) => {
                    error.id.as_ref().is_some_and(|id| same(id, &outgoing.id))
                }
                _ => false,
            };
            self.deliver(message, Some(outgoing)).await;
        }
        answered
    }
}

/// Some servers give a number back as text.
fn same(answered: &NumberOrString, asked: &NumberOrString) -> bool {
    answered == asked || answered.to_string() == asked.to_string()
}
