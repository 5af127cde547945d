//! Waiting for a state, with a bound; never for a time.

use std::{
    future::Future,
    time::{Duration, Instant},
};

/// How long anything may take before a flow fails. The machine may be busy with other tests.
pub const LIMIT: Duration = Duration::from_secs(40);

/// Looks again and again until `look` gives something.
///
/// # Panics
/// After [`LIMIT`], naming `what`.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "waited {} s in vain for {what}", LIMIT.as_secs());
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}
