// A question of the person to a server, under way or answered: one at a time, and it can be cancelled. It keeps the last answer only.
import { ask, mutate } from "../../api/api.svelte";
import type { Problem } from "../../contract/contract";
import type { Input, Output } from "../../host/host";
import { asProblem } from "../../host/host";
import { announce } from "../../lib/live.svelte";
import { duration } from "../../lib/words";

type Asks = "resource_read" | "prompt_get";

/** One kind of question. */
export class Asking<C extends Asks> {
  running = $state.raw<{ call: string; since: number }>();
  view = $state.raw<Output<C>>();
  problem = $state.raw<Problem>();

  constructor(readonly command: C) {}

  /** Asks; `what` is heard by screen readers when the answer is there. */
  async ask(params: Omit<Input<C>, "call">, what: string): Promise<void> {
    if (this.running) return;
    const call = `ui-${crypto.randomUUID()}`;
    this.running = { call, since: Date.now() };
    this.problem = undefined;
    try {
      this.view = await ask(this.command, { ...params, call } as Input<C>);
      announce(`${what} came after ${duration(this.view.took_ms)}`);
    } catch (error) {
      this.view = undefined;
      this.problem = asProblem(error);
    } finally {
      this.running = undefined;
    }
  }

  async cancel(): Promise<void> {
    if (this.running) await mutate("call_cancel", { call: this.running.call }).catch(() => undefined);
  }
}
