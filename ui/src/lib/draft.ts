// A server as a form has it: rows with keys of their own, and the way to and from the contract's draft. No markup.
import type { DraftValue, UpstreamDraft, UpstreamRow } from "../contract/contract";

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
}

/** Fields that say themselves what is wrong with them. */
export const draftFields: readonly string[] = ["name", "command", "args", "url", "cwd"];

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
  return { id: nextId(), name: "", transport, command: "", args: [], cwd: "", url: "", env: [], headers: [] };
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
  };
}
