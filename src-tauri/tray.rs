//! The tray: open, the gateway's switch with its state, quit. It shows what the application says and keeps nothing.

use evi_app::{Front, Problem};
use serde_json::{Value, json};
use tauri::{
    AppHandle, Manager, Wry,
    menu::{CheckMenuItem, Menu, MenuItem, PredefinedMenuItem},
    tray::{MouseButton, TrayIconBuilder, TrayIconEvent},
};

use crate::{quit, window};

const OPEN: &str = "open";
const SWITCH: &str = "gateway";
const QUIT: &str = "quit";

/// The items whose text changes.
struct Items {
    switch: CheckMenuItem<Wry>,
    state: MenuItem<Wry>,
}

/// Makes the tray.
pub fn build(app: &AppHandle) -> tauri::Result<()> {
    let open = MenuItem::with_id(app, OPEN, "Open eVi", true, None::<&str>)?;
    let switch = CheckMenuItem::with_id(app, SWITCH, "Gateway", true, false, None::<&str>)?;
    let state = MenuItem::with_id(app, "state", "Gateway is off", false, None::<&str>)?;
    let quit_item = MenuItem::with_id(app, QUIT, "Quit eVi", true, None::<&str>)?;
    let line = PredefinedMenuItem::separator(app)?;
    let second = PredefinedMenuItem::separator(app)?;
    let menu = Menu::with_items(app, &[&open, &line, &switch, &state, &second, &quit_item])?;
    let mut tray = TrayIconBuilder::with_id("evi")
        .tooltip("eVi")
        .menu(&menu)
        .show_menu_on_left_click(cfg!(target_os = "macos"))
        .on_menu_event(|app, event| match event.id().as_ref() {
            OPEN => window::show(app),
            SWITCH => toggle(app),
            QUIT => quit(app),
            _ => {}
        })
        .on_tray_icon_event(|tray, event| {
            if let TrayIconEvent::DoubleClick { button: MouseButton::Left, .. } = event {
                window::show(tray.app_handle());
            }
        });
    if let Some(icon) = app.default_window_icon() {
        tray = tray.icon(icon.clone());
    }
    tray.build(app)?;
    app.manage(Items { switch, state });
    Ok(())
}

fn toggle(app: &AppHandle) {
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        let front = app.state::<Front>().inner().clone();
        let on = match front.call("gateway_get", Value::Null).await {
            Ok(view) => view["enabled"] == true,
            Err(_) => false,
        };
        let answer = front.call("gateway_set_enabled", json!({"enabled": !on})).await;
        match answer {
            Ok(view) => show(&app, &view),
            // The menu's own tick moved with the click; the switch may stand all the same, with the reason.
            Err(_) => refresh(&app, &front).await,
        }
    });
}

/// Asks how the gateway stands and shows it.
pub async fn refresh(app: &AppHandle, front: &Front) {
    match front.call("gateway_get", Value::Null).await {
        Ok(view) => show(app, &view),
        Err(problem) => failed(app, &problem),
    }
}

fn show(app: &AppHandle, view: &Value) {
    let text = match view["state"].as_str() {
        Some("running") => format!("Serving at {}", view["address"].as_str().unwrap_or_default()),
        Some("failed") => format!("Not serving: {}", view["problem"]["message"].as_str().unwrap_or_default()),
        _ => "Gateway is off".to_owned(),
    };
    set(app, view["enabled"] == true, &text);
}

fn failed(app: &AppHandle, problem: &Problem) {
    set(app, false, &format!("Not serving: {}", problem.message));
}

fn set(app: &AppHandle, on: bool, text: &str) {
    let items = app.state::<Items>();
    if let Err(error) = items.switch.set_checked(on).and_then(|()| items.state.set_text(text)) {
        tracing::warn!(%error, "the tray could not be brought up to date");
    }
}
