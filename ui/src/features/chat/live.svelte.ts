// What has been streamed in each chat and is not in `chat_get` yet. `chat_get` is the truth; this is thrown away when it catches up.
import { SvelteMap } from "svelte/reactivity";

import { onTurn } from "../../api/api.svelte";
import type { CallRow, ChatView, MessageView, TurnEventView } from "../../contract/contract";
import { announce } from "../../lib/live.svelte";

/** How far a call is; a later one is never replaced by an earlier one. */
function progress(state: string): number {
  return state === "waiting" ? 0 : state === "running" ? 1 : 2;
}

/** One chat's stream. */
export class Live {
  /** The answer so far, of the message that is not whole yet. */
  text = $state("");
  /** What the model thinks; kept nowhere. */
  reasoning = $state("");
  messages = $state.raw<MessageView[]>([]);
  calls = $state.raw<Record<string, CallRow>>({});
  /** Whether a turn is known to run; absent: ask `chat_get`. */
  running = $state<boolean>();
  /** Why the last turn ended, where that is worth saying. */
  ended = $state<string>();
  #text = "";
  #reasoning = "";
  #frame: number | undefined;

  /** Deltas come faster than frames. */
  #flush = () => {
    this.#frame = undefined;
    this.text = this.#text;
    this.reasoning = this.#reasoning;
  };
  #later() {
    if (this.#frame === undefined) this.#frame = requestAnimationFrame(this.#flush);
  }

  hear(event: TurnEventView): void {
    switch (event.step) {
      case "text":
        this.running = true;
        this.#text += event.delta;
        this.#later();
        break;
      case "reasoning":
        this.running = true;
        this.#reasoning += event.delta;
        this.#later();
        break;
      case "call":
        this.running = true;
        this.#call(event.call);
        break;
      case "message":
        this.messages = [...this.messages.filter((one) => one.id !== event.message.id), event.message];
        if (event.message.role === "user") {
          this.running = true;
          this.ended = undefined;
        } else this.#text = "";
        this.#reasoning = "";
        this.#flush();
        break;
      case "ended":
        this.running = false;
        this.ended = event.reason === "done" ? undefined : event.reason;
        announce(
          event.reason === "done"
            ? "The answer is complete"
            : event.reason === "stopped"
              ? "Stopped"
              : `The turn ended: ${event.reason}`,
        );
        break;
    }
  }
  #call(call: CallRow): void {
    const known = this.calls[call.call];
    if (known && progress(known.state) > progress(call.state)) return;
    this.calls = { ...this.calls, [call.call]: call };
    if (call.state === "waiting") announce(`Allow or deny ${call.tool}`);
  }

  /** Takes what `chat_get` says; gives its messages without the one that still grows. */
  settle(view: ChatView): void {
    if (!view.running && this.running !== true) {
      this.messages = [];
      this.calls = {};
      this.#text = "";
      this.#reasoning = "";
      this.#flush();
      this.running = undefined;
      return;
    }
    this.running = view.running || undefined;
    const partial = growing(view);
    if (partial && partial.text.length > this.#text.length) {
      this.#text = partial.text;
      this.#flush();
    }
    const known = new Set(view.messages.map((message) => message.id));
    if (this.messages.some((message) => known.has(message.id))) {
      this.messages = this.messages.filter((message) => !known.has(message.id));
    }
  }
}

/** The message that still grows, if there is one: while a turn runs, an answer at the end that asks for nothing. */
export function growing(view: ChatView): MessageView | undefined {
  const last = view.messages.at(-1);
  return view.running && last?.role === "assistant" && last.calls.length === 0 && !last.ended
    ? last
    : undefined;
}

/** Whether what was said is the person's own call of a tool. */
export function byPerson(text: string): boolean {
  return /^\/call(\s|$)/.test(text);
}

/** How long calls waited for the person, as far as this page saw it. */
const waits = new SvelteMap<string, { since: number | undefined; ms: number }>();

/** Takes down whether a call waits now. */
export function noteWait(call: string, waiting: boolean): void {
  const known = waits.get(call);
  if (waiting && known?.since === undefined) waits.set(call, { since: Date.now(), ms: known?.ms ?? 0 });
  else if (!waiting && known?.since !== undefined)
    waits.set(call, { since: undefined, ms: known.ms + Date.now() - known.since });
}

/** How long the call itself took, without the wait for an answer. */
export function ranFor(call: CallRow): number | undefined {
  return call.took_ms === undefined ? undefined : Math.max(0, call.took_ms - (waits.get(call.call)?.ms ?? 0));
}

const streams = new Map<string, Live>();

/** The stream of a chat. */
export function liveOf(chat: string): Live {
  let live = streams.get(chat);
  if (!live) {
    live = new Live();
    streams.set(chat, live);
  }
  return live;
}

onTurn((chat, event) => liveOf(chat).hear(event));

/** What a page shows: messages in order, each call as far as it is known to be, and what still grows. */
export function merged(
  view: ChatView | undefined,
  live: Live | undefined,
): { messages: MessageView[]; loose: CallRow[] } {
  const partial = view ? growing(view) : undefined;
  const base = (view?.messages ?? []).filter((message) => message !== partial && message.role !== "tool");
  const ids = new Set(base.map((message) => message.id));
  const streamed = (live?.messages ?? []).filter(
    (message) => !ids.has(message.id) && message.role !== "tool",
  );
  const calls = live?.calls ?? {};
  const shown = new Set<string>();
  const messages = [...base, ...streamed].map((message) => {
    if (message.calls.length === 0) return message;
    return {
      ...message,
      calls: message.calls.map((call) => {
        shown.add(call.call);
        const other = calls[call.call];
        return other && progress(other.state) > progress(call.state) ? other : call;
      }),
    };
  });
  return { messages, loose: Object.values(calls).filter((call) => !shown.has(call.call)) };
}
