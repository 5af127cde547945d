//! Tells watchers that something changed, at most once in a short while: a storm of changes is one tick.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Notify, watch};

/// The shortest time between two ticks.
const REST: Duration = Duration::from_millis(50);

/// A clone is the same pulse.
#[derive(Clone)]
pub(crate) struct Pulse {
    dirty: Arc<Notify>,
    count: Arc<watch::Sender<u64>>,
}

impl Pulse {
    /// A pulse, and the loop that drives it until it is dropped.
    pub(crate) fn new() -> (Self, impl Future<Output = ()> + Send + 'static) {
        let pulse = Self { dirty: Arc::new(Notify::new()), count: Arc::new(watch::Sender::new(0)) };
        let driver = pulse.clone();
        let drive = async move {
            loop {
                driver.dirty.notified().await;
                driver.count.send_modify(|n| *n += 1);
                tokio::time::sleep(REST).await;
            }
        };
        (pulse, drive)
    }

    /// Something changed.
    pub(crate) fn tick(&self) {
        self.dirty.notify_one();
    }

    /// Ticks from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }
}
