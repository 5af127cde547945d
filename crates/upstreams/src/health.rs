//! Notices that the machine slept or that eVi was held up, and has every server asked then whether it is still there:
//! a connection that looks open may lead nowhere. The same for all servers behind a network when the way to one of
//! them failed. It asks nobody itself and restarts nothing.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use tokio::{
    sync::{Semaphore, watch},
    time::sleep,
};

/// How often the clocks are looked at.
const TICK: Duration = Duration::from_secs(5);
/// A pause beyond a tick that is no accident.
const PAUSE: Duration = Duration::from_secs(30);
/// Failures of the network that come closer together are one.
const LOSS_EVERY: Duration = Duration::from_secs(5);
/// Servers that are asked at once.
const BATCH: usize = 8;
/// Over how long the questions are spread.
const SPREAD: Duration = Duration::from_secs(2);

/// Tells of pauses; one for all servers.
pub(crate) struct Health {
    wakes: watch::Sender<u64>,
    /// Only for servers behind a network.
    losses: watch::Sender<u64>,
    last_loss: Mutex<Option<Instant>>,
    /// Taken for as long as a server is asked.
    batch: Semaphore,
}

impl Health {
    pub(crate) fn new() -> Self {
        Self {
            wakes: watch::Sender::new(0),
            losses: watch::Sender::new(0),
            last_loss: Mutex::default(),
            batch: Semaphore::new(BATCH),
        }
    }

    /// There was a pause.
    pub(crate) fn wake(&self) {
        self.wakes.send_modify(|count| *count += 1);
    }

    /// Changes after every pause from now on.
    pub(crate) fn wakes(&self) -> watch::Receiver<u64> {
        self.wakes.subscribe()
    }

    /// The way to a server failed, so that the network may be another one now.
    pub(crate) fn lost_network(&self) {
        let mut last = self.last_loss.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() > LOSS_EVERY) {
            *last = Some(Instant::now());
            self.losses.send_modify(|count| *count += 1);
        }
    }

    /// Changes when the network may have been lost.
    pub(crate) fn losses(&self) -> watch::Receiver<u64> {
        self.losses.subscribe()
    }

    /// Asks in its turn, so that many servers are not woken in the same moment.
    pub(crate) async fn in_turn<T>(&self, ask: impl Future<Output = T>) -> T {
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.subsec_nanos());
        sleep(SPREAD.mul_f64(f64::from(nanos / 1000 % 1000) / 1000.0)).await;
        let _turn = self.batch.acquire().await;
        ask.await
    }

    /// Looks for pauses for ever.
    pub(crate) async fn watch(&self) {
        let (mut wall, mut steady) = (SystemTime::now(), Instant::now());
        loop {
            sleep(TICK).await;
            let (wall_now, steady_now) = (SystemTime::now(), Instant::now());
            // A clock that was set back tells nothing.
            let passed = wall_now.duration_since(wall).unwrap_or_default();
            if is_pause(passed, steady_now - steady) {
                tracing::info!(seconds = passed.as_secs(), "after a pause every server is asked again");
                self.wake();
            }
            (wall, steady) = (wall_now, steady_now);
        }
    }
}

/// Whether a tick came late, or the clock on the wall went on while the steady one, which on most systems stands while
/// the machine sleeps, did not.
fn is_pause(wall: Duration, steady: Duration) -> bool {
    steady > TICK + PAUSE || wall.saturating_sub(steady) > PAUSE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i20_a_sleep_and_a_stop_are_pauses_and_a_busy_machine_or_a_corrected_clock_is_not() {
        let seconds = Duration::from_secs;
        assert!(!is_pause(seconds(5), seconds(5)));
        assert!(!is_pause(seconds(20), seconds(20)));
        assert!(!is_pause(seconds(8), seconds(5)));
        assert!(!is_pause(seconds(0), seconds(5)));
        assert!(is_pause(seconds(3600), seconds(5)), "the steady clock stood still");
        assert!(is_pause(seconds(120), seconds(120)), "eVi was held");
    }
}
