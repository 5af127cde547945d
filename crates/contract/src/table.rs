//! The command table: every command once, with its parameters, its answer and the cache tags; the compiler
//! checks that the application has each, and the TypeScript is made from the same lines.

use std::{future::Future, panic::AssertUnwindSafe};

use futures::FutureExt;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use ts_rs::TS;

use crate::*;

/// What a cached answer depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Tag {
    /// Facts about this run.
    App,
    /// Settings.
    Settings,
    /// Servers and their states.
    Upstreams,
    /// Logs of servers.
    Logs,
    /// Tools.
    Tools,
    /// The served endpoint.
    Gateway,
    /// Conversations.
    Chats,
    /// Calls that wait for an answer.
    Approvals,
    /// The record of calls.
    Activity,
}

/// Whether a command changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// It only answers; its tags say what the answer depends on.
    Query,
    /// It changes something; its tags say which answers are old then.
    Mutation,
}

/// A line of the table.
#[derive(Clone, Copy, Debug)]
pub struct CommandInfo {
    /// Its name, `noun_verb`.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// Query or mutation.
    pub kind: Kind,
    /// What its answer depends on, or makes old.
    pub tags: &'static [Tag],
    /// Its parameter's and its answer's type in TypeScript.
    pub types: fn(&ts_rs::Config) -> (String, String),
}

fn read<P: DeserializeOwned>(params: Value) -> Result<P, Problem> {
    // Commands without parameters may be called with null or with an empty object.
    serde_json::from_value(params)
        .map_err(|e| Problem::new(Code::InvalidInput, format!("invalid parameters: {e}")))
}

fn write<R: Serialize>(answer: R) -> Result<Value, Problem> {
    serde_json::to_value(answer)
        .map_err(|e| Problem::new(Code::Internal, format!("could not write the answer: {e}")))
}

/// No parameters, or no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, TS)]
pub struct Nothing {}

impl<'de> Deserialize<'de> for Nothing {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self {})
    }
}

macro_rules! command_table {
    ($($kind:ident $name:ident($param:ty) -> $answer:ty, [$($tag:ident),*], $about:literal;)*) => {
        /// What the application can do; one method per line of the table.
        pub trait Commands: Send + Sync {
            $(
                #[doc = $about]
                fn $name(&self, params: $param) -> impl Future<Output = Result<$answer, Problem>> + Send;
            )*
        }

        /// Every command.
        pub const COMMANDS: &[CommandInfo] = &[$(
            CommandInfo {
                name: stringify!($name),
                about: $about,
                kind: Kind::$kind,
                tags: &[$(Tag::$tag),*],
                types: |cfg| (<$param as TS>::name(cfg), <$answer as TS>::name(cfg)),
            },
        )*];

        async fn run(api: &impl Commands, command: &str, params: Value) -> Result<Value, Problem> {
            match command {
                $(stringify!($name) => write(api.$name(read(params)?).await?),)*
                _ => Err(Problem::new(Code::UnknownCommand, format!("unknown command: {command}"))),
            }
        }
    };
}

command_table! {
    Query app_info(Nothing) -> AppInfo, [App, Settings], "Facts about this run";
    Query settings_get(Nothing) -> Settings, [Settings], "What can be set, without secrets";
    Mutation settings_update(SettingsPatch) -> Settings, [Settings, App, Upstreams, Tools, Gateway], "Changes settings";
    Mutation model_key_set(KeySet) -> Settings, [Settings], "Puts the model's key into the keychain, or deletes it";
    Query model_discover(Nothing) -> Vec<FoundModels>, [], "Looks for model servers on this machine";
    Query model_list(Nothing) -> ModelNames, [Settings], "Lists the models of the configured endpoint";

    Query upstream_list(Nothing) -> Vec<UpstreamRow>, [Upstreams], "Every configured server with its state";
    Query upstream_get(UpstreamRef) -> UpstreamRow, [Upstreams], "One server with its state";
    Query upstream_log(UpstreamRef) -> UpstreamLog, [Logs], "The last lines of a server's log";
    Query upstream_parse(ParseText) -> ParsedUpstream, [], "Splits a pasted command line, address or settings block";
    Mutation upstream_add(UpstreamAdd) -> UpstreamAdded, [Upstreams, Tools, Settings, App, Gateway], "Adds a server";
    Mutation upstream_edit(UpstreamEdit) -> UpstreamRow, [Upstreams, Tools, Gateway], "Changes a server; values that are not given stay";
    Mutation upstream_rename(UpstreamRename) -> UpstreamRow, [Upstreams, Tools, Gateway], "Renames a server; its secrets stay with it";
    Mutation upstream_remove(UpstreamRef) -> Nothing, [Upstreams, Tools, Gateway], "Removes a server and its secrets";
    Mutation upstream_set_enabled(UpstreamSwitch) -> UpstreamRow, [Upstreams, Tools, Gateway], "Switches a server";
    Mutation upstream_restart(UpstreamRef) -> UpstreamRow, [Upstreams, Tools], "Stops a server and starts it again";
    Mutation upstream_settle(UpstreamSettle) -> Vec<UpstreamRow>, [Upstreams, Tools], "Waits until no server is on its way, starting them for this command where [tools] mcp is off";

    Query plugin_list(Nothing) -> Vec<PluginRow>, [Upstreams, Settings], "Every plugin with what it brings";
    Mutation plugin_set_enabled(PluginSwitch) -> PluginRow, [Upstreams, Tools, Settings, Gateway], "Switches a plugin with all that it brings";
    Mutation plugin_remove(PluginRef) -> PluginRemoved, [Upstreams, Tools, Settings, Gateway], "Moves a plugin's folder into the trash";

    Query tool_list(Nothing) -> ToolList, [Tools], "Every tool there is now";
    Mutation tool_set_enabled(ToolSwitch) -> Nothing, [Tools, Gateway], "Switches a tool";
    Mutation tool_call(ToolCallRequest) -> CallView, [Activity], "Calls a tool for the person";
    Query result_read(ResultRead) -> ResultPage, [], "A part of a result that was too large to be shown whole";
    Mutation call_cancel(CallRef) -> Nothing, [], "Cancels a call";
    Query activity_list(Nothing) -> Vec<ActivityRow>, [Activity], "The newest calls";

    Query resource_list(OfferQuery) -> ResourceList, [Tools], "What can be read at the servers, and how";
    Query resource_read(ResourceRead) -> ResourceView, [], "Reads a resource for the person";
    Query prompt_list(OfferQuery) -> PromptList, [Tools], "The prompts of the servers";
    Query prompt_get(PromptGet) -> PromptView, [], "Gets a prompt's messages for the person";
    Query completion_get(CompletionAsk) -> Completion, [], "Values that a server suggests for an argument or a variable";
    Query upstream_about(UpstreamRef) -> ServerAbout, [Tools], "What a server says of itself";

    Query gateway_get(Nothing) -> GatewayView, [Gateway], "The served endpoint";
    Mutation gateway_set_enabled(Switch) -> GatewayView, [Gateway], "Starts or stops the served endpoint";
    Mutation gateway_set_port(PortSet) -> GatewayView, [Gateway, Settings], "Changes the port";
    Mutation gateway_token_copy(Nothing) -> TokenText, [], "Gives the token, because the person asked for it";
    Mutation gateway_token_replace(Nothing) -> GatewayView, [Gateway], "Makes a new token; the old one ends at once";
    Mutation share_set(ShareSet) -> GatewayView, [Gateway, Tools], "Shares a server with the clients of the gateway, or not";
    Mutation category_set(CategorySet) -> GatewayView, [Gateway, Tools], "Shares a category of eVi's own tools, or not";
    Query connect_clients(Nothing) -> Vec<ClientKind>, [], "The applications that eVi can write the block for";
    Query connect_text(ConnectQuery) -> ConnectText, [Gateway], "The block that connects another application";
    Mutation connect_check(ConnectQuery) -> ConnectCheck, [], "Starts eVi exactly as the application will and says how it went";

    Query chat_list(Nothing) -> Vec<ChatRow>, [Chats], "Every conversation, newest first";
    Query chat_get(ChatRef) -> ChatView, [Chats, Approvals], "One conversation";
    Mutation chat_send(ChatSend) -> ChatSent, [Chats], "Says something; the turn goes on in events";
    Mutation chat_stop(ChatRef) -> Nothing, [Chats, Approvals], "Ends the running turn and cancels its call";
    Mutation chat_rename(ChatRename) -> Nothing, [Chats], "Renames a conversation";
    Mutation chat_delete(ChatRef) -> Nothing, [Chats, Approvals], "Deletes a conversation";
    Query approval_list(Nothing) -> Vec<ApprovalView>, [Approvals], "Calls that wait for an answer";
    Mutation approval_answer(ApprovalAnswer) -> Nothing, [Approvals], "Answers a call that waits";
}

/// Runs a command. One that panics becomes a problem; the rest goes on.
///
/// # Errors
/// The command's own problem, `unknown_command`, `invalid_input`, or `internal` for a panic.
pub async fn dispatch(api: &impl Commands, command: &str, params: Value) -> Result<Value, Problem> {
    caught(command, run(api, command, params)).await
}

async fn caught(
    command: &str,
    running: impl Future<Output = Result<Value, Problem>>,
) -> Result<Value, Problem> {
    match AssertUnwindSafe(running).catch_unwind().await {
        Ok(answer) => answer,
        Err(panic) => {
            let what = panic
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no message".to_owned());
            tracing::error!(command, panic = %what, "a command panicked");
            Err(Problem::new(Code::Internal, format!("{command} failed inside eVi"))
                .hint("the log has the details; this is a fault of eVi"))
        }
    }
}

/// The line of a command.
pub fn info(command: &str) -> Option<&'static CommandInfo> {
    COMMANDS.iter().find(|c| c.name == command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_noun_verb_and_stands_once() {
        let mut seen = std::collections::BTreeSet::new();
        for command in COMMANDS {
            assert!(command.name.contains('_'), "{} is not noun_verb", command.name);
            assert!(seen.insert(command.name), "{} stands twice", command.name);
        }
    }

    #[tokio::test]
    async fn a_command_that_panics_is_a_problem_and_the_next_one_runs() {
        let problem = caught("chat_get", async { panic!("broken") }).await.unwrap_err();
        assert_eq!(problem.code, Code::Internal);
        assert!(problem.message.contains("chat_get") && !problem.message.contains("broken"));
        assert_eq!(caught("chat_get", async { Ok(Value::Null) }).await, Ok(Value::Null));
    }

    #[test]
    fn no_parameters_may_be_null_or_an_object() {
        for params in [Value::Null, serde_json::json!({}), serde_json::json!({"x": 1})] {
            assert!(read::<Nothing>(params).is_ok());
        }
    }
}
