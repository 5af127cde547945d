// Calls that the person makes: what was filled in for each tool, the call under way and its last result. Lives as long as the page.
import { mutate } from "../../api/api.svelte";
import type { CallView, Json, Problem } from "../../contract/contract";
import { asProblem } from "../../host/host";
import { announce } from "../../lib/live.svelte";
import type { Shape } from "../../lib/schema";
import { initial } from "../../lib/schema";
import { duration } from "../../lib/words";

/** What the person does with one tool. */
export class Trial {
  /** The arguments as they stand. */
  value = $state.raw<Json | undefined>();
  /** The JSON text, where it is edited as text. */
  text = $state<string>();
  /** The call under way. */
  running = $state.raw<{ call: string; since: number }>();
  result = $state.raw<CallView>();
  problem = $state.raw<Problem>();

  constructor(
    readonly tool: string,
    shape: Shape,
  ) {
    this.value = initial(shape, true) ?? {};
  }

  async call(args: Json): Promise<void> {
    if (this.running) return;
    const call = `ui-${crypto.randomUUID()}`;
    this.running = { call, since: Date.now() };
    this.problem = undefined;
    this.result = undefined;
    try {
      this.result = await mutate("tool_call", {
        tool: this.tool,
        arguments: args,
        call,
        paged: true,
      });
      const bad = this.result.outcome !== "ok";
      announce(
        `${this.tool} ${bad ? "reported an error" : "answered"} after ${duration(this.result.took_ms)}`,
      );
    } catch (error) {
      this.problem = asProblem(error);
    } finally {
      this.running = undefined;
    }
  }

  async cancel(): Promise<void> {
    if (!this.running) return;
    try {
      await mutate("call_cancel", { call: this.running.call });
    } catch (error) {
      this.problem = asProblem(error);
    }
  }
}

const trials = new Map<string, { schema: string; trial: Trial }>();

/** The trial of a tool; a new one when its schema has changed. */
export function trialOf(tool: string, schema: Json, shape: Shape): Trial {
  const text = JSON.stringify(schema);
  const found = trials.get(tool);
  if (found && found.schema === text) return found.trial;
  const trial = new Trial(tool, shape);
  trials.set(tool, { schema: text, trial });
  return trial;
}
