// Addresses with variables (RFC 6570), each variable one text. It knows no lists and no maps: a form has none.

interface Expression {
  operator: string;
  names: { name: string; prefix: number | undefined }[];
}

/** First character, separator, whether names are written, whether reserved characters stay. */
const OPERATORS: Record<string, [first: string, between: string, named: boolean, reserved: boolean]> = {
  "": ["", ",", false, false],
  "+": ["", ",", false, true],
  "#": ["#", ",", false, true],
  ".": [".", ".", false, false],
  "/": ["/", "/", false, false],
  ";": [";", ";", true, false],
  "?": ["?", "&", true, false],
  "&": ["&", "&", true, false],
};

function parse(body: string): Expression {
  const operator = body.charAt(0) in OPERATORS && body !== "" ? body.charAt(0) : "";
  const names = body
    .slice(operator.length)
    .split(",")
    .map((part) => {
      const [, name = "", prefix] = /^([^:*]*)(?::(\d+))?\*?$/.exec(part.trim()) ?? [];
      return { name, prefix: prefix === undefined ? undefined : Number(prefix) };
    })
    .filter((one) => one.name !== "");
  return { operator, names };
}

/** The names of its variables, each once, in order. */
export function variables(template: string): string[] {
  const names = [...template.matchAll(/\{([^{}]*)\}/g)].flatMap(([, body = ""]) =>
    parse(body).names.map((one) => one.name),
  );
  return [...new Set(names)];
}

function encode(text: string, reserved: boolean): string {
  const strict = encodeURIComponent(text).replace(
    /[!'()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  if (!reserved) return strict;
  return encodeURI(text)
    .replace(/%5B/g, "[")
    .replace(/%5D/g, "]")
    .replace(/%25([0-9a-f]{2})/gi, "%$1");
}

/** The address with the variables' values; one without a value is left out. */
export function expand(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(/\{([^{}]*)\}/g, (_, body: string) => {
    const { operator, names } = parse(body);
    const [first, between, named, reserved] = OPERATORS[operator] ?? ["", ",", false, false];
    const parts = names
      .filter(({ name }) => (values[name] ?? "") !== "")
      .map(({ name, prefix }) => {
        const text = encode([...(values[name] ?? "")].slice(0, prefix).join(""), reserved);
        return named ? `${name}=${text}` : text;
      });
    return parts.length === 0 ? "" : first + parts.join(between);
  });
}
