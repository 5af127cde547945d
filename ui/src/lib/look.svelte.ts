// Theme, density and single-key shortcuts: what the person chose, put on the root element. It styles nothing itself.
import { recall, remember } from "./storage";

/** A theme, or the system's. */
export type Theme = "system" | "light" | "dark";
/** How close rows stand. */
export type Density = "normal" | "compact";

/** The chosen look. */
export const look = $state<{ theme: Theme; density: Density; singleKeys: boolean }>({
  theme: recall<Theme>("theme", "system"),
  density: recall<Density>("density", "normal"),
  singleKeys: recall("singleKeys", true),
});

const dark = matchMedia("(prefers-color-scheme: dark)");

/** Puts the look on the page and follows the system. */
export function applyLook(): void {
  const root = document.documentElement;
  root.dataset["theme"] = look.theme === "system" ? (dark.matches ? "dark" : "light") : look.theme;
  root.dataset["density"] = look.density;
}
dark.addEventListener("change", applyLook);

/** Chooses a theme. */
export function setTheme(theme: Theme): void {
  look.theme = theme;
  remember("theme", theme);
  applyLook();
}

/** Chooses a density. */
export function setDensity(density: Density): void {
  look.density = density;
  remember("density", density);
  applyLook();
}

/** Whether single letters are shortcuts; people who speak to their machine switch that off. */
export function setSingleKeys(on: boolean): void {
  look.singleKeys = on;
  remember("singleKeys", on);
}
