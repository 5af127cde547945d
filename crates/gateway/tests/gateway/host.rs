//! A tool host in memory whose tools show every way a call can end; it has no rules of its own.

use std::{
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use evi_domain::{
    BoxFuture, CallContext, CallError, Caller, Progress, PromptDef, PromptText, ResourceDef, ResourceText,
    Surface, SurfacePrompt, SurfaceResource, SurfaceTool, ToolAddress, ToolDef, ToolHost, ToolResult,
    UpstreamName,
};
use serde_json::{Map, Value, json, value::RawValue};
use tokio::sync::watch;

/// How long a test waits for something that should be there at once.
pub const BOUND: Duration = Duration::from_secs(5);

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Calls that began.
    pub started: usize,
    /// Calls whose caller took them back.
    pub cancelled: usize,
    /// Calls that were dropped or ended.
    pub ended: usize,
}

pub struct Host {
    surface: Mutex<Arc<Surface>>,
    tick: watch::Sender<u64>,
    pub seen: watch::Sender<Seen>,
    pub callers: Mutex<Vec<Caller>>,
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn tool(name: &str) -> SurfaceTool {
    let def = match name {
        "marked" => json!({"name": "own", "inputSchema": {"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"}}}}),
        _ => json!({"name": "own", "title": "T", "description": format!("the tool {name}"),
            "inputSchema": {"type": "object"}, "execution": {"taskSupport": "forbidden"}, "x-odd": [1, {"a": null}]}),
    };
    SurfaceTool {
        name: name.into(),
        address: ToolAddress::upstream(UpstreamName::new("up"), "own"),
        def: ToolDef::new(object(def)).unwrap(),
    }
}

const TOOLS: [&str; 14] = [
    "up.echo",
    "big",
    "pretty",
    "slow",
    "deaf",
    "steps",
    "panics",
    "invalid",
    "forbidden",
    "gone",
    "late",
    "rpc",
    "internal",
    "marked",
];

/// Five megabytes with everything that a careless copy would change.
pub static BIG: LazyLock<String> = LazyLock::new(|| {
    let text = r#"{\"z\":1.10,\"a\" : \"\\u00e9\/\u00e9\"}"#.repeat(160_000);
    format!(r#"{{ "zeta": 1.10, "content":[{{"text":"{text}","type":"text"}}], "n":12345678901234567890 }}"#)
});

impl Host {
    pub fn new() -> Arc<Self> {
        let resource = json!({"uri": "own", "name": "a", "mimeType": "text/markdown", "x-odd": 1});
        let prompt = json!({"name": "own", "description": "greets",
            "arguments": [{"name": "args", "required": false}]});
        let surface = Surface {
            tools: TOOLS.into_iter().map(tool).collect(),
            resources: vec![SurfaceResource {
                uri: "evi://memory/a".into(),
                def: ResourceDef(Arc::new(object(resource))),
            }],
            prompts: vec![SurfacePrompt { name: "greet".into(), def: PromptDef(Arc::new(object(prompt))) }],
            instructions: Some("be kind".to_owned()),
        };
        Arc::new(Self {
            surface: Mutex::new(Arc::new(surface)),
            tick: watch::Sender::new(0),
            seen: watch::Sender::default(),
            callers: Mutex::default(),
        })
    }

    /// Changes what everybody sees.
    pub fn change(&self, change: impl FnOnce(&mut Surface)) {
        {
            let mut surface = self.surface.lock().unwrap();
            let mut next = Surface::clone(&surface);
            change(&mut next);
            *surface = Arc::new(next);
        }
        self.tick();
    }

    /// Says that something changed, whether or not it did.
    pub fn tick(&self) {
        self.tick.send_modify(|n| *n += 1);
    }

    pub fn add_tool(&self, name: &str) {
        self.change(|s| s.tools.push(tool(name)));
    }

    /// Waits until what happened is as wanted.
    pub async fn until(&self, wanted: impl FnMut(&Seen) -> bool) -> Seen {
        let mut seen = self.seen.subscribe();
        *tokio::time::timeout(BOUND, seen.wait_for(wanted)).await.expect("in time").unwrap()
    }
}

struct Ended<'a>(&'a Host);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.seen.send_modify(|s| s.ended += 1);
    }
}

impl ToolHost for Host {
    fn surface(&self, _caller: &Caller) -> Arc<Surface> {
        Arc::clone(&self.surface.lock().unwrap())
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.tick.subscribe()
    }

    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        name: &'a str,
        arguments: Box<RawValue>,
        context: CallContext,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            self.callers.lock().unwrap().push(caller.clone());
            self.seen.send_modify(|s| s.started += 1);
            let _ended = Ended(self);
            let address = ToolAddress::upstream(UpstreamName::new("up"), name);
            let raw = |text: String| Ok(ToolResult::from_raw(RawValue::from_string(text).unwrap()));
            match name {
                "up.echo" => raw(format!(
                    r#"{{"content":[{{"type":"text","text":"ok"}}],"structuredContent":{}}}"#,
                    arguments.get()
                )),
                "marked" => Ok(ToolResult::text("ok")),
                "big" => raw(BIG.clone()),
                "pretty" => raw("{\n  \"content\": [\r\n  ],\n  \"x\": \"a\\nb\"\n}".to_owned()),
                "slow" => {
                    context.cancel.cancelled().await;
                    self.seen.send_modify(|s| s.cancelled += 1);
                    Err(CallError::Cancelled)
                }
                "deaf" => std::future::pending().await,
                "steps" => {
                    let steps = context.progress.clone();
                    for step in [1.0, 2.0, 2.0, 1.5, 3.0, 4.0] {
                        let Some(steps) = &steps else { break };
                        let message = Some(format!("step {step}"));
                        steps.send(Progress { progress: step, total: Some(4.0), message }).await.unwrap();
                    }
                    Ok(ToolResult::text(if steps.is_some() { "with steps" } else { "without" }))
                }
                "panics" => panic!("a tool panics"),
                "invalid" => Err(CallError::InvalidArguments {
                    address,
                    reason: "path.0.name: not a string".to_owned(),
                }),
                "forbidden" => {
                    Err(CallError::Forbidden { address, reason: "[auto] hard_deny names x*".to_owned() })
                }
                "gone" => {
                    Err(CallError::Unavailable { upstream: "up".to_owned(), reason: "it crashed".to_owned() })
                }
                "late" => Err(CallError::TimedOut { address, after: Duration::from_secs(7) }),
                "rpc" => Err(CallError::Rpc {
                    code: -32042,
                    message: "visit".to_owned(),
                    data: Some(json!({"url": "x"})),
                }),
                "internal" => Err(CallError::Internal { message: "a fault".to_owned() }),
                _ => Err(CallError::UnknownTool { name: name.to_owned(), near: vec!["up.echo".to_owned()] }),
            }
        })
    }

    fn read_resource<'a>(
        &'a self,
        _caller: &'a Caller,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ResourceText, CallError>> {
        Box::pin(async move {
            if uri != "evi://memory/a" {
                return Err(CallError::UnknownTool { name: uri.to_owned(), near: Vec::new() });
            }
            Ok(ResourceText { uri: uri.to_owned(), mime: "text/markdown".to_owned(), text: "# A".to_owned() })
        })
    }

    fn get_prompt<'a>(
        &'a self,
        _caller: &'a Caller,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, Result<PromptText, CallError>> {
        Box::pin(async move {
            if name != "greet" {
                return Err(CallError::UnknownTool { name: name.to_owned(), near: Vec::new() });
            }
            Ok(PromptText { description: Some("greets".to_owned()), text: format!("hello {arguments}") })
        })
    }
}
