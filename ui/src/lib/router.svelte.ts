// Where the page is: a section, a name within it, and options, all in the address's hash. It draws nothing.

/** The five sections. */
export const sections = ["chat", "servers", "tools", "gateway", "settings"] as const;
/** One of them. */
export type Section = (typeof sections)[number];

/** A place in the page. */
export interface Place {
  section: Section | undefined;
  /** A chat's id, a server's name, a tool's name. */
  name: string | undefined;
  options: URLSearchParams;
}

function parse(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [first = "", ...rest] = path.split("/");
  const name = rest.join("/");
  let decoded = name;
  try {
    decoded = decodeURIComponent(name);
  } catch {
    // A stray % is taken as it is.
  }
  return {
    section: (sections as readonly string[]).includes(first) ? (first as Section) : undefined,
    name: decoded === "" ? undefined : decoded,
    options: new URLSearchParams(search),
  };
}

const state = $state<{ place: Place }>({ place: parse(location.hash) });
addEventListener("hashchange", () => {
  state.place = parse(location.hash);
  arrived();
});

/** Where the page is now. */
export const route = {
  get section() {
    return state.place.section;
  },
  get name() {
    return state.place.name;
  },
  option(key: string): string | undefined {
    return state.place.options.get(key) ?? undefined;
  },
};

/** The server that was open last. */
let lastServer = $state(state.place.section === "servers" ? state.place.name : undefined);
function arrived() {
  if (state.place.section === "servers" && !state.place.options.has("add")) lastServer = state.place.name;
}

/** The address of a section as it was left. */
export function again(section: Section): string {
  return href(section, section === "servers" ? lastServer : undefined);
}

/** The address of a place. */
export function href(section: Section, name?: string, options?: Record<string, string>): string {
  const search = options ? `?${new URLSearchParams(options)}` : "";
  return `#/${section}${name === undefined ? "" : `/${encodeURIComponent(name)}`}${search}`;
}

/** Goes to a place. `replace` leaves no step in the history. */
export function go(address: string, replace = false): void {
  if (address === location.hash) return;
  if (replace) {
    history.replaceState(null, "", address);
    state.place = parse(address);
    arrived();
  } else location.hash = address;
}
