//! A host of tools for tests: answers as each test says, and keeps what it was called with.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use evi_domain::{
    BoxFuture, CallContext, CallError, CallId, Caller, KeptError, KeptResults, PromptText, ResourceText,
    ResultId, Surface, SurfaceTool, ToolAddress, ToolDef, ToolHost, ToolResult,
    kept::{Form, Page},
};
use serde_json::{Value, json, value::RawValue};
use tokio::sync::watch;

pub struct Host {
    pub surface: Surface,
    pub answer: fn(&str, &Value) -> Result<ToolResult, CallError>,
    /// Waits for the cancel instead of answering, and says that it saw it; `false` waits without looking.
    pub wait: Option<bool>,
    pub called: Mutex<Vec<(CallId, String, String)>>,
    pub cancelled: watch::Sender<bool>,
    /// The characters of each result that it keeps, all as `h`.
    pub kept: Mutex<Vec<usize>>,
    pub changed: watch::Sender<u64>,
}

pub fn tool(server: &str, name: &str) -> SurfaceTool {
    let address = ToolAddress::upstream(server.into(), name);
    let def = json!({"name": name, "description": "does it", "inputSchema": {"type": "object",
                     "properties": {"path": {"type": "string"}}}});
    let Value::Object(def) = def else { unreachable!() };
    SurfaceTool { name: address.to_string().into(), address, def: ToolDef::new(def).unwrap() }
}

/// The tool that reads kept results.
pub fn reader() -> SurfaceTool {
    let def = json!({"name": "read_result", "inputSchema": {"type": "object",
                     "properties": {"offset": {"description": "the character to begin at"}}}});
    let Value::Object(def) = def else { unreachable!() };
    let address = evi_domain::kept::read_result();
    SurfaceTool { name: address.to_string().into(), address, def: ToolDef::new(def).unwrap() }
}

impl KeptResults for Host {
    fn keep(&self, _: &Caller, result: &ToolResult) -> Result<ResultId, KeptError> {
        self.kept.lock().unwrap().push(result.to_model_text().chars().count());
        Ok(ResultId::new("h"))
    }
    fn read(&self, _: &Caller, id: &ResultId, _: Form, _: usize, _: usize) -> Result<Page, KeptError> {
        Err(KeptError::NotThere(id.clone()))
    }
    fn forget(&self, _: &Caller) {}
}

impl Host {
    pub fn new(answer: fn(&str, &Value) -> Result<ToolResult, CallError>) -> Self {
        let tools = vec![tool("filesystem", "list_directory"), tool("filesystem", "read_file")];
        Self {
            surface: Surface { tools, ..Surface::default() },
            answer,
            wait: None,
            called: Mutex::default(),
            cancelled: watch::Sender::new(false),
            kept: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }
    pub fn tools(&self) -> Vec<(String, String)> {
        self.called
            .lock()
            .unwrap()
            .iter()
            .map(|(_, name, arguments)| (name.clone(), arguments.clone()))
            .collect()
    }
    pub async fn saw_cancel(&self) {
        let mut cancelled = self.cancelled.subscribe();
        tokio::time::timeout(Duration::from_secs(5), cancelled.wait_for(|c| *c)).await.unwrap().unwrap();
    }
}

impl ToolHost for Host {
    fn surface(&self, _caller: &Caller) -> Arc<Surface> {
        Arc::new(self.surface.clone())
    }
    fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
    fn call<'a>(
        &'a self,
        _caller: &'a Caller,
        name: &'a str,
        arguments: Box<RawValue>,
        context: CallContext,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let id = context.id.expect("the call's identity");
            self.called.lock().unwrap().push((id, name.to_owned(), arguments.get().to_owned()));
            match self.wait {
                Some(true) => {
                    context.cancel.cancelled().await;
                    self.cancelled.send_replace(true);
                    Err(CallError::Cancelled)
                }
                Some(false) => std::future::pending().await,
                None => (self.answer)(name, &serde_json::from_str(arguments.get()).unwrap()),
            }
        })
    }
    fn read_resource<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a str,
    ) -> BoxFuture<'a, Result<ResourceText, CallError>> {
        Box::pin(async { Err(CallError::Cancelled) })
    }
    fn get_prompt<'a>(
        &'a self,
        _: &'a Caller,
        _: &'a str,
        _: &'a str,
    ) -> BoxFuture<'a, Result<PromptText, CallError>> {
        Box::pin(async { Err(CallError::Cancelled) })
    }
}
