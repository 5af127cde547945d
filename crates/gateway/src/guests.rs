//! Who is connected over byte streams: known from its first word to its end. It sends nothing and bounds nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;

use crate::{
    clients::{ClientInfo, now_ms},
    message::Identity,
};

/// The clients of [`crate::serve_guest`], shared by all the streams of a process.
#[derive(Clone, Debug, Default)]
pub struct Guests {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    known: Mutex<BTreeMap<u64, ClientInfo>>,
    /// Counts what came, went or called.
    changed: watch::Sender<u64>,
}

impl Guests {
    /// Who is connected now, in the order of their coming.
    pub fn list(&self) -> Vec<ClientInfo> {
        self.inner.known.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Ticks when the list may have changed.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.inner.changed.subscribe()
    }

    pub(crate) fn enter(&self, who: &Identity) -> Guest {
        let info = ClientInfo {
            name: who.name.to_string(),
            version: who.version.clone(),
            since_ms: now_ms(),
            last_call_ms: None,
            transport: "stdio".to_owned(),
        };
        let mut id = 0;
        self.change(|known, count| {
            id = count;
            known.insert(id, info);
        });
        Guest { guests: self.clone(), id }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u64, ClientInfo>, u64)) {
        self.inner.changed.send_modify(|count| {
            *count += 1;
            change(&mut self.inner.known.lock().unwrap_or_else(PoisonError::into_inner), *count);
        });
    }
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    guests: Guests,
    id: u64,
}

impl Guest {
    /// Notes that it calls a tool.
    pub(crate) fn calls(&self) {
        self.guests.change(|known, _| {
            if let Some(info) = known.get_mut(&self.id) {
                info.last_call_ms = Some(now_ms());
            }
        });
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.guests.change(|known, _| {
            known.remove(&self.id);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_listed_from_its_first_word_to_its_end() {
        let guests = Guests::default();
        let changed = guests.changed();
        let guest = guests.enter(&Identity { name: "editor".into(), version: "2".to_owned() });
        assert!(changed.has_changed().unwrap());
        let listed = guests.list();
        assert_eq!((listed[0].name.as_str(), listed[0].transport.as_str()), ("editor", "stdio"));
        assert_eq!(listed[0].last_call_ms, None);
        guest.calls();
        assert!(guests.list()[0].last_call_ms.is_some());
        drop(guest);
        assert!(guests.list().is_empty());
    }
}
