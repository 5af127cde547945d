// A server as a form has it: rows with keys of their own, and the way to and from the contract's draft. No markup.
import type { DraftValue, UpstreamDraft, UpstreamOptionsView, UpstreamRow } from "../contract/contract";

/** A line of env or headers in a form. */
export interface ValueRow {
  id: number;
  key: string;
  /** What was typed; absent: what is stored stays. */
  value: string | undefined;
  secret: boolean;
  /** Whether it is stored already, so that no value is to be typed. */
  stored: boolean;
}
/** An argument in a form. */
export interface ArgRow {
  id: number;
  text: string;
}
/** A server in a form. */
export interface DraftForm {
  id: number;
  name: string;
  transport: string;
  command: string;
  args: ArgRow[];
  cwd: string;
  url: string;
  env: ValueRow[];
  headers: ValueRow[];
  /** `auto`, `legacy`, `modern`. */
  era: string;
  /** Limits in seconds as typed, by their names in the contract; empty is as it is for all. */
  limits: Record<LimitKey, string>;
  ca: string;
}
/** The limits of a server. */
export type LimitKey = "startup_timeout_sec" | "tool_timeout_sec" | "tool_total_timeout_sec";
const limitKeys: readonly LimitKey[] = ["startup_timeout_sec", "tool_timeout_sec", "tool_total_timeout_sec"];

type Options = Pick<DraftForm, "era" | "limits" | "ca">;
function fromOptions(options: UpstreamOptionsView = {}): Options {
  const limit = (key: LimitKey) => options[key]?.toString() ?? "";
  return {
    era: options.era ?? "auto",
    limits: {
      startup_timeout_sec: limit("startup_timeout_sec"),
      tool_timeout_sec: limit("tool_timeout_sec"),
      tool_total_timeout_sec: limit("tool_total_timeout_sec"),
    },
    ca: options.ca ?? "",
  };
}
function toOptions(form: Options): UpstreamOptionsView {
  const options: UpstreamOptionsView = {};
  if (form.era !== "auto") options.era = form.era;
  for (const key of limitKeys) {
    const text = form.limits[key].trim();
    // What is no number is sent as one that is refused, with its field.
    if (text !== "") options[key] = /^\d+$/.test(text) ? Number(text) : 0;
  }
  if (form.ca.trim() !== "") options.ca = form.ca.trim();
  return options;
}

/** Fields that say themselves what is wrong with them. */
export const draftFields: readonly string[] = [
  "name",
  "command",
  "args",
  "url",
  "cwd",
  "era",
  "ca",
  ...limitKeys,
];

let last = 0;
/** An identity for a row. */
export function nextId(): number {
  last += 1;
  return last;
}

/** An argument's row. */
export function argRow(text = ""): ArgRow {
  return { id: nextId(), text };
}

/** An empty line of env or headers. */
export function valueRow(secret: boolean): ValueRow {
  return { id: nextId(), key: "", value: "", secret, stored: false };
}

/** Whether a value refers to something else, so that it holds no secret itself. */
export function isReference(value: string): boolean {
  return /^\s*(?:[A-Za-z]+ )?\$\{[^}]*\}\s*$/.test(value);
}

function fromValue(value: DraftValue, keep: boolean): ValueRow {
  const text = value.value ?? "";
  return {
    id: nextId(),
    key: value.key,
    value: text,
    secret: value.secret || (keep && !isReference(text)),
    stored: false,
  };
}

/** An empty form. */
export function emptyForm(transport = "stdio"): DraftForm {
  return {
    id: nextId(),
    name: "",
    transport,
    command: "",
    args: [],
    cwd: "",
    url: "",
    env: [],
    headers: [],
    ...fromOptions(),
  };
}

/** The form of a draft; `keep`: values go to the keychain unless they are references. */
export function fromDraft(draft: UpstreamDraft, keep: boolean): DraftForm {
  return {
    id: nextId(),
    name: draft.name,
    transport: draft.transport,
    command: draft.command,
    args: draft.args.map(argRow),
    cwd: draft.cwd ?? "",
    url: draft.url,
    env: draft.env.map((value) => fromValue(value, keep)),
    headers: draft.headers.map((value) => fromValue(value, keep)),
    ...fromOptions(draft.options),
  };
}

/** The form of a server that exists: its values are not known here and stay unless they are replaced. */
export function fromRow(row: UpstreamRow): DraftForm {
  const stored = (key: string): ValueRow => ({
    id: nextId(),
    key,
    value: undefined,
    secret: row.secret_keys.includes(key),
    stored: true,
  });
  return {
    id: nextId(),
    name: row.name,
    transport: row.transport,
    command: row.command,
    args: row.args.map(argRow),
    cwd: row.cwd ?? "",
    url: row.url,
    env: row.env_keys.map(stored),
    headers: row.header_keys.map(stored),
    ...fromOptions(row.options),
  };
}

function toValues(rows: readonly ValueRow[]): DraftValue[] {
  return rows
    .filter((row) => row.key.trim() !== "")
    .map((row) => ({
      key: row.key.trim(),
      secret: row.secret,
      ...(row.value === undefined ? {} : { value: row.value }),
    }));
}

/** The contract's draft. Arguments stay as they are, an empty one too: it may be meant. */
export function toDraft(form: DraftForm): UpstreamDraft {
  const stdio = form.transport === "stdio";
  const cwd = form.cwd.trim();
  return {
    name: form.name.trim(),
    transport: form.transport,
    command: stdio ? form.command.trim() : "",
    args: stdio ? form.args.map((arg) => arg.text) : [],
    ...(stdio && cwd !== "" ? { cwd } : {}),
    url: stdio ? "" : form.url.trim(),
    env: stdio ? toValues(form.env) : [],
    headers: stdio ? [] : toValues(form.headers),
    options: toOptions(form),
  };
}
