//! The commands of the contract, each in the module of its noun; this file only joins them to the table.

mod chat;
mod gateway;
pub(crate) mod offer;
pub(crate) mod plugin;
pub(crate) mod settings;
pub(crate) mod tool;
pub(crate) mod upstream;

use evi_contract::*;

use crate::App;

macro_rules! delegate {
    ($($name:ident($param:ty) -> $answer:ty = $module:ident;)*) => {
        impl Commands for App {
            $(
                async fn $name(&self, params: $param) -> Result<$answer, Problem> {
                    $module::$name(self, params).await
                }
            )*
        }
    };
}

delegate! {
    app_info(Nothing) -> AppInfo = settings;
    settings_get(Nothing) -> Settings = settings;
    settings_update(SettingsPatch) -> Settings = settings;
    model_key_set(KeySet) -> Settings = settings;
    model_discover(Nothing) -> Vec<FoundModels> = settings;
    model_list(Nothing) -> ModelNames = settings;
    upstream_list(Nothing) -> Vec<UpstreamRow> = upstream;
    upstream_get(UpstreamRef) -> UpstreamRow = upstream;
    upstream_log(UpstreamRef) -> UpstreamLog = upstream;
    upstream_parse(ParseText) -> ParsedUpstream = upstream;
    upstream_add(UpstreamAdd) -> UpstreamAdded = upstream;
    upstream_edit(UpstreamEdit) -> UpstreamRow = upstream;
    upstream_rename(UpstreamRename) -> UpstreamRow = upstream;
    upstream_remove(UpstreamRef) -> Nothing = upstream;
    upstream_set_enabled(UpstreamSwitch) -> UpstreamRow = upstream;
    upstream_restart(UpstreamRef) -> UpstreamRow = upstream;
    upstream_settle(UpstreamSettle) -> Vec<UpstreamRow> = upstream;
    plugin_list(Nothing) -> Vec<PluginRow> = plugin;
    plugin_set_enabled(PluginSwitch) -> PluginRow = plugin;
    plugin_remove(PluginRef) -> PluginRemoved = plugin;
    tool_list(Nothing) -> ToolList = tool;
    tool_set_enabled(ToolSwitch) -> Nothing = tool;
    tool_call(ToolCallRequest) -> CallView = tool;
    result_read(ResultRead) -> ResultPage = tool;
    call_cancel(CallRef) -> Nothing = tool;
    activity_list(Nothing) -> Vec<ActivityRow> = tool;
    resource_list(OfferQuery) -> ResourceList = offer;
    resource_read(ResourceRead) -> ResourceView = offer;
    prompt_list(OfferQuery) -> PromptList = offer;
    prompt_get(PromptGet) -> PromptView = offer;
    completion_get(CompletionAsk) -> Completion = offer;
    upstream_about(UpstreamRef) -> ServerAbout = offer;
    gateway_get(Nothing) -> GatewayView = gateway;
    gateway_set_enabled(Switch) -> GatewayView = gateway;
    gateway_set_port(PortSet) -> GatewayView = gateway;
    gateway_token_copy(Nothing) -> TokenText = gateway;
    gateway_token_replace(Nothing) -> GatewayView = gateway;
    share_set(ShareSet) -> GatewayView = gateway;
    category_set(CategorySet) -> GatewayView = gateway;
    connect_clients(Nothing) -> Vec<ClientKind> = gateway;
    connect_text(ConnectQuery) -> ConnectText = gateway;
    connect_check(ConnectQuery) -> ConnectCheck = gateway;
    chat_list(Nothing) -> Vec<ChatRow> = chat;
    chat_get(ChatRef) -> ChatView = chat;
    chat_send(ChatSend) -> ChatSent = chat;
    chat_stop(ChatRef) -> Nothing = chat;
    chat_rename(ChatRename) -> Nothing = chat;
    chat_delete(ChatRef) -> Nothing = chat;
    approval_list(Nothing) -> Vec<ApprovalView> = chat;
    approval_answer(ApprovalAnswer) -> Nothing = chat;
}
