// Queries with a cache by tags, and mutations that make the cache fetch again. It holds copies only: the truth is in eVi.
import type { Command, Event, Problem, Tag } from "../contract/contract";
import { commands } from "../contract/contract";
import type { Host, Input, Output } from "../host/host";
import { asProblem } from "../host/host";

type Turn = Extract<Event, { kind: "turn" }>;

/** How soon a query may be fetched again after the last time; a server in a crash loop must not make the page flicker. */
const PACE_MS = 120;
/** Nothing says "loading" before this. */
const SLOW_MS = 150;

let host: Host;
const entries = new Map<string, Entry<Command>>();
const turnHandlers = new Set<(chat: string, event: Turn["event"]) => void>();

/** Whether events arrive. */
export const link = $state({ connected: true });

class Entry<C extends Command> {
  data = $state.raw<Output<C>>();
  problem = $state.raw<Problem>();
  /** Whether the first answer takes long enough to say so. */
  slow = $state(false);
  users = 0;
  stale = true;
  #text = "";
  #running: Promise<void> | undefined;
  #again: Promise<void> | undefined;
  #last = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly command: C,
    readonly params: Input<C>,
  ) {}

  use(): () => void {
    this.users += 1;
    if (this.stale) void this.fetch();
    return () => {
      this.users -= 1;
    };
  }

  invalidate(): void {
    this.stale = true;
    if (this.users === 0) return;
    if (this.#timer !== undefined) return;
    const wait = Math.max(0, this.#last + PACE_MS - Date.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.fetch();
    }, wait);
  }

  /** Ends when an answer is there that was asked for after this was called. */
  async fetch(): Promise<void> {
    if (this.#running) {
      this.#again ??= this.#running.then(() => {
        this.#again = undefined;
        return this.fetch();
      });
      return this.#again;
    }
    this.#running = this.#fetch();
    await this.#running;
  }

  async #fetch(): Promise<void> {
    this.stale = false;
    const slow = setTimeout(() => (this.slow = this.data === undefined), SLOW_MS);
    try {
      const answer = await host.call(this.command, this.params);
      const text = JSON.stringify(answer);
      if (text !== this.#text) {
        this.#text = text;
        this.data = answer;
      }
      this.problem = undefined;
    } catch (error) {
      this.problem = asProblem(error);
      this.stale = true;
    } finally {
      clearTimeout(slow);
      this.slow = false;
      this.#running = undefined;
      this.#last = Date.now();
    }
  }
}

function entry<C extends Command>(command: C, params: Input<C>): Entry<C> {
  const key = `${command} ${JSON.stringify(params)}`;
  let found = entries.get(key) as Entry<C> | undefined;
  if (!found) {
    found = new Entry(command, params);
    entries.set(key, found as unknown as Entry<Command>);
  }
  return found;
}

/** What a component sees of a query. */
export interface Query<C extends Command> {
  /** The newest answer, kept while a newer one is on its way. */
  readonly data: Output<C> | undefined;
  /** Why the last fetch gave none. */
  readonly problem: Problem | undefined;
  /** Whether the first answer takes long. */
  readonly slow: boolean;
  /** Asks again. */
  refetch(): Promise<void>;
}

/** A query that lives as long as the component. `params` may depend on state; `null` asks nothing. */
export function query<C extends Command>(
  command: C,
  params: () => Input<C> | null = () => ({}) as Input<C>,
): Query<C> {
  const key = $derived(JSON.stringify(params()));
  const current = $derived(key === "null" ? undefined : entry(command, JSON.parse(key) as Input<C>));
  $effect(() => current?.use());
  return {
    get data() {
      return current?.data;
    },
    get problem() {
      return current?.problem;
    },
    get slow() {
      return current?.slow ?? false;
    },
    async refetch() {
      await current?.fetch();
    },
  };
}

/** Says that answers with these tags may be old. */
export function invalidate(tags: readonly Tag[] | "all"): void {
  for (const [key, one] of entries) {
    const touched = tags === "all" || commands[one.command].tags.some((tag) => tags.includes(tag));
    if (!touched) continue;
    one.invalidate();
    if (one.users === 0 && tags === "all") entries.delete(key);
  }
}

/** Runs a command that changes something; queries with its tags are fetched again, also when it fails. Rejects with a `Problem`. */
export async function mutate<C extends Command>(command: C, params: Input<C>): Promise<Output<C>> {
  try {
    return await host.call(command, params);
  } catch (error) {
    throw asProblem(error);
  } finally {
    if (commands[command].kind === "mutation") invalidate(commands[command].tags);
  }
}

/** Asks once, without the cache. Rejects with a `Problem`. */
export async function ask<C extends Command>(command: C, params: Input<C>): Promise<Output<C>> {
  try {
    return await host.call(command, params);
  } catch (error) {
    throw asProblem(error);
  }
}

/** Hears the steps of turns until the returned function is called. */
export function onTurn(handler: (chat: string, event: Turn["event"]) => void): () => void {
  turnHandlers.add(handler);
  return () => turnHandlers.delete(handler);
}

/** Opens an address outside the page; absent where the shell cannot. */
export function externalOpener(): ((url: string) => void) | undefined {
  return host.openExternal;
}

/** Joins the page to its host. */
export function start(with_: Host): void {
  host = with_;
  let seen = false;
  host.listen((event) => {
    if (event.kind === "invalidated") invalidate(event.tags);
    else if (event.kind === "turn") for (const handler of turnHandlers) handler(event.chat, event.event);
    else if (event.kind === "connected") {
      link.connected = true;
      if (seen) invalidate("all");
      seen = true;
    } else if (event.kind === "lagged") invalidate("all");
    else link.connected = false;
  });
}
