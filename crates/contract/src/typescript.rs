//! Writes the TypeScript of the contract from the command table and its types.

use ts_rs::{Config, TS};

use crate::*;

macro_rules! declarations {
    ($cfg:expr; $($ty:ty),* $(,)?) => { [$(<$ty as TS>::decl($cfg)),*] };
}

/// The one generated file, `contract.ts`.
pub fn contract_ts() -> String {
    let cfg = Config::new().with_large_int("number");
    let types = declarations![&cfg;
        Code, Problem, Tag, Kind, Nothing,
        AppInfo, ConfigProblemView, Settings, SettingsPatch, KeySet, FoundModels, ModelNames,
        UpstreamRef, UpstreamStateView, UpstreamOptionsView, StageView, UpstreamRow, LogLineView, UpstreamLog, ParseText, UpstreamDraft,
        DraftValue, ParsedUpstream, UpstreamAdd, UpstreamAdded, UpstreamEdit, UpstreamRename, UpstreamSwitch,
        UpstreamSettle,
        PluginRef, PluginSwitch, PluginRow, PluginRemoved,
        ToolRow, ToolList, MissingServer, ToolSwitch, ToolCallRequest, CallView, KeptView, CallRef, ActivityRow,
        ResultRead, ResultPage,
        OfferQuery, ResourceRow, ResourceList, ResourceRead, ResourceView, PromptRow, PromptArgument, PromptList,
        PromptGet, PromptView, CompletionOf, CompletionAsk, Completion, ServerAbout,
        GatewayView, ClientRow, ShareRow, ShareModeView, CategoryRow, ShareSet, CategorySet, Switch, PortSet,
        TokenText, ConnectQuery, ConnectText, ClientKind, ConnectCheck,
        ChatRow, ChatRef, ChatView, MessageView, CallRow, ChatSend, ChatSent, ChatRename, ApprovalView, Answer,
        ApprovalAnswer, Event, TurnEventView,
    ];
    let mut out = String::from(
        "// Made from crates/contract by `cargo xtask gen`; edit there.\n\n\
         export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };\n",
    );
    for declaration in types {
        out.push_str("export ");
        out.push_str(declaration.trim());
        out.push('\n');
    }
    out.push_str("\nexport interface CommandMap {\n");
    for command in COMMANDS {
        let (params, answer) = (command.types)(&cfg);
        out.push_str(&format!("  /** {} */\n  {}: [{params}, {answer}];\n", command.about, command.name));
    }
    out.push_str("}\n\nexport type Command = keyof CommandMap;\n\nexport const commands: Record<Command, { kind: Kind; tags: readonly Tag[] }> = {\n");
    for command in COMMANDS {
        let kind = serde_json::to_string(&command.kind).unwrap_or_default();
        let tags = serde_json::to_string(command.tags).unwrap_or_default();
        out.push_str(&format!("  {}: {{ kind: {kind}, tags: {tags} }},\n", command.name));
    }
    out.push_str("};\n");
    out
}
