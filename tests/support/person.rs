//! A person at a window: the application in this process, as the desktop holds it, with a keychain in memory.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use evi_app::{
    Front, Home, MemoryVault, Options, Problem, Shell,
    domain::{Secret, SecretError, SecretId, SecretStore},
};
use serde_json::{Value, json};

use crate::{House, Program, until};

/// Who uses eVi through its commands.
pub struct Person {
    front: Front,
    vault: Arc<dyn SecretStore>,
    /// Every answer and every problem so far, as text.
    heard: Mutex<String>,
}

impl House {
    /// Opens the window. The home is this process's from now on.
    pub async fn opens(&self) -> Person {
        self.opens_as(Shell::Desktop).await
    }

    /// Opens eVi as one of its shells.
    pub async fn opens_as(&self, shell: Shell) -> Person {
        self.opens_with(shell, |redactor| Arc::new(MemoryVault::new(redactor)), |_| {}).await
    }

    /// Opens eVi with another keychain or other options.
    pub async fn opens_with(
        &self,
        shell: Shell,
        vault: impl FnOnce(Arc<evi_app::Redactor>) -> Arc<dyn SecretStore>,
        change: impl FnOnce(&mut Options),
    ) -> Person {
        let mut options = Options::new(Home::at(self.home()), shell);
        let vault = vault(options.redactor.clone());
        options.vault = Some(vault.clone());
        change(&mut options);
        let front = Front::open(options).await.unwrap();
        Person { front, vault, heard: Mutex::default() }
    }

    /// Opens the window again after it was closed: with the keychain that was there.
    pub async fn opens_again(&self, vault: Arc<dyn SecretStore>) -> Person {
        self.opens_with(Shell::Desktop, |_| vault, |_| {}).await
    }
}

impl Person {
    /// Runs a command of the contract.
    pub async fn tries(&self, command: &str, params: Value) -> Result<Value, Problem> {
        let result = self.front.call(command, params).await;
        let text = match &result {
            Ok(answer) => answer.to_string(),
            Err(problem) => format!("{problem:?}"),
        };
        self.heard.lock().unwrap().push_str(&text);
        result
    }

    /// Runs a command that has to work.
    pub async fn does(&self, command: &str, params: Value) -> Value {
        self.tries(command, params).await.unwrap_or_else(|p| panic!("{command} failed: {p:?}"))
    }

    /// Runs a command that has to fail.
    pub async fn is_refused(&self, command: &str, params: Value) -> Problem {
        match self.tries(command, params).await {
            Ok(answer) => panic!("{command} should have failed, but gave {answer}"),
            Err(problem) => problem,
        }
    }

    /// Asks for something that has no parameters.
    pub async fn asks(&self, query: &str) -> Value {
        self.does(query, json!({})).await
    }

    /// Adds a server, as the form does.
    pub async fn adds(&self, name: &str, program: &Program) -> Value {
        self.does("upstream_add", json!({"draft": program.draft(name), "turn_on_mcp": true})).await
    }

    /// The server's row as it is now.
    pub async fn server(&self, name: &str) -> Value {
        self.does("upstream_get", json!({"name": name})).await
    }

    /// The server's row once it is in this state.
    pub async fn sees(&self, name: &str, state: &str) -> Value {
        let look = || async {
            let row = self.tries("upstream_get", json!({"name": name})).await.ok()?;
            (row["state"] == state).then_some(row)
        };
        until(&format!("server {name} to be {state}"), look).await
    }

    /// Waits until a query's answer is as it should be.
    pub async fn waits_for(
        &self,
        what: &str,
        query: &str,
        params: Value,
        is: impl Fn(&Value) -> bool,
    ) -> Value {
        let look = || async {
            let answer = self.does(query, params.clone()).await;
            is(&answer).then_some(answer)
        };
        until(what, look).await
    }

    /// Calls a tool and gives the text of its result.
    pub async fn calls(&self, tool: &str, arguments: Value) -> String {
        let view = self.does("tool_call", json!({"tool": tool, "arguments": arguments})).await;
        assert_eq!(view["outcome"], "ok", "{view}");
        view["text"].as_str().unwrap().to_owned()
    }

    /// The names of the tools there are.
    pub async fn tools(&self) -> Vec<String> {
        crate::names(&self.asks("tool_list").await["tools"])
    }

    /// Says something in a conversation, or begins one; gives the conversation.
    pub async fn says(&self, chat: Option<&str>, text: &str) -> String {
        let sent = self.does("chat_send", json!({"chat": chat, "text": text})).await;
        sent["chat"].as_str().unwrap().to_owned()
    }

    /// The conversation once nothing runs in it.
    pub async fn reads_to_the_end(&self, chat: &str) -> Value {
        let ended = |view: &Value| view["running"] == json!(false);
        self.waits_for("the answer to end", "chat_get", json!({"chat": chat}), ended).await
    }

    /// The first call that waits for an answer.
    pub async fn is_asked(&self) -> Value {
        let asked = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
        self.waits_for("a question", "approval_list", json!({}), asked).await[0].clone()
    }

    /// Answers a question: `allow_once`, `allow_for_chat` or `deny`.
    pub async fn answers(&self, question: &Value, answer: &str) {
        self.does("approval_answer", json!({"call": question["call"], "answer": answer})).await;
    }

    /// Whether eVi ever answered with this text.
    pub fn ever_heard(&self, text: &str) -> bool {
        self.heard.lock().unwrap().contains(text)
    }

    /// The application behind the window.
    pub fn front(&self) -> &Front {
        &self.front
    }

    /// The keychain.
    pub fn vault(&self) -> Arc<dyn SecretStore> {
        self.vault.clone()
    }

    /// Quits.
    pub async fn quits(self) {
        let quit = self.front.shutdown();
        tokio::time::timeout(Duration::from_secs(20), quit).await.expect("quitting ends in time");
    }

    /// The values in the keychain by their ids.
    pub fn secrets(&self) -> BTreeMap<String, String> {
        let value = |id: &SecretId| self.vault.get(id).unwrap().unwrap().expose().to_owned();
        self.vault.ids().iter().map(|id| (id.to_string(), value(id))).collect()
    }
}

/// A machine without a keychain.
pub struct NoKeychain;

impl SecretStore for NoKeychain {
    fn get(&self, _: &SecretId) -> Result<Option<Secret>, SecretError> {
        Err(SecretError::NoKeychain)
    }
    fn set(&self, _: &SecretId, _: &Secret) -> Result<(), SecretError> {
        Err(SecretError::NoKeychain)
    }
    fn delete(&self, _: &SecretId) -> Result<(), SecretError> {
        Err(SecretError::NoKeychain)
    }
    fn ids(&self) -> Vec<SecretId> {
        Vec::new()
    }
    fn probe(&self) -> Result<(), SecretError> {
        Err(SecretError::NoKeychain)
    }
}
