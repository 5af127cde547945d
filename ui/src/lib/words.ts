// Words, times and sizes as the page writes them. No state, no markup.
import type { Json, Problem } from "../contract/contract";

/** `1 tool`, `14 tools`. */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

/** `12 ms`, `1.4 s`, `2 min 5 s`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** `just now`, `5 min ago`, `3 h ago`, `yesterday`, then the date. */
export function ago(at: number, now: number): string {
  const minutes = Math.floor((now - at) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return `${hours} h ago`;
  if (hours < 48) return "yesterday";
  return new Date(at).toLocaleDateString("en", { day: "numeric", month: "short" });
}

/** The exact moment, for a title. */
export function exact(at: number): string {
  return new Date(at).toLocaleString();
}

/** Hours, minutes and seconds. */
export function clock(at: number): string {
  return new Date(at).toLocaleTimeString("en-GB");
}

/** `812 B`, `4.1 kB`, `5.0 MB`. */
export function size(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${(bytes / 1000).toFixed(1)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** A sentence of eVi as it stands in the page: first letter large unless it begins with a name, no final period. */
export function sentence(text: string): string {
  if (!/^\p{Ll}+(?:[\s,;:'’-]|$)/u.test(text)) return text;
  return text.charAt(0).toLocaleUpperCase("en") + text.slice(1);
}

/** The first sentence of a description, on one line. */
export function firstSentence(text: string): string {
  const line =
    text
      .trim()
      .split(/\n\s*\n/)[0]
      ?.replace(/\s*\n\s*/g, " ") ?? "";
  return (/^.{8,}?[.!?](?=\s|$)/u.exec(line)?.[0] ?? line).slice(0, 200);
}

/** A problem in one line. */
export function inOneLine(problem: Problem): string {
  return problem.hint ? `${sentence(problem.message)}; ${problem.hint}` : sentence(problem.message);
}

/** JSON as people read it. */
export function pretty(value: Json | undefined): string {
  return JSON.stringify(value, null, 2) ?? "";
}

/** Arguments for one short line, each for itself: `path=/home/me`, `depth=2`. */
export function summary(value: Json | undefined): string[] {
  if (value === null || typeof value !== "object" || Array.isArray(value))
    return [oneLine(JSON.stringify(value) ?? "")];
  return Object.entries(value)
    .slice(0, 12)
    .map(([key, one]) => `${key}=${oneLine(typeof one === "string" ? one : JSON.stringify(one))}`);
}

function oneLine(text: string): string {
  const line = text.slice(0, 160).replace(/[ \t\r\n]+/g, " ");
  return text.length > 160 ? `${line}…` : line;
}

/** Whether this machine's keyboard has a command key. */
export const mac = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform);

/** A shortcut as a keyboard of this machine writes it: `mod+k` → `⌘K` or `Ctrl K`. */
export function keys(shortcut: string): string[] {
  return shortcut.split("+").map((key) => {
    if (key === "mod") return mac ? "⌘" : "Ctrl";
    if (key === "shift") return mac ? "⇧" : "Shift";
    if (key === "enter") return "⏎";
    if (key === "escape") return "Esc";
    return key.length === 1 ? key.toUpperCase() : key.charAt(0).toUpperCase() + key.slice(1);
  });
}
