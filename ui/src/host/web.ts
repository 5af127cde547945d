// The web shell: POST /api/{command} and the stream of GET /api/events, with the token of the link. It keeps the token in this tab only.
import type { Command, Event } from "../contract/contract";
import type { Host, HostEvent, Input, Output } from "./host";
import { isProblem } from "./host";

const KEY = "evi.token";

/** Takes the token out of the address, so that it is in no history and no referrer, and keeps it for this tab. */
function takeToken(): string {
  const url = new URL(location.href);
  const hash = new URLSearchParams(url.hash.replace(/^#\/?/, ""));
  const token = hash.get("token") ?? url.searchParams.get("token");
  if (token) {
    sessionStorage.setItem(KEY, token);
    url.searchParams.delete("token");
    if (hash.has("token")) url.hash = "";
    history.replaceState(null, "", url.pathname + url.search + url.hash);
    return token;
  }
  return sessionStorage.getItem(KEY) ?? "";
}

/** Splits a stream of server-sent events into their data. */
async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest = (rest + decoder.decode(value, { stream: true })).replace(/\r\n/g, "\n");
    let end: number;
    while ((end = rest.indexOf("\n\n")) >= 0) {
      const block = rest.slice(0, end);
      rest = rest.slice(end + 2);
      const data = block
        .split("\n")
        .filter((line) => line.startsWith("data:"))
        .map((line) => line.slice(5).replace(/^ /, ""))
        .join("\n");
      if (data) yield data;
    }
  }
}

/** The host of a page served by `evi web`. */
export function webHost(): Host {
  const token = takeToken();
  const headers: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : {};

  async function call<C extends Command>(command: C, params: Input<C>): Promise<Output<C>> {
    let response: Response;
    try {
      response = await fetch(`/api/${command}`, {
        method: "POST",
        headers: { ...headers, "Content-Type": "application/json" },
        body: JSON.stringify(params),
      });
    } catch {
      throw {
        code: "unavailable",
        message: "eVi does not answer",
        hint: "start it again with `evi web`; this page reconnects by itself",
      };
    }
    const text = await response.text();
    let body: unknown;
    try {
      body = text === "" ? {} : JSON.parse(text);
    } catch {
      body = undefined;
    }
    if (response.ok) return body as Output<C>;
    if (isProblem(body)) throw body;
    if (response.status === 401) {
      throw {
        code: "forbidden",
        message: "this page has no valid token",
        hint: "open the link that `evi web` printed",
      };
    }
    throw { code: "internal", message: `eVi answered with status ${response.status}` };
  }

  function listen(handler: (event: HostEvent) => void): () => void {
    const abort = new AbortController();
    void (async () => {
      let wait = 250;
      while (!abort.signal.aborted) {
        try {
          const response = await fetch("/api/events", {
            headers: { ...headers, Accept: "text/event-stream" },
            signal: abort.signal,
          });
          if (response.status === 401) return;
          if (response.ok && response.body) {
            handler({ kind: "connected" });
            wait = 250;
            for await (const data of events(response.body)) handler(JSON.parse(data) as Event);
          }
        } catch {
          // Reconnected below.
        }
        if (abort.signal.aborted) return;
        handler({ kind: "disconnected" });
        await new Promise((resolve) => setTimeout(resolve, wait));
        wait = Math.min(wait * 2, 5000);
      }
    })();
    return () => abort.abort();
  }

  return {
    name: "web",
    call,
    listen,
    openExternal: (url) => void window.open(url, "_blank", "noopener,noreferrer"),
  };
}
