//! The words of eVi and the ports between its parts; no I/O, no protocol version, no user interface.

pub mod call;
pub mod catalog;
pub mod chat;
pub mod config;
pub mod ids;
pub mod kept;
pub mod names;
pub mod policy;
pub mod ports;
pub mod reference;
pub mod result;
pub mod secret;
pub mod upstream;

pub use call::{CallContext, CallError, Progress, ToolCall};
pub use catalog::{
    Completes, Offer, PromptDef, PromptText, ResourceDef, ResourceText, Surface, SurfacePrompt,
    SurfaceResource, SurfaceTool, TemplateDef, ToolDef,
};
pub use config::{
    Config, ConfigProblem, GatewayConfig, LlmConfig, PluginEntry, PluginSwitches, Profile, ToolsConfig,
    UpstreamEntry,
};
pub use ids::{
    CallId, Caller, ChatId, Exposure, MessageId, Owner, ResultId, SecretId, ToolAddress, TurnId, UpstreamName,
};
pub use kept::{KeptError, KeptResults};
pub use policy::{Decision, Policy, Rule, ShareMode};
pub use ports::{BoxFuture, CatalogCache, Journal, JournalEntry, SecretError, SecretStore, ToolHost};
pub use result::ToolResult;
pub use secret::Secret;
pub use upstream::{
    Catalog, EraChoice, Failure, LogLine, LogStream, Stage, StageKind, StageState, TransportSpec,
    UpstreamOptions, UpstreamSpec, UpstreamState, UpstreamStatus,
};
