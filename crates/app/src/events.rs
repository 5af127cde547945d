//! The one stream of events to user interfaces; it carries hints, never state.

use evi_contract::{Event, Tag, TurnEventView};
use tokio::sync::broadcast;

/// Publishes events. A receiver that lags misses some and has to fetch again.
#[derive(Clone)]
pub struct Events {
    sender: broadcast::Sender<Event>,
}

impl Default for Events {
    fn default() -> Self {
        Self { sender: broadcast::channel(1024).0 }
    }
}

impl Events {
    /// Says that answers of queries with these tags may be old.
    pub fn invalidate(&self, tags: &[Tag]) {
        if !tags.is_empty() {
            self.publish(Event::Invalidated { tags: tags.to_vec() });
        }
    }
    /// Says how a turn goes on.
    pub fn turn(&self, chat: &str, event: TurnEventView) {
        self.publish(Event::Turn { chat: chat.to_owned(), event: Box::new(event) });
    }
    /// From now on.
    pub fn subscribe(&self) -> broadcast::Receiver<Event> {
        self.sender.subscribe()
    }
    fn publish(&self, event: Event) {
        // No receiver means that nobody looks.
        let _ = self.sender.send(event);
    }
}
