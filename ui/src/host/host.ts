// What the page needs of whatever it runs in: calls and events. It decides nothing and knows no shell.
import type { Command, CommandMap, Event, Problem } from "../contract/contract";

/** Parameters of a command. */
export type Input<C extends Command> = CommandMap[C][0];
/** Answer of a command. */
export type Output<C extends Command> = CommandMap[C][1];

/** What comes from a host: an event of eVi, or that events may have been missed. */
export type HostEvent = Event | { kind: "connected" } | { kind: "lagged" } | { kind: "disconnected" };

/** The shell around the page. */
export interface Host {
  /** Which one. */
  readonly name: "desktop" | "web" | "fake";
  /** Runs a command; rejects with a `Problem`. */
  call<C extends Command>(command: C, params: Input<C>): Promise<Output<C>>;
  /** Hears events until the returned function is called. `connected` says that some may have been missed. */
  listen(handler: (event: HostEvent) => void): () => void;
  /** Opens an address outside the page, where the shell can do that. */
  openExternal?: (url: string) => void;
}

/** Whether a value is a `Problem`. */
export function isProblem(value: unknown): value is Problem {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as Problem).code === "string" &&
    typeof (value as Problem).message === "string"
  );
}

/** Anything that was thrown, as a `Problem`. */
export function asProblem(value: unknown): Problem {
  if (isProblem(value)) return value;
  if (typeof value === "string") {
    try {
      const parsed: unknown = JSON.parse(value);
      if (isProblem(parsed)) return parsed;
    } catch {
      // Not JSON: the text itself is the message.
    }
    return { code: "internal", message: value };
  }
  return { code: "internal", message: value instanceof Error ? value.message : String(value) };
}
