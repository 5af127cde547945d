//! The desktop shell: a window, a tray, one command `call`. It holds no state but these and decides nothing.
#![cfg_attr(not(debug_assertions), windows_subsystem = "windows")]

mod sidecar;
mod tray;
mod window;

use std::sync::Arc;

use evi_app::{Front, Home, Options, Problem, Shell, logging};
use serde_json::Value;
use tauri::{AppHandle, Emitter, Manager, RunEvent, State};
use tokio::sync::broadcast::error::RecvError;

/// The event that carries the contract's events to the page.
const EVENT: &str = "evi";

fn main() {
    let home = match Home::from_env() {
        Ok(home) => home,
        Err(error) => {
            eprintln!("error: {error}\nhint: set EVI_HOME to a folder");
            std::process::exit(1);
        }
    };
    // Servers without a folder of their own start in the person's home, wherever this program was started from.
    if let Some(folder) = std::env::home_dir()
        && let Err(error) = std::env::set_current_dir(&folder)
    {
        eprintln!("warning: could not go to {}: {error}", folder.display());
    }
    let options = Options::new(home.clone(), Shell::Desktop);
    logging::init(&home, &options.redactor, false);
    let mut context = tauri::generate_context!();
    if let Some(other) = home.other_than_usual() {
        // Another home is another application: its own single instance, its own page storage.
        context.config_mut().identifier = format!("{}.{other}", context.config().identifier);
    }
    let built = tauri::Builder::default()
        // First, so that a second start ends before anything else begins.
        .plugin(tauri_plugin_single_instance::init(|app, _, _| window::show(app)))
        .plugin(tauri_plugin_shell::init())
        .plugin(tauri_plugin_opener::init())
        .plugin(tauri_plugin_window_state::Builder::default().build())
        .invoke_handler(tauri::generate_handler![call, open_external])
        .setup(move |app| {
            let handle = app.handle().clone();
            let options = Options { launcher: Arc::new(sidecar::Sidecar::new(handle.clone())), ..options };
            let front = tauri::async_runtime::block_on(async { Front::start(options) });
            app.manage(front.clone());
            tray::build(&handle)?;
            tauri::async_runtime::spawn(follow(handle.clone(), front));
            tauri::async_runtime::spawn(quit_on_signal(handle.clone()));
            window::show(&handle);
            Ok(())
        })
        .build(context);
    match built {
        Ok(app) => app.run(|_, event| {
            // The last window closing leaves the tray; only Quit carries a code.
            if let RunEvent::ExitRequested { code: None, api, .. } = event {
                api.prevent_exit();
            }
        }),
        Err(error) => {
            eprintln!(
                "error: the window could not be opened: {error}\nhint: is there a graphical session? in a terminal use evi"
            );
            std::process::exit(1);
        }
    }
}

/// The one command of the page.
#[tauri::command]
async fn call(front: State<'_, Front>, command: String, params: Value) -> Result<Value, Problem> {
    front.call(&command, params).await
}

/// Opens a web address in the person's browser; nothing else can be opened.
#[tauri::command]
#[expect(clippy::needless_pass_by_value, reason = "tauri gives a command its parts by value")]
fn open_external(app: AppHandle, url: &str) -> Result<(), Problem> {
    use evi_app::contract::Code;
    use tauri_plugin_opener::OpenerExt;
    if !(url.starts_with("https://") || url.starts_with("http://")) {
        return Err(Problem::new(Code::InvalidInput, format!("{url} is not a web address")));
    }
    app.opener()
        .open_url(url, None::<&str>)
        .map_err(|e| Problem::new(Code::Internal, format!("the browser could not be opened: {e}")))
}

/// Passes events to the page, keeps the tray's switch true, and shows the window when somebody waits for an answer.
async fn follow(app: AppHandle, front: Front) {
    let mut events = front.events();
    loop {
        let event = match events.recv().await {
            Ok(event) => event,
            Err(RecvError::Lagged(_)) => serde_json::json!({"kind": "lagged"}),
            Err(RecvError::Closed) => return,
        };
        let about = |tag: &str| {
            event["kind"] == "lagged"
                || event["tags"].as_array().is_some_and(|tags| tags.iter().any(|t| t == tag))
        };
        if about("gateway") {
            tray::refresh(&app, &front).await;
        }
        if about("approvals") && somebody_waits(&front).await {
            window::show(&app);
        }
        let _ = app.emit(EVENT, event);
    }
}

/// Whether a call of another application waits for the person; one of a chat waits in its window.
async fn somebody_waits(front: &Front) -> bool {
    let list = front.call("approval_list", Value::Null).await.unwrap_or_default();
    list.as_array().is_some_and(|list| list.iter().any(|approval| approval["chat"].is_null()))
}

/// Ends in order: the name of the single instance first, so that a start right after this one is a new start; then
/// everything that runs; then the process.
pub(crate) fn quit(app: &AppHandle) {
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        tauri_plugin_single_instance::destroy(&app);
        let front = app.state::<Front>().inner().clone();
        front.shutdown().await;
        app.exit(0);
    });
}

/// A logout or a kill ends in the same order as Quit.
async fn quit_on_signal(app: AppHandle) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut term), Ok(mut hup)) = (signal(SignalKind::terminate()), signal(SignalKind::hangup()))
        else {
            return;
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = term.recv() => {}
            _ = hup.recv() => {}
        }
        quit(&app);
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_ok() {
        quit(&app);
    }
}
