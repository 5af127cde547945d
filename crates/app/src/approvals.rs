//! Calls that wait for a person's yes or no. It asks and remembers; it does not decide who must be asked.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use evi_contract::{Answer, ApprovalView, Tag};
use evi_domain::{CallId, ChatId, ToolAddress};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::events::Events;

/// How a question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Allowed,
    /// No.
    Denied,
    /// Nobody answered in time.
    Unanswered,
    /// The caller no longer wants to know.
    Cancelled,
}

struct Pending {
    view: ApprovalView,
    scope: Option<(ChatId, ToolAddress)>,
    answer: oneshot::Sender<Answer>,
}

/// The calls that wait.
pub struct Approvals {
    pending: Mutex<BTreeMap<CallId, Pending>>,
    for_chat: Mutex<HashSet<(ChatId, ToolAddress)>>,
    events: Events,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the question back when whoever asked goes away.
struct Registered<'a> {
    approvals: &'a Approvals,
    id: CallId,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        if locked(&self.approvals.pending).remove(&self.id).is_some() {
            self.approvals.publish();
        }
    }
}

impl Approvals {
    /// No questions yet.
    pub fn new(events: Events) -> Self {
        Self { pending: Mutex::default(), for_chat: Mutex::default(), events }
    }

    /// Asks and waits. The question is registered before it is published, so that an answer cannot come too early.
    pub async fn ask(
        &self,
        id: &CallId,
        view: ApprovalView,
        scope: Option<(ChatId, ToolAddress)>,
        limit: Option<Duration>,
        cancel: &CancellationToken,
    ) -> Verdict {
        let (answer, answered) = oneshot::channel();
        locked(&self.pending).insert(id.clone(), Pending { view, scope, answer });
        let registered = Registered { approvals: self, id: id.clone() };
        self.publish();
        let late = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let verdict = tokio::select! {
            biased;
            () = cancel.cancelled() => Verdict::Cancelled,
            answer = answered => match answer {
                Ok(Answer::AllowOnce | Answer::AllowForChat) => Verdict::Allowed,
                Ok(Answer::Deny) | Err(_) => Verdict::Denied,
            },
            () = late => Verdict::Unanswered,
        };
        drop(registered);
        verdict
    }

    /// Answers a question; `false` when it does not wait any more.
    pub fn answer(&self, id: &CallId, answer: Answer) -> bool {
        let Some(pending) = locked(&self.pending).remove(id) else { return false };
        if answer == Answer::AllowForChat
            && let Some(scope) = pending.scope
        {
            locked(&self.for_chat).insert(scope);
        }
        let heard = pending.answer.send(answer).is_ok();
        self.publish();
        heard
    }

    /// The calls that wait, oldest first.
    pub fn list(&self) -> Vec<ApprovalView> {
        locked(&self.pending).values().map(|p| p.view.clone()).collect()
    }

    /// Whether a call waits.
    pub fn waits(&self, id: &CallId) -> bool {
        locked(&self.pending).contains_key(id)
    }

    /// Whether the person allowed this tool for the rest of this conversation.
    pub fn allowed_for_chat(&self, chat: &ChatId, address: &ToolAddress) -> bool {
        locked(&self.for_chat).contains(&(chat.clone(), address.clone()))
    }

    /// Forgets what was allowed in a conversation.
    pub fn forget_chat(&self, chat: &ChatId) {
        locked(&self.for_chat).retain(|(c, _)| c != chat);
    }

    fn publish(&self) {
        self.events.invalidate(&[Tag::Approvals, Tag::Chats]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    fn view(call: &str) -> ApprovalView {
        ApprovalView {
            call: call.to_owned(),
            chat: None,
            caller: "chat".to_owned(),
            tool: "db.query".to_owned(),
            server: Some("db".to_owned()),
            arguments: json!({}),
            reason: "asks".to_owned(),
            until_ms: None,
        }
    }

    #[tokio::test]
    async fn an_answer_that_comes_with_the_question_is_heard() {
        let events = Events::default();
        let mut seen = events.subscribe();
        let approvals = Arc::new(Approvals::new(events));
        let asker = approvals.clone();
        let asked = tokio::spawn(async move {
            asker.ask(&"1".into(), view("1"), None, None, &CancellationToken::new()).await
        });
        seen.recv().await.unwrap();
        assert!(approvals.answer(&"1".into(), Answer::AllowOnce));
        assert_eq!(asked.await.unwrap(), Verdict::Allowed);
        assert!(!approvals.answer(&"1".into(), Answer::Deny), "answered once only");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_answers_and_it_is_a_denial_that_leaves_nothing_behind() {
        let approvals = Approvals::new(Events::default());
        let limit = Some(Duration::from_secs(45));
        let verdict = approvals.ask(&"1".into(), view("1"), None, limit, &CancellationToken::new()).await;
        assert_eq!(verdict, Verdict::Unanswered);
        assert!(approvals.list().is_empty());
    }

    #[tokio::test]
    async fn i84_allowing_for_a_chat_is_remembered_for_that_chat_only() {
        let approvals = Arc::new(Approvals::new(Events::default()));
        let address = ToolAddress::upstream("db".into(), "query");
        let scope = Some((ChatId::new("c"), address.clone()));
        let asker = approvals.clone();
        let asked = tokio::spawn(async move {
            asker.ask(&"1".into(), view("1"), scope, None, &CancellationToken::new()).await
        });
        while !approvals.answer(&"1".into(), Answer::AllowForChat) {
            tokio::task::yield_now().await;
        }
        asked.await.unwrap();
        assert!(approvals.allowed_for_chat(&"c".into(), &address));
        assert!(!approvals.allowed_for_chat(&"d".into(), &address));
    }
}
