//! Settings, facts about this run, and which model answers.

use std::time::Duration;

use evi_contract::*;
use evi_domain::{LlmConfig, Secret, SecretId, reference};
use evi_store::ConfigValue;

use crate::{App, problem};

/// The id of the model's key in the vault.
const KEY_ID: &str = "llm.api_key";
const LOOK_FOR: Duration = Duration::from_millis(700);

pub async fn app_info(app: &App, _: Nothing) -> Result<AppInfo, Problem> {
    let loaded = app.config.current();
    let vault = app.vault.clone();
    let keychain = problem::blocking(move || vault.probe()).await.err();
    let of_database = app.db_notice.iter().map(|notice| ConfigProblemView {
        file: app.home.db().display().to_string(),
        line: None,
        column: None,
        message: notice.clone(),
        whole_file: false,
    });
    Ok(AppInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        home: app.home.root().display().to_string(),
        mcp_json: app.home.mcp_json().display().to_string(),
        config_toml: app.home.config_toml().display().to_string(),
        logs: app.home.logs().display().to_string(),
        shell: app.options.shell.name().to_owned(),
        pid: std::process::id(),
        keychain_problem: keychain,
        config_problems: loaded.problems.iter().map(problem::config).chain(of_database).collect(),
        mcp_on: loaded.config.tools.mcp,
    })
}

pub async fn settings_get(app: &App, _: Nothing) -> Result<Settings, Problem> {
    let loaded = app.config.current();
    let config = &loaded.config;
    let key = config.llm.api_key.as_deref().unwrap_or_default();
    let key_place = match reference::parse(key).as_slice() {
        [] => "",
        [reference::Part::Secret(_)] => "keychain",
        [reference::Part::Env(..)] => "environment",
        _ => "file",
    };
    Ok(Settings {
        mcp_on: config.tools.mcp,
        mcp_allow: config.tools.mcp_allow.clone(),
        base_url: config.llm.base_url.clone().or_else(|| default_url(&config.llm)).unwrap_or_default(),
        model: config.llm.model.clone().unwrap_or_default(),
        key_set: !key.is_empty(),
        key_place: key_place.to_owned(),
        auto_approve: config.policy.auto_approve.clone(),
        rules: config
            .policy
            .rules
            .iter()
            .map(|r| {
                let arguments = r.arguments.as_ref().map(|a| format!(" {a}")).unwrap_or_default();
                format!("{} {}{arguments}", if r.allow { "allow" } else { "deny" }, r.tool)
            })
            .collect(),
        hard_deny: config.policy.hard_deny.clone(),
        port: config.gateway.port,
    })
}

pub async fn settings_update(app: &App, params: SettingsPatch) -> Result<Settings, Problem> {
    let mut changes = Vec::new();
    if let Some(on) = params.mcp_on {
        changes.push((vec!["tools", "mcp"], ConfigValue::Bool(on)));
    }
    if let Some(allow) = params.mcp_allow {
        changes.push((vec!["tools", "mcp_allow"], ConfigValue::List(allow)));
    }
    if let Some(url) = params.base_url {
        let url = url.trim().trim_end_matches('/').to_owned();
        if !url.is_empty() && !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Problem::new(Code::InvalidInput, format!("{url} is not an address"))
                .hint("such as http://127.0.0.1:11434/v1")
                .field("base_url"));
        }
        changes.push((vec!["llm", "base_url"], ConfigValue::Text(url)));
    }
    if let Some(model) = params.model {
        changes.push((vec!["llm", "model"], ConfigValue::Text(model.trim().to_owned())));
    }
    if !changes.is_empty() {
        app.write_config(changes).await?;
    }
    settings_get(app, Nothing {}).await
}

pub async fn model_key_set(app: &App, params: KeySet) -> Result<Settings, Problem> {
    let id = SecretId::new(KEY_ID);
    let vault = app.vault.clone();
    match params.key.filter(|k| !k.trim().is_empty()) {
        Some(key) => {
            let key = Secret::new(key.trim());
            let (keeper, kept) = (vault.clone(), id.clone());
            let old = problem::blocking(move || {
                // One that cannot be read must not keep a new one out.
                let old = keeper.get(&kept);
                keeper.set(&kept, &key).map(|()| old)
            })
            .await?;
            let reference = ConfigValue::Text(reference::to_secret(&SecretId::new(KEY_ID)));
            if let Err(problem) = app.write_config(vec![(vec!["llm", "api_key"], reference)]).await {
                // The file does not name it, so what was there before is put back.
                problem::blocking(move || match old {
                    Ok(Some(old)) => vault.set(&id, &old),
                    Ok(None) => vault.delete(&id),
                    Err(_) => Ok(()),
                })
                .await?;
                return Err(problem);
            }
        }
        None => {
            let config = app.config.clone();
            problem::blocking(move || config.config_unset(&["llm", "api_key"])).await?;
            problem::blocking(move || vault.delete(&id)).await?;
        }
    }
    settings_get(app, Nothing {}).await
}

pub async fn model_discover(_: &App, _: Nothing) -> Result<Vec<FoundModels>, Problem> {
    Ok(evi_chat::discover_local(LOOK_FOR)
        .await
        .into_iter()
        .map(|found| FoundModels {
            title: match found.kind {
                "ollama" => "Ollama",
                "lmstudio" => "LM Studio",
                "llamacpp" => "llama.cpp",
                other => other,
            }
            .to_owned(),
            base_url: found.base_url,
            models: found.models,
        })
        .collect())
}

pub async fn model_list(app: &App, _: Nothing) -> Result<ModelNames, Problem> {
    let llm = app.config.current().config.llm.clone();
    let url = llm.base_url.clone().or_else(|| default_url(&llm)).ok_or_else(no_model)?;
    let key = key(app, &llm).await?;
    let models = evi_chat::list_models(&url, key.as_ref()).await.map_err(|e| model(&e))?;
    Ok(ModelNames { models })
}

fn no_model() -> Problem {
    Problem::new(Code::NoModel, "no model is set up")
        .hint("start Ollama, LM Studio or llama.cpp, or set an address and a model under Settings; /call <tool> works without one")
}

/// A failure of the model's endpoint, for people.
pub fn model(error: &evi_chat::ModelError) -> Problem {
    Problem::new(Code::Model, error.to_string()).hint(error.hint())
}

/// Where a backend of the original listens when no address is given.
fn default_url(llm: &LlmConfig) -> Option<String> {
    let port = match llm.backend.as_deref()? {
        "ollama" => 11434,
        "lmstudio" => 1234,
        "llamacpp" => 8080,
        _ => return None,
    };
    Some(format!("http://127.0.0.1:{port}/v1"))
}

/// Where the model is.
pub struct ModelEndpoint {
    pub base_url: String,
    pub key: Option<Secret>,
    pub model: String,
}

/// The configured model, or one that runs on this machine.
///
/// # Errors
/// `no_model` with what to do.
pub async fn endpoint(app: &App) -> Result<ModelEndpoint, Problem> {
    let llm = app.config.current().config.llm.clone();
    let set = |text: &Option<String>| text.clone().filter(|t| !t.trim().is_empty());
    if let Some(base_url) = set(&llm.base_url).or_else(|| default_url(&llm)) {
        let key = key(app, &llm).await?;
        let name = match set(&llm.model) {
            Some(name) => name,
            None => {
                let models = evi_chat::list_models(&base_url, key.as_ref()).await.map_err(|e| model(&e))?;
                models.into_iter().next().ok_or_else(no_model)?
            }
        };
        return Ok(ModelEndpoint { base_url, key, model: name });
    }
    let wanted = set(&llm.model);
    for found in evi_chat::discover_local(LOOK_FOR).await {
        let name = match &wanted {
            Some(name) => found.models.iter().find(|m| *m == name),
            None => found.models.first(),
        };
        if let Some(name) = name {
            return Ok(ModelEndpoint { base_url: found.base_url, key: None, model: name.clone() });
        }
    }
    Err(no_model())
}

async fn key(app: &App, llm: &LlmConfig) -> Result<Option<Secret>, Problem> {
    let Some(template) = llm.api_key.clone().filter(|k| !k.is_empty()) else { return Ok(None) };
    app.expand(template).await.map(Some)
}
