//! eVi's own tools, memory resources and command prompts; runs what it is told and decides nothing about who may.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod arguments;
mod commands;
mod memory;
mod results;

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
    time::SystemTime,
};

use evi_domain::{
    CallError, Caller, KeptResults, PromptText, ResourceText, SurfacePrompt, SurfaceResource, ToolDef,
    ToolResult, kept::READ_RESULT,
};
use serde_json::{json, value::RawValue};

use commands::CommandFolder;
use memory::{MemoryError, MemoryFolder};

/// Where a memory's resource address begins; its name follows.
pub const MEMORY_URI: &str = "evi://memory/";

/// JSON-RPC's code for parameters that make no sense, used for a resource or prompt that is not there.
const INVALID_PARAMS: i64 = -32602;

/// One of eVi's own tools.
#[derive(Clone, Debug)]
pub struct BuiltinTool {
    /// Its category: `memory`.
    pub category: &'static str,
    /// Its definition under its bare name.
    pub def: ToolDef,
    /// Whether it changes nothing; a fact, not a hint.
    pub read_only: bool,
}

/// The tools, resources and prompts that live in the person's own files. A clone shares everything.
#[derive(Clone)]
pub struct Builtins {
    inner: Arc<Inner>,
}

struct Inner {
    memory: MemoryFolder,
    commands: CommandFolder,
    /// Those of plugins that are on.
    plugins: RwLock<Arc<Vec<CommandFolder>>>,
    tools: Vec<BuiltinTool>,
    results: Option<Arc<dyn KeptResults>>,
}

/// The names of the templates in a plugin's `commands/`, as its prompts bear them: `<plugin>:<command>`. Reads the
/// folder.
pub fn plugin_command_names(plugin: &str, commands_dir: PathBuf) -> Vec<String> {
    CommandFolder::of_plugin(plugin, commands_dir).names()
}

impl Builtins {
    /// Over `memory/` and `commands/` of a home. Neither has to exist; nothing is read or written yet.
    pub fn new(memory_dir: PathBuf, commands_dir: PathBuf) -> Self {
        Self::build(memory_dir, commands_dir, None)
    }

    /// The same with the tool that reads kept results.
    pub fn with_results(memory_dir: PathBuf, commands_dir: PathBuf, results: Arc<dyn KeptResults>) -> Self {
        Self::build(memory_dir, commands_dir, Some(results))
    }

    fn build(memory_dir: PathBuf, commands_dir: PathBuf, results: Option<Arc<dyn KeptResults>>) -> Self {
        let reading = results.as_ref().and_then(|_| results::definition());
        let inner = Inner {
            memory: MemoryFolder::new(memory_dir),
            commands: CommandFolder::new(commands_dir),
            plugins: RwLock::default(),
            tools: memory::tools::definitions().into_iter().chain(reading).collect(),
            results,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Every tool, in a fixed order.
    pub fn tools(&self) -> Vec<BuiltinTool> {
        self.inner.tools.clone()
    }

    /// Runs a tool by its bare name, for whoever asks. Arguments that do not fit its schema, and a failure of the tool, are results
    /// with `isError`.
    ///
    /// # Errors
    /// `UnknownTool`; `Internal` when the work itself broke.
    pub async fn call(
        &self,
        caller: &Caller,
        tool: &str,
        arguments: &RawValue,
    ) -> Result<ToolResult, CallError> {
        let Some(known) = self.inner.tools.iter().find(|t| t.def.name() == tool) else {
            return Err(CallError::UnknownTool { name: tool.to_owned(), near: self.near(tool) });
        };
        let arguments = match arguments::check(&known.def.input_schema(), arguments.get()) {
            Ok(arguments) => arguments,
            Err(problem) => return Ok(ToolResult::error(format!("invalid arguments: {problem}"))),
        };
        let (inner, tool, caller) = (self.inner.clone(), tool.to_owned(), caller.clone());
        blocking(move || match &inner.results {
            Some(results) if tool == READ_RESULT => results::run(&**results, &caller, &arguments),
            _ => memory::tools::run(&inner.memory, &tool, &arguments),
        })
        .await
    }

    /// The memories as resources, by name. Reads the folder (and of its files only those that changed): call it
    /// where a few milliseconds of disk do no harm.
    pub fn resources(&self) -> Vec<SurfaceResource> {
        let heads = self.inner.memory.list().unwrap_or_else(|problem| {
            tracing::warn!(%problem, "memories are not listed");
            Vec::new()
        });
        heads.iter().map(memory::tools::resource).collect()
    }

    /// The text of a memory by its address.
    ///
    /// # Errors
    /// `Rpc` with -32602 for an address that leads to no memory; `Internal` when the file cannot be read.
    pub async fn read_resource(&self, uri: &str) -> Result<ResourceText, CallError> {
        let not_found = || CallError::Rpc {
            code: INVALID_PARAMS,
            message: format!("resource not found: {uri}"),
            data: Some(json!({ "uri": uri })),
        };
        let name = uri.strip_prefix(MEMORY_URI).ok_or_else(not_found)?.to_owned();
        let inner = self.inner.clone();
        match blocking(move || inner.memory.read(&name)).await? {
            Ok(entry) => {
                Ok(ResourceText { uri: uri.to_owned(), mime: "text/markdown".to_owned(), text: entry.body })
            }
            Err(MemoryError::NotFound { .. } | MemoryError::BadName { .. } | MemoryError::Reserved) => {
                Err(not_found())
            }
            Err(problem) => Err(CallError::Internal { message: problem.to_string() }),
        }
    }

    /// The `commands/` folders of plugins from now on, each with its plugin's name.
    pub fn set_plugin_commands(&self, folders: impl IntoIterator<Item = (String, PathBuf)>) {
        let folders = folders.into_iter().map(|(plugin, root)| CommandFolder::of_plugin(&plugin, root));
        *self.inner.plugins.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(folders.collect());
    }

    /// When a command template of any folder last came or went.
    pub fn commands_modified(&self) -> Option<SystemTime> {
        let plugins = self.inner.plugin_commands();
        std::iter::once(&self.inner.commands).chain(plugins.iter()).filter_map(CommandFolder::modified).max()
    }

    /// The command templates as prompts, by name; those of plugins after the person's own. Reads the folders, like
    /// [`Self::resources`]. A template that cannot be read is left out and logged.
    pub fn prompts(&self) -> Vec<SurfacePrompt> {
        let mut prompts = self.inner.commands.prompts();
        for prompt in self.inner.plugin_commands().iter().flat_map(CommandFolder::prompts) {
            // The person's own sub-folder of a plugin's name goes first.
            if prompts.iter().all(|own| own.name != prompt.name) {
                prompts.push(prompt);
            }
        }
        prompts
    }

    /// A template with `args` put in. The text of `args` is never expanded itself.
    ///
    /// # Errors
    /// `Rpc` with -32602 for a name that is no template; `Internal` when the work itself broke.
    pub async fn get_prompt(&self, name: &str, args: &str) -> Result<PromptText, CallError> {
        let (inner, wanted, args) = (self.inner.clone(), name.to_owned(), args.to_owned());
        let found = move || {
            let plugins = inner.plugin_commands();
            std::iter::once(&inner.commands).chain(plugins.iter()).find_map(|f| f.get(&wanted, &args))
        };
        blocking(found).await?.ok_or_else(|| CallError::Rpc {
            code: INVALID_PARAMS,
            message: format!("unknown prompt: {name}"),
            data: None,
        })
    }

    /// Up to three names that share a beginning or a word with a mistyped one.
    fn near(&self, name: &str) -> Vec<String> {
        let wanted = name.to_lowercase();
        let words: Vec<&str> = wanted.split(|c: char| !c.is_alphanumeric()).filter(|w| w.len() > 2).collect();
        let names = self.inner.tools.iter().map(|t| t.def.name());
        let alike = names.filter(|own| {
            words.iter().any(|word| {
                let stem = word.get(..4).unwrap_or(word);
                own.contains(stem)
            })
        });
        alike.take(3).map(str::to_owned).collect()
    }
}

impl Inner {
    fn plugin_commands(&self) -> Arc<Vec<CommandFolder>> {
        self.plugins.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// File work belongs on a thread that may wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, CallError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| CallError::Internal { message: "the work on the files broke off".to_owned() })
}
