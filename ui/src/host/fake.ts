// A host without eVi, for work on the page alone: answers from made-up data and plays the steps of starting and chatting. Never part of the product's bundle.
import type { Command, Event, Json, Problem, Tag, UpstreamDraft, UpstreamRow } from "../contract/contract";
import {
  about,
  chat as sampleChat,
  contents,
  gateway as sampleGateway,
  prompts,
  resources,
  settings,
  tools as sampleTools,
  upstreams as sampleUpstreams,
} from "./fake-data";
import type { Host, HostEvent, Input, Output } from "./host";

/** `?empty` has nothing set up; `?nomodel` has no model; `?broken` has a broken file. */
const flags = new URLSearchParams(location.search);
const problem = (code: Problem["code"], message: string, hint?: string, field?: string): Problem => ({
  code,
  message,
  ...(hint ? { hint } : {}),
  ...(field ? { field } : {}),
});

/** The host. */
export function fakeHost(): Host {
  const handlers = new Set<(event: HostEvent) => void>();
  const emit = (event: Event) => handlers.forEach((handler) => handler(event));
  const touch = (...tags: Tag[]) => emit({ kind: "invalidated", tags });
  const later = (ms: number, work: () => void) => setTimeout(work, ms);
  const empty = flags.has("empty");
  let rows: UpstreamRow[] = empty ? [] : structuredClone(sampleUpstreams);
  const tools = empty ? sampleTools.filter((tool) => tool.category) : structuredClone(sampleTools);
  const config = settings(!flags.has("nomodel") && !empty);
  if (flags.has("mcpoff")) {
    config.mcp_on = false;
    rows = rows.map((row) => ({ ...row, state: "mcp_off", stages: [] }));
  }
  if (empty) config.mcp_on = false;
  const gateway = structuredClone(sampleGateway);
  if (empty) Object.assign(gateway, { enabled: false, state: "off", shares: [], clients: [], tools: 6 });
  if (flags.has("busy")) {
    Object.assign(gateway, {
      state: "failed",
      clients: [],
      problem: problem(
        "port_busy",
        "port 8765 is in use by another program",
        "stop that program, or choose another port",
      ),
    });
  }
  const chats = new Map(empty ? [] : [[sampleChat.id, structuredClone(sampleChat)]]);
  const cancels = new Map<string, (reason: Problem) => void>();
  const find = (name: string) => {
    const row = rows.find((one) => one.name === name);
    if (!row) throw problem("not_found", `no such server: ${name}`);
    return row;
  };

  function start(name: string) {
    const kinds = ["saved", "started", "handshake", "discovery"];
    const details = ["", "process 5120", "protocol 2025-06-18", "14 tools"];
    const step = (at: number) => {
      const row = rows.find((one) => one.name === name);
      if (!row) return;
      row.state = at === 4 ? "ready" : "starting";
      row.stages = kinds.map((kind, i) => ({
        kind,
        state: i < at ? "done" : i === at ? "running" : "pending",
        ...(i < at && i > 0 ? { detail: details[i] ?? "", took_ms: 40 * i } : {}),
      }));
      if (at === 4) row.tools = 14;
      touch("upstreams", "tools");
      if (at < 4) later(500, () => step(at + 1));
    };
    step(1);
  }
  function fromDraft(draft: UpstreamDraft): UpstreamRow {
    return {
      name: draft.name,
      transport: draft.transport,
      summary: draft.transport === "stdio" ? [draft.command, ...draft.args].join(" ") : draft.url,
      command: draft.command,
      args: draft.args,
      url: draft.url,
      options: draft.options ?? {},
      env_keys: draft.env.map((one) => one.key),
      header_keys: draft.headers.map((one) => one.key),
      secret_keys: [...draft.env, ...draft.headers].filter((one) => one.secret).map((one) => one.key),
      enabled: true,
      state: "starting",
      stages: [],
      stderr: [],
      tools: 0,
    };
  }
  function speak(id: string, text: string) {
    const view = chats.get(id);
    if (!view) return;
    view.running = true;
    const message = { id: crypto.randomUUID(), at_ms: Date.now(), role: "user", text, calls: [] };
    view.messages.push(message);
    emit({ kind: "turn", chat: id, event: { step: "message", message } });
    const words = "Here is what I found, word by word, with **some** `markdown` in it.".split(" ");
    let at = 0;
    const timer = setInterval(() => {
      const word = words[at];
      if (word !== undefined && view.running) {
        emit({ kind: "turn", chat: id, event: { step: "text", delta: `${word} ` } });
        at += 1;
        return;
      }
      clearInterval(timer);
      const stopped = !view.running;
      view.running = false;
      const answer = {
        id: crypto.randomUUID(),
        at_ms: Date.now(),
        role: "assistant",
        text: words.slice(0, at).join(" "),
        calls: [],
        ...(stopped ? { ended: "stopped" } : {}),
      };
      view.messages.push(answer);
      emit({ kind: "turn", chat: id, event: { step: "message", message: answer } });
      emit({ kind: "turn", chat: id, event: { step: "ended", reason: stopped ? "stopped" : "done" } });
      touch("chats");
    }, 60);
  }

  type Handler<C extends Command> = (params: Input<C>) => Output<C> | Promise<Output<C>>;
  const answers: { [C in Command]: Handler<C> } = {
    app_info: () => ({
      version: "0.1.0",
      home: "/home/ada/.evi",
      mcp_json: "/home/ada/.evi/mcp.json",
      config_toml: "/home/ada/.evi/config.toml",
      logs: "/home/ada/.evi/state/logs",
      shell: "desktop",
      pid: 4242,
      config_problems: flags.has("broken")
        ? [
            {
              file: "/home/ada/.evi/mcp.json",
              line: 7,
              column: 3,
              message: "expected a comma or a closing bracket",
              whole_file: true,
            },
          ]
        : [],
      mcp_on: config.mcp_on,
      ...(flags.has("nokeychain")
        ? {
            keychain_problem: problem(
              "no_keychain",
              "there is no keychain service",
              "start gnome-keyring or KeePassXC",
            ),
          }
        : {}),
    }),
    settings_get: () => structuredClone(config),
    settings_update: (patch) => {
      Object.assign(config, patch);
      if (patch.mcp_on) rows.filter((row) => row.state === "mcp_off").forEach((row) => start(row.name));
      return structuredClone(config);
    },
    model_key_set: ({ key }) => {
      Object.assign(config, { key_set: key !== undefined, key_place: key === undefined ? "" : "keychain" });
      return structuredClone(config);
    },
    model_discover: () => [
      { title: "Ollama", base_url: "http://127.0.0.1:11434/v1", models: ["qwen3:8b", "llama3.2:3b"] },
    ],
    model_list: () => ({ models: ["llama3.2:3b", "qwen3:8b"] }),
    upstream_list: () => structuredClone(rows),
    upstream_get: ({ name }) => structuredClone(find(name)),
    upstream_log: ({ name }) => ({
      lines: [
        { at_ms: Date.now() - 90_000, stream: "evi", text: `starting ${find(name).summary}` },
        ...find(name).stderr.map((text, i) => ({ at_ms: Date.now() - 80_000 + i, stream: "stderr", text })),
        {
          at_ms: Date.now() - 60_000,
          stream: "stderr",
          text: "Secure MCP Filesystem Server running on stdio",
        },
      ],
    }),
    upstream_parse: ({ text }) => {
      const words = text.trim().split(/\s+/);
      if (/^https?:/.test(words[0] ?? "")) {
        return {
          drafts: [
            {
              name: new URL(words[0] ?? "").hostname.split(".").at(-2) ?? "remote",
              transport: "http",
              command: "",
              args: [],
              url: words[0] ?? "",
              env: [],
              headers: [],
            },
          ],
          warnings: [],
        };
      }
      const env: UpstreamDraft["env"] = [];
      while (/^[A-Z_]+=/.test(words[0] ?? "")) {
        const [key = "", value = ""] = (words.shift() ?? "").split("=", 2);
        env.push({ key, value, secret: false });
      }
      const name = /server-(\w+)/.exec(text)?.[1] ?? words[0] ?? "";
      const draft = {
        name,
        transport: "stdio",
        command: words[0] ?? "",
        args: words.slice(1),
        url: "",
        env,
        headers: [],
      };
      return {
        drafts: [draft],
        warnings: /\b(ba)?sh -c/.test(text) ? ["a shell runs everything after -c: look at it twice"] : [],
        ...(["npx", "uvx", "node"].includes(draft.command)
          ? { resolved: `/usr/local/bin/${draft.command}` }
          : {
              problem: problem(
                "upstream_failed",
                `program not found: ${draft.command}`,
                "install it, or give an absolute path",
                "command",
              ),
            }),
      };
    },
    upstream_add: ({ draft, overwrite }) => {
      if (draft.name === "") throw problem("invalid_input", "a server needs a name", undefined, "name");
      if (rows.some((row) => row.name === draft.name) && !overwrite) {
        throw problem("already_exists", `a server called ${draft.name} is there already`);
      }
      rows = [...rows.filter((row) => row.name !== draft.name), fromDraft(draft)];
      start(draft.name);
      const turned_on_mcp = !config.mcp_on;
      config.mcp_on = true;
      return { name: draft.name, summary: draft.command, turned_on_mcp, mcp_on: true };
    },
    upstream_edit: ({ name, draft }) => {
      rows = rows.map((row) => (row.name === name ? fromDraft(draft) : row));
      start(name);
      return structuredClone(find(name));
    },
    upstream_rename: ({ name, to }) => {
      find(name).name = to;
      return structuredClone(find(to));
    },
    upstream_remove: ({ name }) => {
      rows = rows.filter((row) => row.name !== name);
      return {};
    },
    upstream_set_enabled: ({ name, enabled }) => {
      const row = find(name);
      row.enabled = enabled;
      if (enabled) start(name);
      else Object.assign(row, { state: "off", stages: [], tools: 0 });
      return structuredClone(row);
    },
    upstream_restart: ({ name }) => {
      start(name);
      return structuredClone(find(name));
    },
    upstream_settle: () => structuredClone(rows),
    plugin_list: () => [],
    plugin_set_enabled: ({ name }) => {
      throw problem("not_found", `no such plugin: ${name}`);
    },
    plugin_remove: ({ name }) => {
      throw problem("not_found", `no such plugin: ${name}`);
    },
    tool_list: () => ({
      tools: structuredClone(tools),
      missing: rows
        .filter((row) => row.state === "failed" && row.problem)
        .map((row) => ({ server: row.name, problem: row.problem as Problem })),
    }),
    tool_set_enabled: ({ tool, enabled }) => {
      const row = tools.find((one) => one.name === tool);
      if (row) row.enabled = enabled;
      return {};
    },
    tool_call: ({ tool, arguments: args, call = "" }) =>
      new Promise((resolve, reject) => {
        cancels.set(call, reject);
        later(tool.includes("search") ? 4000 : 300, () =>
          resolve({
            call,
            tool,
            outcome: "ok",
            result: {
              content: [
                {
                  type: "text",
                  text: `[DIR] letters\n[DIR] taxes\n[FILE] notes.md\n${JSON.stringify(args)}`,
                },
              ],
              structuredContent: { content: "[DIR] letters" },
            },
            text: "[DIR] letters",
            took_ms: 18,
            bytes: 160,
          }),
        );
      }),
    result_read: () => {
      throw problem("not_found", "this result is not kept any more", "call the tool again");
    },
    call_cancel: ({ call }) => {
      cancels.get(call)?.(problem("cancelled", "the call was cancelled"));
      return {};
    },
    resource_list: ({ server }) => ({
      resources: empty ? [] : resources.filter((one) => server === undefined || one.server === server),
      missing: [],
    }),
    resource_read: ({ uri }) => {
      if (uri.includes("none"))
        throw problem("rpc", `the server answered with error -32002: Resource not found: ${uri}`);
      return { result: { contents: [contents(uri)] }, text: "", took_ms: 4 };
    },
    prompt_list: ({ server }) => ({
      prompts: empty ? [] : prompts.filter((one) => server === undefined || one.server === server),
      missing: [],
    }),
    prompt_get: ({ name, arguments: args }) => ({
      result: {
        messages: [
          { role: "user", content: { type: "text", text: `${name} ${JSON.stringify(args)}` } },
          { role: "assistant", content: { type: "text", text: "Gladly." } },
        ],
      },
      text: "",
      took_ms: 3,
    }),
    completion_get: ({ argument, value }) => ({
      values: (argument === "year" ? ["2024", "2025", "2026"] : ["notes.md", "plan.md"]).filter((one) =>
        one.startsWith(value),
      ),
      more: false,
    }),
    upstream_about: ({ name }) =>
      name === "filesystem"
        ? structuredClone(about)
        : { name, version: "", completes: false, resources: 0, prompts: 0 },
    activity_list: () => [],
    gateway_get: () => structuredClone(gateway),
    gateway_set_enabled: ({ enabled }) => {
      Object.assign(gateway, { enabled, state: enabled ? "running" : "off", problem: undefined });
      return structuredClone(gateway);
    },
    gateway_set_port: ({ port }) => {
      if (port === 8000)
        throw problem("port_busy", "port 8000 is in use by another program", "choose another");
      Object.assign(gateway, { port, address: `http://127.0.0.1:${port}/mcp` });
      return structuredClone(gateway);
    },
    gateway_token_copy: () => ({ token: "evi_fake" }),
    gateway_token_replace: () => {
      gateway.token_hint = "evi_7a…01bd";
      return structuredClone(gateway);
    },
    share_set: ({ server, mode }) => {
      const row = gateway.shares.find((one) => one.server === server);
      if (row && mode) row.mode = mode;
      else if (row) delete row.mode;
      return structuredClone(gateway);
    },
    category_set: ({ category, shared }) => {
      const row = gateway.categories.find((one) => one.category === category);
      if (row) row.shared = shared;
      return structuredClone(gateway);
    },
    connect_clients: () => [
      { id: "claude-desktop", title: "Claude Desktop", http: false },
      { id: "cursor", title: "Cursor", http: true },
    ],
    connect_text: ({ client, http }) => ({
      client: client ?? "",
      title: client === "cursor" ? "Cursor" : "Claude Desktop",
      file: "/home/ada/.config/Claude/claude_desktop_config.json",
      language: "json",
      text: JSON.stringify(
        {
          mcpServers: {
            evi: http
              ? { url: gateway.address, headers: { Authorization: "Bearer <token>" } }
              : { command: "/usr/bin/evi", args: ["mcp", "serve"] },
          },
        },
        null,
        2,
      ),
      command: http ? [] : ["/usr/bin/evi", "mcp", "serve"],
    }),
    connect_check: () =>
      new Promise((resolve) =>
        later(600, () =>
          resolve({
            command: ["/usr/bin/evi", "mcp", "serve"],
            stages: [
              { kind: "started", state: "done", detail: "process 5544", took_ms: 9 },
              { kind: "handshake", state: "done", detail: "protocol 2025-11-25", took_ms: 31 },
              { kind: "discovery", state: "done", detail: "22 tools", took_ms: 5 },
            ],
            stderr: [],
          }),
        ),
      ),
    chat_list: () =>
      [...chats.values()].map(({ id, title, running }) => ({
        id,
        title,
        running,
        updated_ms: Date.now() - 50_000,
      })),
    chat_get: ({ chat }) => {
      const view = chats.get(chat);
      if (!view) throw problem("not_found", "no such chat");
      return structuredClone(view);
    },
    chat_send: ({ chat, text }) => {
      if (config.model === "" && !text.startsWith("/call "))
        throw problem("no_model", "no model is chosen", "choose one under Settings");
      const id = chat ?? crypto.randomUUID();
      if (!chats.has(id))
        chats.set(id, { id, title: text.slice(0, 60), messages: [], running: false, approvals: [] });
      later(20, () => speak(id, text));
      return { chat: id, turn: "t" };
    },
    chat_stop: ({ chat }) => {
      const view = chats.get(chat);
      if (view) view.running = false;
      return {};
    },
    chat_rename: ({ chat, title }) => {
      const view = chats.get(chat);
      if (view) view.title = title;
      return {};
    },
    chat_delete: ({ chat }) => {
      chats.delete(chat);
      return {};
    },
    approval_list: () =>
      flags.has("approval")
        ? [
            {
              call: "g1",
              caller: "Claude Desktop",
              tool: "filesystem.write_file",
              server: "filesystem",
              arguments: { path: "/home/ada/x.txt", content: "hello" } as Json,
              reason: "filesystem is shared with a question each time",
              until_ms: Date.now() + 44_000,
            },
          ]
        : [],
    approval_answer: ({ call, answer }) => {
      for (const view of chats.values()) {
        if (!view.approvals.some((one) => one.call === call)) continue;
        view.approvals = [];
        view.running = false;
        for (const message of view.messages) {
          for (const row of message.calls)
            if (row.call === call)
              Object.assign(row, { state: answer === "deny" ? "denied" : "ok", took_ms: 7, text: "moved" });
        }
      }
      return {};
    },
  };

  return {
    name: "fake",
    async call(command, params) {
      await new Promise((resolve) => setTimeout(resolve, 15));
      return (answers[command] as Handler<typeof command>)(params);
    },
    listen(handler) {
      handlers.add(handler);
      handler({ kind: "connected" });
      return () => handlers.delete(handler);
    },
  };
}
