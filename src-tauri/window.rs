//! The window: made when it is wanted, gone (with its webview) when it is closed.

use tauri::{AppHandle, Manager, WebviewUrl, WebviewWindowBuilder};

const MAIN: &str = "main";

/// Shows the window, making it where there is none.
pub fn show(app: &AppHandle) {
    if let Some(window) = app.get_webview_window(MAIN) {
        let shown = window.unminimize().and_then(|()| window.show()).and_then(|()| window.set_focus());
        if let Err(error) = shown {
            tracing::warn!(%error, "the window could not be shown");
        }
        return;
    }
    let made = WebviewWindowBuilder::new(app, MAIN, WebviewUrl::App("index.html".into()))
        .title("eVi")
        .inner_size(1180.0, 760.0)
        .min_inner_size(360.0, 420.0)
        .build();
    if let Err(error) = made {
        tracing::error!(%error, "the window could not be made");
    }
}
