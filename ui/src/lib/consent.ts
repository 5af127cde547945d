// What runs in chat without a question, in words. The rule itself is eVi's; this says only what it comes to.
import type { Settings, ToolList } from "../contract/contract";

/** Categories whose tools that only read never ask. */
const READING = ["memory", "index", "calendar", "git"];
/** Categories that ask whatever `auto_approve` says. */
export const ALWAYS_ASK = ["code", "shell", "computer"];

/** The categories that have tools, once they are known. */
export function categories(list: ToolList | undefined): ReadonlySet<string> | undefined {
  return list && new Set(list.tools.flatMap((tool) => tool.category ?? []));
}

/** What runs by itself, by category. */
export interface Consent {
  /** Only what reads. */
  reading: string[];
  /** Everything. */
  whole: string[];
}

/** What a person's settings come to; `known` are the categories that have tools. */
export function consentOf(settings: Pick<Settings, "auto_approve">, known?: ReadonlySet<string>): Consent {
  const there = (category: string) => known === undefined || known.has(category);
  const whole = settings.auto_approve.filter(
    (category) => category !== "fs" && !ALWAYS_ASK.includes(category) && there(category),
  );
  const reading = [...READING, ...(settings.auto_approve.includes("fs") ? ["fs"] : [])].filter(
    (category) => there(category) && !whole.includes(category),
  );
  return { reading, whole };
}

/** The same for a person who has not asked yet. */
export function consentWords(
  settings: Pick<Settings, "auto_approve" | "rules">,
  known?: ReadonlySet<string>,
): string {
  const { reading, whole } = consentOf(settings, known);
  const own = [
    ...(whole.length > 0 ? [`eVi's own ${listed(whole)} tools`] : []),
    ...(reading.length > 0
      ? [`${whole.length > 0 ? "those" : "eVi's own tools"} that only read (${reading.join(", ")})`]
      : []),
  ];
  const first = own.length === 0 ? "" : `${own.join(" and ")} run without a question. `;
  const rules = settings.rules.length > 0 ? " Rules in config.toml come first." : "";
  const rest = own.length === 0 ? "Every call" : "Every call of a server's tool, and any other,";
  return `${first}${rest} waits here for your yes, with the exact arguments.${rules}`;
}

function listed(words: readonly string[]): string {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1) ?? ""}`;
}
