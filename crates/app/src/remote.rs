//! The tool host across processes: an owner runs calls for an attached process's own HTTP endpoint. It passes
//! things on and decides nothing.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use evi_contract::{Code, Problem};
use evi_domain::{
    BoxFuture, CallContext, CallError, CallId, Caller, Exposure, PromptText, ResourceText, Surface, ToolHost,
    ToolResult,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    App,
    calls::Calls,
    front::{Front, Seat},
};

const SURFACE: &str = "host_surface";
const CALL: &str = "host_call";
const CANCEL: &str = "host_cancel";
const RESOURCE: &str = "host_resource";
const PROMPT: &str = "host_prompt";

#[derive(Serialize, Deserialize)]
struct Ask {
    caller: Caller,
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: Value,
    #[serde(default)]
    call: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Told<T> {
    Ok(T),
    Err(CallError),
}

impl<T> From<Result<T, CallError>> for Told<T> {
    fn from(result: Result<T, CallError>) -> Self {
        match result {
            Ok(value) => Self::Ok(value),
            Err(error) => Self::Err(error),
        }
    }
}

impl<T> From<Told<T>> for Result<T, CallError> {
    fn from(told: Told<T>) -> Self {
        match told {
            Told::Ok(value) => Ok(value),
            Told::Err(error) => Err(error),
        }
    }
}

/// What an owner runs for one attached process: the contract's commands, and the tool host's.
#[derive(Clone)]
pub struct Served {
    app: App,
    calls: Arc<Calls>,
}

impl Served {
    /// For one connection.
    pub fn new(app: App) -> Self {
        Self { app, calls: Arc::default() }
    }

    /// Runs a command.
    pub fn run(&self, command: String, params: Value) -> BoxFuture<'static, Result<Value, Value>> {
        let me = self.clone();
        Box::pin(async move {
            let result = match command.as_str() {
                SURFACE | CALL | CANCEL | RESOURCE | PROMPT => me.host(&command, params).await,
                _ => me.app.dispatch(&command, params).await,
            };
            result.map_err(|problem| json!(problem))
        })
    }

    async fn host(&self, command: &str, params: Value) -> Result<Value, Problem> {
        let ask: Ask = serde_json::from_value(params)
            .map_err(|e| Problem::new(Code::InvalidInput, format!("invalid parameters: {e}")))?;
        let host = self.app.host();
        match command {
            SURFACE => Ok(json!(*host.surface(&ask.caller))),
            CALL => {
                let id = CallId::new(ask.call);
                let (cancel, _registered) = self.calls.register(&id, &self.app.cancel);
                let context = CallContext { id: Some(id), cancel, progress: None };
                let raw = RawValue::from_string(ask.arguments.to_string()).unwrap_or_default();
                let result = host.call(&ask.caller, &ask.name, raw, context).await;
                Ok(json!(Told::from(result.map(|r| r.to_value()))))
            }
            CANCEL => {
                self.calls.cancel(&CallId::new(ask.call));
                Ok(Value::Null)
            }
            RESOURCE => Ok(json!(Told::from(host.read_resource(&ask.caller, &ask.name).await))),
            PROMPT => {
                let arguments = ask.arguments.as_str().unwrap_or_default();
                Ok(json!(Told::from(host.get_prompt(&ask.caller, &ask.name, arguments).await)))
            }
            _ => Err(Problem::new(Code::UnknownCommand, format!("unknown command: {command}"))),
        }
    }
}

/// The tool host of a shell, wherever the application is.
pub struct FrontHost {
    front: Front,
    surface: Mutex<Arc<Surface>>,
    generation: watch::Sender<u64>,
}

impl FrontHost {
    /// Follows the seat until the shell stops.
    pub fn start(front: Front, exposure: Exposure) -> Arc<Self> {
        let host = Arc::new(Self { front, surface: Mutex::default(), generation: watch::channel(0).0 });
        let me = host.clone();
        tokio::spawn(async move {
            let stop: CancellationToken = me.front.stopping();
            let caller = Caller::Client { name: "".into(), exposure };
            tokio::select! {
                () = stop.cancelled() => {}
                () = me.follow(caller) => {}
            }
        });
        host
    }

    async fn follow(&self, caller: Caller) {
        let mut seats = self.front.seats();
        loop {
            let seat = seats.borrow_and_update().clone();
            match seat {
                Seat::Here(app) => {
                    let mut changed = app.host().changed();
                    self.tick();
                    loop {
                        tokio::select! {
                            _ = seats.changed() => break,
                            Ok(()) = changed.changed() => self.tick(),
                        }
                    }
                    continue;
                }
                Seat::There(_) => {
                    let mut events = self.front.events();
                    self.fetch(&caller).await;
                    loop {
                        tokio::select! {
                            _ = seats.changed() => break,
                            event = events.recv() => {
                                // A lagging receiver missed some, so fetch as well.
                                let about_tools = event.map_or(true, |e| e["tags"].as_array().is_some_and(|t| t.iter().any(|t| t == "tools")));
                                if about_tools {
                                    self.fetch(&caller).await;
                                }
                            }
                        }
                    }
                    continue;
                }
                Seat::Moving | Seat::Gone(_) => {}
            }
            if seats.changed().await.is_err() {
                return;
            }
        }
    }

    fn tick(&self) {
        self.generation.send_modify(|n| *n += 1);
    }

    async fn fetch(&self, caller: &Caller) {
        let ask = json!({"caller": caller});
        match self.front.call(SURFACE, ask).await.map(serde_json::from_value::<Surface>) {
            Ok(Ok(surface)) => {
                *self.surface.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(surface);
                self.tick();
            }
            Ok(Err(error)) => tracing::warn!(%error, "the owner's surface is not clear"),
            Err(problem) => tracing::debug!(%problem, "the owner's surface could not be fetched"),
        }
    }

    fn here(&self) -> Option<Arc<dyn ToolHost>> {
        self.front.app().map(|app| app.host())
    }

    async fn ask<T: DeserializeOwned>(&self, command: &str, ask: &Ask) -> Result<T, CallError> {
        let told = self
            .front
            .call(command, json!(ask))
            .await
            .map_err(|p| CallError::Unavailable { upstream: "evi".to_owned(), reason: p.message })?;
        match serde_json::from_value::<Told<T>>(told) {
            Ok(told) => told.into(),
            Err(error) => Err(CallError::Internal { message: error.to_string() }),
        }
    }
}

fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> BoxFuture<'a, T> {
    Box::pin(future)
}

impl ToolHost for FrontHost {
    fn surface(&self, caller: &Caller) -> Arc<Surface> {
        match self.here() {
            Some(host) => host.surface(caller),
            None => self.surface.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        name: &'a str,
        arguments: Box<RawValue>,
        context: CallContext,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        if let Some(host) = self.here() {
            return boxed(async move { host.call(caller, name, arguments, context).await });
        }
        boxed(async move {
            let call = context.id.clone().unwrap_or_else(CallId::fresh).to_string();
            let arguments = serde_json::from_str(arguments.get()).unwrap_or_default();
            let ask = Ask { caller: caller.clone(), name: name.to_owned(), arguments, call };
            let answer = self.ask::<Value>(CALL, &ask);
            tokio::pin!(answer);
            let result = tokio::select! {
                result = &mut answer => result,
                () = context.cancel.cancelled() => {
                    let _ = tokio::time::timeout(Duration::from_secs(2), self.front.call(CANCEL, json!(&ask))).await;
                    Err(CallError::Cancelled)
                }
            };
            result.map(|value| ToolResult::from_value(&value))
        })
    }

    fn read_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ResourceText, CallError>> {
        if let Some(host) = self.here() {
            return boxed(async move { host.read_resource(caller, uri).await });
        }
        let ask =
            Ask { caller: caller.clone(), name: uri.to_owned(), arguments: Value::Null, call: String::new() };
        boxed(async move { self.ask(RESOURCE, &ask).await })
    }

    fn get_prompt<'a>(
        &'a self,
        caller: &'a Caller,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, Result<PromptText, CallError>> {
        if let Some(host) = self.here() {
            return boxed(async move { host.get_prompt(caller, name, arguments).await });
        }
        let ask = Ask {
            caller: caller.clone(),
            name: name.to_owned(),
            arguments: Value::from(arguments),
            call: String::new(),
        };
        boxed(async move { self.ask(PROMPT, &ask).await })
    }
}
