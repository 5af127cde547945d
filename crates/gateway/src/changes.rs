//! Change notices: one per change that a client can see, and none for what it cannot. It keeps no list of clients.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use evi_domain::{Caller, Surface, ToolHost};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    message::{self, Id, Request, RpcError},
    protocol::key,
};

/// Changes that come closer together than this are one.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// What a client has been told of, as hashes over names and definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    tools: u64,
    resources: u64,
    prompts: u64,
}

impl Marks {
    pub(crate) fn of(surface: &Surface) -> Self {
        Self {
            tools: mark(surface.tools.iter().map(|t| (&*t.name, t.def.json()))),
            resources: mark(surface.resources.iter().map(|r| (&*r.uri, &*r.def.0))),
            prompts: mark(surface.prompts.iter().map(|p| (&*p.name, &*p.def.0))),
        }
    }
}

fn mark<'a>(items: impl Iterator<Item = (&'a str, &'a Map<String, Value>)>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, definition) in items {
        name.hash(&mut hasher);
        serde_json::to_string(definition).unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}

/// The notices that somebody wants, in the shape of a subscription's filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Wanted {
    #[serde(rename = "toolsListChanged", skip_serializing_if = "is_false")]
    tools: bool,
    #[serde(rename = "promptsListChanged", skip_serializing_if = "is_false")]
    prompts: bool,
    #[serde(rename = "resourcesListChanged", skip_serializing_if = "is_false")]
    resources: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

impl Wanted {
    /// What a legacy client gets.
    pub(crate) const ALL: Self = Self { tools: true, prompts: true, resources: true };

    /// The filter of `subscriptions/listen`. What we do not offer is left out, as the acknowledgement will show.
    pub(crate) fn read(request: &Request) -> Result<Self, RpcError> {
        let Some(raw) = request.params.notifications.as_deref().filter(|raw| message::is_object(raw)) else {
            return Err(RpcError::params("notifications is missing or not an object"));
        };
        serde_json::from_str(raw.get())
            .map_err(|error| RpcError::params(format!("invalid notifications: {error}")))
    }
}

/// Writes a notice to `out` for each change of what `caller` sees against `seen`, until `out` closes. What changed
/// before it began counts, too: a client that had no stream for a while learns of it when it opens one.
pub(crate) async fn follow(
    host: &dyn ToolHost,
    caller: &Caller,
    seen: &Mutex<Marks>,
    wanted: Wanted,
    subscription: Option<&Id>,
    out: &mpsc::Sender<Bytes>,
) {
    let mut ticks = host.changed();
    let params = subscription.map(|id| json!({"_meta": {key::SUBSCRIPTION: id.value()}}));
    loop {
        // Before looking, so that a change during the look is seen in the next round.
        ticks.borrow_and_update();
        let now = Marks::of(&host.surface(caller));
        let before = *seen.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = [
            (wanted.tools && now.tools != before.tools, "notifications/tools/list_changed"),
            (wanted.resources && now.resources != before.resources, "notifications/resources/list_changed"),
            (wanted.prompts && now.prompts != before.prompts, "notifications/prompts/list_changed"),
        ];
        for (_, method) in changed.into_iter().filter(|(changed, _)| *changed) {
            if out.send(message::notice(method, params.as_ref())).await.is_err() {
                return;
            }
        }
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = now;
        tokio::select! {
            () = out.closed() => return,
            ticked = ticks.changed() => if ticked.is_err() {
                // The host is gone and nothing will change any more.
                return out.closed().await;
            },
        }
        tokio::time::sleep(DEBOUNCE).await;
    }
}

/// Serves `subscriptions/listen`: the acknowledgement, then notices, then a result when we stop; nothing more when
/// the client cancels or goes.
pub(crate) async fn listen(
    host: &dyn ToolHost,
    caller: &Caller,
    id: &Id,
    wanted: Wanted,
    out: &mpsc::Sender<Bytes>,
    cancel: &CancellationToken,
    stop: &CancellationToken,
) {
    let seen = Mutex::new(Marks::of(&host.surface(caller)));
    let meta = json!({key::SUBSCRIPTION: id.value()});
    let acknowledged = json!({"_meta": meta, "notifications": wanted});
    if out
        .send(message::notice("notifications/subscriptions/acknowledged", Some(&acknowledged)))
        .await
        .is_err()
    {
        return;
    }
    tokio::select! {
        // A stop cancels every request as well, so it is looked at first.
        biased;
        () = stop.cancelled() => {
            let result = json!({"resultType": "complete", "_meta": meta}).to_string();
            let _gone = out.send(message::result_message(id, "", &result)).await;
        }
        () = cancel.cancelled() => {}
        () = follow(host, caller, &seen, wanted, Some(id), out) => {}
    }
}
