//! The older HTTP+SSE of 2024-11-05, client side: messages come on one event stream and go out as POSTs to the
//! address that its first event names. It follows that address to no other origin, never reconnects by itself (a new
//! stream is a new session, which is the actor's affair), and never sends a message twice.
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use evi_domain::LogStream;
use http::{
    HeaderMap,
    header::{ACCEPT, CONTENT_TYPE},
};
use reqwest::{Response, Url};
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::time::timeout;

use crate::{
    error::Fault,
    events::{Decoder, Event},
    http::{EVENT_STREAM, Endpoint, JSON, drain, explain, kind_of},
    log::Log,
    message::{Messages, Noise},
    wire::Wire,
};

/// How long a POST may take. The answer comes on the stream, and some servers end the POST only after it; so this
/// only ends what nobody waits for any more.
const POST_LIMIT: Duration = Duration::from_secs(300);
/// What the body of a POST's answer may take, so that its connection can be used again.
const REST_LIMIT: Duration = Duration::from_secs(1);

/// An open stream whose endpoint is known.
pub(crate) struct EventStream {
    client: reqwest::Client,
    headers: HeaderMap,
    host: String,
    post: Url,
    /// `None` once it ended.
    stream: Option<Response>,
    decoder: Decoder,
    messages: Messages,
    /// Whether the server ever answered on this stream.
    heard: Arc<AtomicBool>,
    wire: Arc<Wire>,
    log: Log,
}

/// Opens the stream and waits for its endpoint. Takes as long as the server does: bound it.
pub(crate) async fn open(endpoint: &Endpoint, log: &Log) -> Result<EventStream, Fault> {
    let (client, headers, host) = (endpoint.client()?, endpoint.headers(), endpoint.host());
    let get = client.get(endpoint.url().clone()).headers(headers.clone()).header(ACCEPT, EVENT_STREAM);
    let broken = |error: reqwest::Error| explain(&error, &host);
    let mut response = get.send().await.map_err(broken)?;
    let status = response.status();
    if !status.is_success() {
        return Err(Fault::Status { host, status: status.as_u16() });
    }
    let kind = kind_of(&response);
    if kind != EVENT_STREAM {
        return Err(Fault::NotMcp { what: format!("it sends {kind:?} instead of an event stream") });
    }
    let (mut decoder, mut first) = (Decoder::default(), None);
    while first.is_none() {
        let Some(bytes) = response.chunk().await.map_err(broken)? else {
            return Err(Fault::NotMcp { what: "its event stream ended without an endpoint".to_owned() });
        };
        decoder.feed(&bytes);
        first = decoder.events.pop_front();
        if let Some(Event::Whole { kind, .. }) = &first
            && kind != b"endpoint"
        {
            first = None;
        }
    }
    let Some(Event::Whole { data, .. }) = first else {
        return Err(Fault::NotMcp { what: "its event stream begins with something very long".to_owned() });
    };
    let post = same_origin(endpoint, response.url(), &data)?;
    let wire = Wire::new();
    Ok(EventStream {
        client,
        headers,
        host,
        post,
        stream: Some(response),
        decoder,
        messages: Messages::new(Arc::clone(&wire), log.clone(), Noise::Event),
        heard: Arc::default(),
        wire,
        log: log.clone(),
    })
}

/// Where to send messages: only ever to the origin that the person named, as they carry its token.
fn same_origin(endpoint: &Endpoint, stream: &Url, data: &[u8]) -> Result<Url, Fault> {
    let text = String::from_utf8_lossy(data);
    let post = stream
        .join(text.trim())
        .map_err(|_| Fault::NotMcp { what: "the endpoint that it names is no address".to_owned() })?;
    if post.origin() == endpoint.url().origin() {
        return Ok(post);
    }
    let other = post.origin().ascii_serialization().chars().take(200).collect();
    Err(Fault::ForeignEndpoint { host: endpoint.host(), other })
}

impl EventStream {
    /// The shared side of this connection.
    pub(crate) fn wire(&self) -> Arc<Wire> {
        Arc::clone(&self.wire)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
        while let Some(event) = self.decoder.events.pop_front() {
            match event {
                Event::Whole { kind, data } if Event::is_message(&kind) => self.messages.accept(&data),
                Event::Whole { .. } => {}
                Event::TooLong { head, tail } => self.messages.too_long(&head, &tail, None),
            }
        }
    }
}

impl Transport<RoleClient> for EventStream {
    type Error = Fault;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let body = self.messages.encode(&item);
        let heard = Arc::clone(&self.heard);
        let open = self.stream.is_some();
        let host = self.host.clone();
        let post =
            self.client.post(self.post.clone()).headers(self.headers.clone()).header(CONTENT_TYPE, JSON);
        async move {
            let body = body.map_err(Fault::unwritable)?;
            if !open {
                return Err(Fault::Broken { host, reason: "its stream ended".to_owned() });
            }
            let Ok(sent) = timeout(POST_LIMIT, post.body(body).send()).await else { return Ok(()) };
            let mut response = sent.map_err(|error| explain(&error, &host))?;
            match response.status().as_u16() {
                200..=299 => {}
                // The address names the session, so it did not take the message.
                404 | 410 if heard.load(Ordering::Relaxed) => return Err(Fault::SessionExpired),
                status => return Err(Fault::Status { host, status }),
            }
            drain(&mut response, REST_LIMIT).await;
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.messages.next() {
                self.heard.store(true, Ordering::Relaxed);
                return Some(message);
            }
            match self.stream.as_mut()?.chunk().await {
                Ok(Some(bytes)) => self.take(&bytes),
                Ok(None) => self.stream = None,
                Err(error) => {
                    let error = error.without_url();
                    self.log.push(LogStream::Evi, &format!("its event stream broke: {error}"));
                    self.stream = None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.stream = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_the_origin_that_the_person_named_and_to_no_other() {
        use evi_domain::Secret;
        let endpoint =
            Endpoint::new(&Secret::new("https://h/a/sse?key=k"), &Default::default()).ok().unwrap();
        let to =
            |data: &str| same_origin(&endpoint, endpoint.url(), data.as_bytes()).map(|url| url.to_string());
        assert_eq!(to("/m?s=1").ok().unwrap(), "https://h/m?s=1");
        assert_eq!(to("m").ok().unwrap(), "https://h/a/m");
        assert_eq!(to("https://h:443/m").ok().unwrap(), "https://h/m");
        for foreign in ["https://other/m", "//other/m", "http://h/m", "https://h:444/m"] {
            assert_eq!(to(foreign).err().unwrap().code(), "foreign_endpoint", "{foreign}");
        }
    }
}
