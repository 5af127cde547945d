// Reads a tool's JSON Schema into what a form can show. What it does not understand becomes a JSON field; it never guesses a type.
import type { Json } from "../contract/contract";

/** A JSON object. */
export type JsonObject = { [key: string]: Json };

interface Common {
  title?: string;
  description?: string;
  default?: Json;
  /** Whether `null` is a value, too. */
  nullable: boolean;
}
/** What a form shows for a schema. */
export type Shape = Common &
  (
    | {
        kind: "string";
        long: boolean;
        format?: string;
        minLength?: number;
        maxLength?: number;
        pattern?: string;
      }
    | { kind: "number"; integer: boolean; minimum?: number; maximum?: number }
    | { kind: "boolean" }
    | { kind: "enum"; values: Json[] }
    | { kind: "array"; items: Shape; minItems?: number; maxItems?: number }
    | { kind: "object"; fields: FieldShape[]; open: boolean }
    | { kind: "null" }
    | { kind: "json" }
  );
/** A property of an object. */
export interface FieldShape {
  name: string;
  required: boolean;
  shape: Shape;
}

const LONG =
  /content|text|body|message|prompt|query|code|script|markdown|html|patch|description|instructions|diff/i;
const DEPTH = 12;

/** Whether a value is an object. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The shape of a schema. */
export function shapeOf(schema: Json): Shape {
  return read(schema, schema, "", 0);
}

function resolve(schema: JsonObject, root: Json, depth: number): JsonObject | undefined {
  const ref = schema["$ref"];
  if (typeof ref !== "string") return schema;
  if (!ref.startsWith("#") || depth > DEPTH) return undefined;
  let at: Json | undefined = root;
  for (const part of ref.slice(1).split("/").filter(Boolean)) {
    const key = decodeURIComponent(part).replace(/~1/g, "/").replace(/~0/g, "~");
    at = Array.isArray(at) ? at[Number(key)] : isObject(at) ? at[key] : undefined;
  }
  if (!isObject(at)) return undefined;
  const { $ref: _ref, ...beside } = schema;
  return { ...at, ...beside };
}

function read(raw: Json, root: Json, name: string, depth: number): Shape {
  if (!isObject(raw)) return { kind: "json", nullable: false };
  let schema = resolve(raw, root, depth);
  if (!schema || depth > DEPTH) return { kind: "json", nullable: false };
  if (typeof schema["$ref"] === "string") return read(schema, root, name, depth + 1);
  const all = schema["allOf"];
  if (Array.isArray(all) && all.length === 1 && isObject(all[0])) {
    const { allOf: _all, ...beside } = schema;
    const inner = resolve(all[0], root, depth);
    if (inner) schema = { ...inner, ...beside };
  } else if (Array.isArray(all)) return { ...common(schema), kind: "json" };

  const choices = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(choices)) {
    const real = choices.filter((one) => !(isObject(one) && one["type"] === "null"));
    const nullable = real.length < choices.length;
    const own = common(schema);
    if (real.length === 1 && isObject(real[0])) {
      const shape = read(real[0], root, name, depth + 1);
      return { ...shape, ...given(own), nullable: nullable || shape.nullable };
    }
    const consts = real.map((one) => (isObject(one) && "const" in one ? one["const"] : undefined));
    if (real.length > 0 && consts.every((one) => one !== undefined)) {
      return { ...own, kind: "enum", values: consts as Json[], nullable };
    }
    return { ...own, kind: "json", nullable };
  }
  return plain(schema, root, name, depth);
}

function plain(schema: JsonObject, root: Json, name: string, depth: number): Shape {
  const { nullable: said, ...own } = common(schema);
  let nullable = said;
  if ("const" in schema) return { ...own, nullable, kind: "enum", values: [schema["const"] as Json] };
  let type = schema["type"];
  if (Array.isArray(type)) {
    const real = type.filter((one) => one !== "null");
    nullable ||= real.length < type.length;
    type = real.length === 1 ? real[0] : undefined;
    if (real.length === 0) type = "null";
  }
  const values = schema["enum"];
  if (Array.isArray(values)) {
    const real = values.filter((one) => one !== null);
    return { ...own, nullable: nullable || real.length < values.length, kind: "enum", values: real };
  }
  if (type === undefined && isObject(schema["properties"])) type = "object";
  switch (type) {
    case "string":
      return {
        ...own,
        nullable,
        kind: "string",
        long: LONG.test(name) || numberOf(schema, "maxLength", 0) > 200,
        ...pick(schema, "format", "string"),
        ...pick(schema, "minLength", "number"),
        ...pick(schema, "maxLength", "number"),
        ...pick(schema, "pattern", "string"),
      };
    case "integer":
    case "number":
      return {
        ...own,
        nullable,
        kind: "number",
        integer: type === "integer",
        ...pick(schema, "minimum", "number"),
        ...pick(schema, "maximum", "number"),
      };
    case "boolean":
      return { ...own, nullable, kind: "boolean" };
    case "null":
      return { ...own, nullable: true, kind: "null" };
    case "array": {
      const items = isObject(schema["items"]) ? read(schema["items"], root, name, depth + 1) : undefined;
      const listed = items?.kind === "object" && items.fields.length > 0;
      if (!items || !(listed || ["string", "number", "boolean", "enum"].includes(items.kind))) break;
      return {
        ...own,
        nullable,
        kind: "array",
        items,
        ...pick(schema, "minItems", "number"),
        ...pick(schema, "maxItems", "number"),
      };
    }
    case "object": {
      const properties = schema["properties"];
      if (!isObject(properties)) {
        if (depth === 0)
          return {
            ...own,
            nullable,
            kind: "object",
            fields: [],
            open: schema["additionalProperties"] !== false,
          };
        break;
      }
      const required = Array.isArray(schema["required"]) ? schema["required"] : [];
      const fields = Object.entries(properties).map(([key, one]) => ({
        name: key,
        required: required.includes(key),
        shape: read(one, root, key, depth + 1),
      }));
      fields.sort((a, b) => Number(b.required) - Number(a.required));
      return { ...own, nullable, kind: "object", fields, open: false };
    }
  }
  return { ...own, nullable, kind: "json" };
}

function common(schema: JsonObject): Common {
  return {
    nullable: schema["nullable"] === true,
    ...pick(schema, "title", "string"),
    ...pick(schema, "description", "string"),
    ...("default" in schema ? { default: schema["default"] as Json } : {}),
  };
}

/** Of two descriptions, the outer one wins where it says something. */
function given(own: Common): Partial<Common> {
  const { nullable: _nullable, ...rest } = own;
  return rest;
}

function pick<K extends string>(schema: JsonObject, key: K, type: "string"): { [P in K]?: string };
function pick<K extends string>(schema: JsonObject, key: K, type: "number"): { [P in K]?: number };
function pick(schema: JsonObject, key: string, type: string): object {
  return typeof schema[key] === type ? { [key]: schema[key] } : {};
}

function numberOf(schema: JsonObject, key: string, otherwise: number): number {
  const value = schema[key];
  return typeof value === "number" ? value : otherwise;
}

/** What a form begins with: defaults, and for what is required and has only one sensible beginning, that. */
export function initial(shape: Shape, required: boolean): Json | undefined {
  if (shape.default !== undefined) return shape.default;
  if (shape.kind === "object") {
    const entries = shape.fields
      .map((field): [string, Json | undefined] => [field.name, initial(field.shape, field.required)])
      .filter((entry): entry is [string, Json] => entry[1] !== undefined);
    return required || entries.length > 0 ? Object.fromEntries(entries) : undefined;
  }
  if (!required) return undefined;
  if (shape.kind === "boolean") return false;
  if (shape.kind === "array") return [];
  if (shape.kind === "null") return null;
  if (shape.kind === "enum" && shape.values.length === 1) return shape.values[0];
  return undefined;
}

/** What is wrong with a value, by path (`""` is the whole, `/a/0` is within); empty where nothing is. */
export function faults(
  shape: Shape,
  value: Json | undefined,
  required: boolean,
  path = "",
): Map<string, string> {
  const found = new Map<string, string>();
  const say = (text: string) => found.set(path, text);
  if (value === undefined) {
    if (required && shape.kind !== "object") say("needs a value");
    else if (required && shape.kind === "object") return faults(shape, {}, true, path);
    return found;
  }
  if (value === null) {
    if (!shape.nullable && shape.kind !== "json" && shape.kind !== "null") say("cannot be null");
    return found;
  }
  switch (shape.kind) {
    case "string":
      if (typeof value !== "string") say("is not text");
      else if (shape.minLength !== undefined && value.length < shape.minLength)
        say(`needs at least ${shape.minLength} characters`);
      else if (shape.maxLength !== undefined && value.length > shape.maxLength)
        say(`takes at most ${shape.maxLength} characters`);
      break;
    case "number":
      if (typeof value !== "number") say("is not a number");
      else if (shape.integer && !Number.isInteger(value)) say("is not a whole number");
      else if (shape.minimum !== undefined && value < shape.minimum) say(`is less than ${shape.minimum}`);
      else if (shape.maximum !== undefined && value > shape.maximum) say(`is more than ${shape.maximum}`);
      break;
    case "array":
      if (!Array.isArray(value)) say("is not a list");
      else {
        if (shape.minItems !== undefined && value.length < shape.minItems)
          say(`needs at least ${shape.minItems}`);
        value.forEach((one, at) => {
          for (const [key, text] of faults(shape.items, one, true, `${path}/${at}`)) found.set(key, text);
        });
      }
      break;
    case "object":
      if (!isObject(value)) say("is not an object");
      else {
        for (const field of shape.fields) {
          for (const [key, text] of faults(
            field.shape,
            value[field.name],
            field.required,
            `${path}/${field.name}`,
          )) {
            found.set(key, text);
          }
        }
      }
      break;
  }
  return found;
}
