//! A foreign client, rmcp's, in both eras and over both transports.

use std::sync::Arc;

use evi_domain::{Exposure, ToolHost};
use evi_gateway::serve_stream;
use rmcp::{
    ClientHandler,
    model::{
        CallToolRequestParams, ClientCapabilities, ClientConfig, GetPromptRequestParams, Implementation,
        ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams, SubscriptionFilter,
    },
    service::{ClientLifecycleMode, ClientServiceExt, NotificationContext, RoleClient, RunningService},
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    host::{BOUND, Host},
    web::Web,
};

#[derive(Debug, PartialEq)]
enum Told {
    Tools,
    Progress(f64),
}

struct Ear(mpsc::UnboundedSender<Told>);

impl ClientHandler for Ear {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(ClientCapabilities::default(), Implementation::new("rmcp", "3"))
    }
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.send(Told::Tools).unwrap();
    }
    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.0.send(Told::Progress(params.progress)).unwrap();
    }
}

type Client = RunningService<RoleClient, Ear>;

fn legacy() -> ClientLifecycleMode {
    ClientLifecycleMode::Initialize
}

fn auto() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

/// What every client does, and what it must find.
async fn exercise(client: &Client, told: &mut mpsc::UnboundedReceiver<Told>, host: &Host) {
    let info = client.peer_info().unwrap();
    assert_eq!(info.server_info.as_ref().unwrap().name, "evi");
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools[0].name, "up.echo");
    let arguments = json!({"a": 1}).as_object().unwrap().clone();
    let result =
        client.call_tool(CallToolRequestParams::new("up.echo").with_arguments(arguments)).await.unwrap();
    assert_eq!(result.structured_content, Some(json!({"a": 1})));
    assert!(client.call_tool(CallToolRequestParams::new("nope")).await.is_err());
    assert_eq!(client.call_tool(CallToolRequestParams::new("gone")).await.unwrap().is_error, Some(true));
    let result = client.call_tool(CallToolRequestParams::new("steps")).await.unwrap();
    assert_eq!(result.content[0].as_text().unwrap().text, "with steps");
    let mut steps = Vec::new();
    for _ in 0..4 {
        let Told::Progress(step) = next(told).await else { panic!("progress") };
        steps.push(step);
    }
    // rmcp runs its handlers side by side, so their order is not ours.
    steps.sort_by(f64::total_cmp);
    assert_eq!(steps, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(client.list_all_resources().await.unwrap()[0].uri, "evi://memory/a");
    client.read_resource(ReadResourceRequestParams::new("evi://memory/a")).await.unwrap();
    assert!(client.read_resource(ReadResourceRequestParams::new("evi://memory/b")).await.is_err());
    assert_eq!(client.list_all_prompts().await.unwrap()[0].name, "greet");
    let prompt = client.get_prompt(GetPromptRequestParams::new("greet")).await.unwrap();
    assert_eq!(prompt.messages.len(), 1);
    host.add_tool("new");
}

async fn next(told: &mut mpsc::UnboundedReceiver<Told>) -> Told {
    tokio::time::timeout(BOUND, told.recv()).await.expect("in time").unwrap()
}

async fn over_http(web: &Web, mode: ClientLifecycleMode) -> (Client, mpsc::UnboundedReceiver<Told>) {
    let config = StreamableHttpClientTransportConfig::with_uri(web.url("/mcp")).auth_header("t");
    let (tell, told) = mpsc::unbounded_channel();
    let transport = StreamableHttpClientTransport::from_config(config);
    (Ear(tell).serve_with_lifecycle(transport, mode).await.unwrap(), told)
}

#[tokio::test]
async fn i37_a_legacy_client_over_http_finds_everything_and_hears_of_changes() {
    let web = Web::start_with_token("t").await;
    let (client, mut told) = over_http(&web, legacy()).await;
    assert_eq!(client.peer_info().unwrap().protocol_version, ProtocolVersion::V_2025_11_25);
    exercise(&client, &mut told, &web.host).await;
    assert_eq!(next(&mut told).await, Told::Tools);
    assert!(client.list_all_tools().await.unwrap().iter().any(|t| t.name == "new"));
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn i37_a_client_that_finds_the_era_itself_is_modern_over_http() {
    let web = Web::start_with_token("t").await;
    let (client, mut told) = over_http(&web, auto()).await;
    assert_eq!(client.peer_info().unwrap().protocol_version, ProtocolVersion::V_2026_07_28);
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let mut subscription = client.peer().listen(filter).await.unwrap();
    exercise(&client, &mut told, &web.host).await;
    let notice = tokio::time::timeout(BOUND, subscription.next()).await.expect("in time").unwrap();
    assert!(matches!(notice, Some(rmcp::model::ServerNotification::ToolListChangedNotification(_))));
    assert!(client.list_all_tools().await.unwrap().iter().any(|t| t.name == "new"));
    client.cancel().await.unwrap();
}

async fn over_lines(host: &Arc<Host>, mode: ClientLifecycleMode) -> (Client, mpsc::UnboundedReceiver<Told>) {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(theirs);
    let tool_host: Arc<dyn ToolHost> = host.clone();
    tokio::spawn(serve_stream(tool_host, Exposure::default(), read, write, CancellationToken::new()));
    let (tell, told) = mpsc::unbounded_channel();
    (Ear(tell).serve_with_lifecycle(tokio::io::split(ours), mode).await.unwrap(), told)
}

#[tokio::test]
async fn i37_a_legacy_client_over_lines_finds_everything_and_hears_of_changes() {
    let host = Host::new();
    let (client, mut told) = over_lines(&host, legacy()).await;
    exercise(&client, &mut told, &host).await;
    assert_eq!(next(&mut told).await, Told::Tools);
    client.cancel().await.unwrap();
}

#[tokio::test]
async fn i37_a_client_that_finds_the_era_itself_is_modern_over_lines() {
    let host = Host::new();
    let (client, mut told) = over_lines(&host, auto()).await;
    assert_eq!(client.peer_info().unwrap().protocol_version, ProtocolVersion::V_2026_07_28);
    exercise(&client, &mut told, &host).await;
    client.cancel().await.unwrap();
}
