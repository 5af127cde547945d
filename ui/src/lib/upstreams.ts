// How the states of servers read to a person. Words only.
import type { UpstreamRow, UpstreamStateView } from "../contract/contract";
import type { Tone } from "../design";

/** Dot and word of a state. */
export const stateWords: Record<UpstreamStateView, { tone: Tone; word: string }> = {
  off: { tone: "off", word: "Off" },
  mcp_off: { tone: "off", word: "Servers off" },
  blocked: { tone: "warn", word: "Not allowed" },
  invalid: { tone: "danger", word: "Not readable" },
  starting: { tone: "busy", word: "Starting" },
  installing: { tone: "busy", word: "Installing" },
  ready: { tone: "ok", word: "Ready" },
  stale: { tone: "busy", word: "Checking" },
  sign_in_needed: { tone: "warn", word: "Sign in needed" },
  secret_locked: { tone: "warn", word: "Secret locked" },
  failed: { tone: "danger", word: "Failed" },
  parked: { tone: "danger", word: "Keeps crashing" },
};

/** Names of the steps on the way to a usable server. */
export const stageWords: Record<string, string> = {
  saved: "Saved",
  started: "Started",
  handshake: "Handshake",
  discovery: "Discovery",
};

/** Names of the transports. */
export const transportWords: Record<string, string> = { stdio: "stdio", http: "HTTP", sse: "SSE" };

/** Whether a server needs the person. */
export function needsHelp(row: UpstreamRow): boolean {
  return ["blocked", "invalid", "secret_locked", "sign_in_needed", "failed", "parked"].includes(row.state);
}
