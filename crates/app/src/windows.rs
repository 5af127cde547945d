//! What endpoints said about the windows of their models, remembered for a while. What none said is not remembered for
//! long: a model that is loaded now has one a moment later.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::commands::settings::ModelEndpoint;

const FRESH: Duration = Duration::from_secs(60);

/// The last model that was asked about.
#[derive(Default)]
pub struct Windows {
    last: Mutex<Option<Known>>,
}

struct Known {
    base_url: String,
    model: String,
    tokens: u32,
    since: Instant,
}

impl Windows {
    /// The window of a model in tokens, where its endpoint tells within 2 s.
    pub async fn of(&self, endpoint: &ModelEndpoint) -> Option<u32> {
        {
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = &*last
                && (&known.base_url, &known.model) == (&endpoint.base_url, &endpoint.model)
                && known.since.elapsed() < FRESH
            {
                return Some(known.tokens);
            }
        }
        let tokens =
            evi_chat::context_window(&endpoint.base_url, endpoint.key.as_ref(), &endpoint.model).await?;
        let known = Known {
            base_url: endpoint.base_url.clone(),
            model: endpoint.model.clone(),
            tokens,
            since: Instant::now(),
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        Some(tokens)
    }
}
