//! Calls that the person started and may cancel, by their identity.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use evi_domain::CallId;
use tokio_util::sync::CancellationToken;

/// The running calls of the person.
#[derive(Default)]
pub struct Calls {
    running: Mutex<HashMap<CallId, CancellationToken>>,
}

/// Takes a call off the list when it ends.
pub struct Registered<'a> {
    calls: &'a Calls,
    id: CallId,
}

impl Calls {
    /// Puts a call on the list and gives what cancels it.
    pub fn register(&self, id: &CallId, parent: &CancellationToken) -> (CancellationToken, Registered<'_>) {
        let token = parent.child_token();
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), token.clone());
        (token, Registered { calls: self, id: id.clone() })
    }
    /// Cancels a call, if it runs.
    pub fn cancel(&self, id: &CallId) {
        if let Some(token) = self.running.lock().unwrap_or_else(PoisonError::into_inner).get(id) {
            token.cancel();
        }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.calls.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
