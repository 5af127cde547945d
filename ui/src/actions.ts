// Every action of the page with its name and shortcut: the keyboard, the palette and the list of shortcuts come from here.
import { again, go, href } from "./lib/router.svelte";

/** An action that is there on every page. */
export interface Action {
  id: string;
  /** A verb. */
  label: string;
  group: "Go to" | "Do" | "Look";
  /** `mod+k`; single letters work outside of fields. */
  shortcut?: string;
  keywords?: readonly string[];
  act: () => void;
}

/** A shortcut that a place handles itself, for the list of shortcuts. */
export interface LocalShortcut {
  where: string;
  label: string;
  shortcut: string;
}

/** What actions need of the page. */
export interface Stage {
  openPalette: () => void;
  openHelp: () => void;
  nextPane: (back: boolean) => void;
  setTheme: (theme: "system" | "light" | "dark") => void;
  toggleGateway: () => void;
}

/** The actions of the page. */
export function makeActions(stage: Stage): Action[] {
  return [
    { id: "go.chat", label: "Chat", group: "Go to", shortcut: "mod+1", act: () => go(href("chat")) },
    {
      id: "go.servers",
      label: "Servers",
      group: "Go to",
      shortcut: "mod+2",
      act: () => go(again("servers")),
    },
    { id: "go.tools", label: "Tools", group: "Go to", shortcut: "mod+3", act: () => go(href("tools")) },
    { id: "go.gateway", label: "Gateway", group: "Go to", shortcut: "mod+4", act: () => go(href("gateway")) },
    {
      id: "go.settings",
      label: "Settings",
      group: "Go to",
      shortcut: "mod+,",
      act: () => go(href("settings")),
    },
    {
      id: "do.add",
      label: "Add a server",
      group: "Do",
      shortcut: "a",
      keywords: ["new", "install", "mcp", "upstream", "paste"],
      act: () => go(href("servers", undefined, { add: "1" })),
    },
    {
      id: "do.chat",
      label: "New chat",
      group: "Do",
      shortcut: "n",
      act: () => go(href("chat", undefined, { new: "1" })),
    },
    {
      id: "do.gateway",
      label: "Switch the gateway on or off",
      group: "Do",
      keywords: ["serve", "endpoint", "start", "stop"],
      act: stage.toggleGateway,
    },
    {
      id: "do.connect",
      label: "Connect an application",
      group: "Do",
      keywords: ["claude", "cursor", "client", "serve"],
      act: () => go(href("gateway", undefined, { connect: "1" })),
    },
    {
      id: "do.model",
      label: "Choose a model",
      group: "Do",
      keywords: ["ollama", "lm studio", "key", "llm"],
      act: () => go(href("settings")),
    },
    { id: "look.light", label: "Light theme", group: "Look", act: () => stage.setTheme("light") },
    { id: "look.dark", label: "Dark theme", group: "Look", act: () => stage.setTheme("dark") },
    { id: "look.system", label: "Theme of the system", group: "Look", act: () => stage.setTheme("system") },
    { id: "open.palette", label: "Find anything", group: "Do", shortcut: "mod+k", act: stage.openPalette },
    { id: "open.help", label: "Show shortcuts", group: "Do", shortcut: "?", act: stage.openHelp },
    { id: "pane.next", label: "Next pane", group: "Go to", shortcut: "f6", act: () => stage.nextPane(false) },
    {
      id: "pane.back",
      label: "Previous pane",
      group: "Go to",
      shortcut: "shift+f6",
      act: () => stage.nextPane(true),
    },
  ];
}

/** Shortcuts of single places. */
export const localShortcuts: readonly LocalShortcut[] = [
  { where: "Lists", label: "Walk through the rows", shortcut: "↑+↓" },
  { where: "Lists", label: "Filter", shortcut: "/" },
  { where: "Tools", label: "Call the tool", shortcut: "mod+enter" },
  { where: "Chat", label: "Send", shortcut: "enter" },
  { where: "Chat", label: "New line", shortcut: "shift+enter" },
  { where: "Chat", label: "Stop, or deny the call that waits", shortcut: "escape" },
  { where: "Chat", label: "Allow the call that waits, once", shortcut: "mod+enter" },
  { where: "Forms", label: "Save", shortcut: "mod+enter" },
];

/** Whether an event is the shortcut. */
export function matches(event: KeyboardEvent, shortcut: string): boolean {
  const parts = shortcut.toLowerCase().split("+");
  const key = parts.at(-1) ?? "";
  const mod = parts.includes("mod");
  const shift = parts.includes("shift");
  if ((event.ctrlKey || event.metaKey) !== mod || event.altKey) return false;
  if (event.key.toLowerCase() !== key) return false;
  // `?` needs Shift on most keyboards.
  return key === "?" || event.shiftKey === shift;
}

/** Whether the person is typing, so that single letters are text. */
export function typing(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable ||
      ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName) ||
      target.closest("[role=dialog],[role=menu],[role=listbox]") !== null)
  );
}
