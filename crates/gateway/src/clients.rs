//! Who is connected over HTTP: legacy sessions and modern callers, bounded in number and in time. It sends nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use evi_domain::{Caller, Exposure};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{changes::Marks, flights::Flights, message::Identity};

/// How many clients are known at once.
const MAX_CLIENTS: usize = 256;
/// How long a client without a stream and without a request stays known.
const IDLE: Duration = Duration::from_mins(30);

/// A program that is connected, or was within the last half hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// What it calls itself, or `unknown`.
    pub name: String,
    /// Its version, as it says.
    pub version: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Its last tool call, in milliseconds since 1970.
    pub last_call_ms: Option<u64>,
    /// How it reaches us: `http` or `stdio`.
    pub transport: String,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    key: Key,
    who: Identity,
    pub(crate) caller: Caller,
    pub(crate) flights: Arc<Flights>,
    /// What a legacy client was told of.
    pub(crate) seen: Mutex<Marks>,
    /// Cancelled when the session ends.
    pub(crate) end: CancellationToken,
    since_ms: u64,
    times: Mutex<Times>,
    stream: Mutex<Option<CancellationToken>>,
}

#[derive(Debug)]
struct Times {
    used: Instant,
    last_call_ms: Option<u64>,
}

/// A modern client has no session: all with one name and version are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Session(String),
    Modern(Arc<str>, String),
}

impl Client {
    /// Its session id.
    pub(crate) fn session(&self) -> Option<&str> {
        match &self.key {
            Key::Session(id) => Some(id),
            Key::Modern(..) => None,
        }
    }

    /// Makes room for a stream of notices: the one before it ends, because a client that opens a second one has
    /// usually lost the first.
    pub(crate) fn open_stream(&self) -> CancellationToken {
        let token = self.end.child_token();
        if let Some(old) = lock(&self.stream).replace(token.clone()) {
            old.cancel();
        }
        token
    }

    fn is_idle(&self) -> bool {
        self.flights.is_empty() && lock(&self.stream).as_ref().is_none_or(CancellationToken::is_cancelled)
    }

    fn used(&self) -> Instant {
        lock(&self.times).used
    }

    fn end(&self) {
        self.flights.cancel_all();
        self.end.cancel();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// All clients.
#[derive(Debug)]
pub(crate) struct Clients {
    exposure: Exposure,
    known: Mutex<HashMap<Key, Arc<Client>>>,
    changed: watch::Sender<u64>,
}

impl Clients {
    pub(crate) fn new(exposure: Exposure) -> Self {
        Self { exposure, known: Mutex::default(), changed: watch::Sender::new(0) }
    }

    /// Opens a legacy session; `None` when there are too many and none is idle.
    pub(crate) fn open(&self, who: Identity, marks: impl FnOnce(&Caller) -> Marks) -> Option<Arc<Client>> {
        let key = Key::Session(uuid::Uuid::new_v4().to_string());
        self.enter(key, who, marks, Instant::now())
    }

    /// The client that a modern request comes from; `None` when there are too many and none is idle.
    pub(crate) fn modern(&self, who: Identity) -> Option<Arc<Client>> {
        let key = Key::Modern(Arc::clone(&who.name), who.version.clone());
        if let Some(client) = lock(&self.known).get(&key) {
            return Some(Arc::clone(client));
        }
        // Each listener keeps its own marks.
        self.enter(key, who, |_| Marks::default(), Instant::now())
    }

    /// A legacy session, by the id that we gave it.
    pub(crate) fn session(&self, id: &str) -> Option<Arc<Client>> {
        lock(&self.known).get(&Key::Session(id.to_owned())).cloned()
    }

    fn enter(
        &self,
        key: Key,
        who: Identity,
        marks: impl FnOnce(&Caller) -> Marks,
        now: Instant,
    ) -> Option<Arc<Client>> {
        let caller = Caller::Client { name: Arc::clone(&who.name), exposure: self.exposure.clone() };
        let client = Arc::new(Client {
            key: key.clone(),
            who,
            // Before the lock: the host may take its time.
            seen: Mutex::new(marks(&caller)),
            caller,
            flights: Arc::default(),
            end: CancellationToken::new(),
            since_ms: now_ms(),
            times: Mutex::new(Times { used: now, last_call_ms: None }),
            stream: Mutex::default(),
        });
        let evicted = {
            let mut known = lock(&self.known);
            let evicted = if known.len() < MAX_CLIENTS {
                None
            } else {
                let oldest = known.values().filter(|c| c.is_idle()).min_by_key(|c| c.used())?.key.clone();
                known.remove(&oldest)
            };
            known.insert(key, Arc::clone(&client));
            evicted
        };
        if let Some(evicted) = evicted {
            evicted.end();
        }
        self.tick();
        Some(client)
    }

    /// Notes that a client asked for something; `call` when it was a tool.
    pub(crate) fn touch(&self, client: &Client, call: bool) {
        let mut times = lock(&client.times);
        times.used = Instant::now();
        if call {
            times.last_call_ms = Some(now_ms());
            drop(times);
            self.tick();
        }
    }

    /// Ends a session.
    pub(crate) fn close(&self, client: &Client) {
        lock(&self.known).remove(&client.key);
        client.end();
        self.tick();
    }

    /// Ends all: what was allowed in before may not be now.
    pub(crate) fn close_all(&self) {
        let all: Vec<_> = lock(&self.known).drain().map(|(_, client)| client).collect();
        for client in all {
            client.end();
        }
        self.tick();
    }

    /// Ends the clients that were idle for too long.
    pub(crate) fn sweep(&self, now: Instant) {
        let gone: Vec<_> = {
            let mut known = lock(&self.known);
            known.extract_if(|_, c| c.is_idle() && now.saturating_duration_since(c.used()) >= IDLE).collect()
        };
        for (_, client) in &gone {
            client.end();
        }
        if !gone.is_empty() {
            self.tick();
        }
    }

    /// Who is known now, in the order of their coming.
    pub(crate) fn list(&self) -> Vec<ClientInfo> {
        let mut list: Vec<_> = lock(&self.known)
            .values()
            .map(|client| ClientInfo {
                name: client.who.name.to_string(),
                version: client.who.version.clone(),
                since_ms: client.since_ms,
                last_call_ms: lock(&client.times).last_call_ms,
                transport: "http".to_owned(),
            })
            .collect();
        list.sort_by(|a, b| (a.since_ms, &a.name).cmp(&(b.since_ms, &b.name)));
        list
    }

    /// Ticks when the list may have changed.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn tick(&self) {
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Identity;

    fn clients() -> Clients {
        Clients::new(Exposure::default())
    }

    fn open(clients: &Clients) -> Option<Arc<Client>> {
        clients.open(Identity::read(None), |_| Marks::default())
    }

    #[test]
    fn a_session_ends_after_half_an_hour_unless_it_has_a_stream() {
        let clients = clients();
        let (quiet, listening) = (open(&clients).unwrap(), open(&clients).unwrap());
        let stream = listening.open_stream();
        clients.sweep(Instant::now() + IDLE - Duration::from_mins(1));
        assert_eq!(clients.list().len(), 2);
        clients.sweep(Instant::now() + IDLE);
        assert!(quiet.end.is_cancelled());
        assert!(clients.session(quiet.session().unwrap()).is_none());
        assert!(clients.session(listening.session().unwrap()).is_some());
        stream.cancel();
        clients.sweep(Instant::now() + IDLE);
        assert!(clients.list().is_empty());
    }

    #[test]
    fn the_oldest_idle_session_makes_room_and_a_listening_one_never_does() {
        let clients = clients();
        let listening = open(&clients).unwrap();
        let _stream = listening.open_stream();
        let oldest = open(&clients).unwrap();
        for _ in 2..MAX_CLIENTS {
            open(&clients).unwrap();
        }
        open(&clients).unwrap();
        assert_eq!(clients.list().len(), MAX_CLIENTS);
        assert!(oldest.end.is_cancelled());
        assert!(!listening.end.is_cancelled());
    }

    #[test]
    fn a_full_house_of_listeners_takes_nobody_in() {
        let clients = clients();
        for _ in 0..MAX_CLIENTS {
            open(&clients).unwrap().open_stream();
        }
        assert!(open(&clients).is_none());
    }

    #[test]
    fn a_second_stream_ends_the_first() {
        let client = open(&clients()).unwrap();
        let first = client.open_stream();
        let second = client.open_stream();
        assert!(first.is_cancelled() && !second.is_cancelled());
    }

    #[test]
    fn modern_requests_of_one_program_are_one_client() {
        let clients = clients();
        let who = || Identity { name: "a".into(), version: "1".to_owned() };
        let first = clients.modern(who()).unwrap();
        assert!(Arc::ptr_eq(&first, &clients.modern(who()).unwrap()));
        assert!(first.session().is_none());
    }
}
