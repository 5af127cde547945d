//! The requests of one client that are under way: how many, and how to cancel them. It runs nothing itself.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::message::Id;

/// How many requests of one client run at once.
pub(crate) const MAX_IN_FLIGHT: usize = 64;

/// The requests of one client that are under way.
#[derive(Debug, Default)]
pub(crate) struct Flights(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    serial: u64,
    running: Vec<(u64, String, CancellationToken)>,
}

impl Flights {
    /// Enters a request; `None` when there are too many.
    pub(crate) fn start(self: &Arc<Self>, id: &Id, stop: &CancellationToken) -> Option<Flight> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.running.len() >= MAX_IN_FLIGHT {
            return None;
        }
        table.serial += 1;
        let (serial, cancel) = (table.serial, stop.child_token());
        table.running.push((serial, id.text().to_owned(), cancel.clone()));
        Some(Flight { flights: Arc::clone(self), serial, cancel })
    }

    /// Cancels the request with this id; none is no error, because it may just have ended.
    pub(crate) fn cancel(&self, id: &str) {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, _, cancel) in table.running.iter().filter(|(_, text, _)| text == id) {
            cancel.cancel();
        }
    }

    /// Cancels all.
    pub(crate) fn cancel_all(&self) {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, _, cancel) in &table.running {
            cancel.cancel();
        }
    }

    /// Whether none is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).running.is_empty()
    }
}

/// One request under way; it leaves the table when dropped.
#[derive(Debug)]
pub(crate) struct Flight {
    flights: Arc<Flights>,
    serial: u64,
    /// Cancelled when nobody wants the answer any more.
    pub(crate) cancel: CancellationToken,
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut table = self.flights.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.running.retain(|(serial, ..)| *serial != self.serial);
    }
}
