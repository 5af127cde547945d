// Starts the page: finds the host, then shows it.
import "./design/tokens.css";
import "./design/base.css";

import { mount } from "svelte";

import { start } from "./api/api.svelte";
import App from "./App.svelte";
import { findHost } from "./host";
import { applyLook } from "./lib/look.svelte";

applyLook();
const target = document.getElementById("app");
if (target) {
  start(await findHost());
  mount(App, { target });
}
