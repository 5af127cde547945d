// Made-up servers, tools and chats for work on the page without eVi. Never part of the product's bundle.
import type {
  ChatView,
  GatewayView,
  Json,
  PromptRow,
  ResourceRow,
  ServerAbout,
  Settings,
  ToolRow,
  UpstreamRow,
} from "../contract/contract";

const base: UpstreamRow = {
  name: "",
  transport: "stdio",
  summary: "",
  command: "npx",
  args: [],
  url: "",
  options: {},
  env_keys: [],
  header_keys: [],
  secret_keys: [],
  enabled: true,
  state: "ready",
  stages: [],
  stderr: [],
  tools: 0,
};
const done = (started: string, protocol: string, tools: string): UpstreamRow["stages"] => [
  { kind: "saved", state: "done" },
  { kind: "started", state: "done", detail: started, took_ms: 14 },
  { kind: "handshake", state: "done", detail: `protocol ${protocol}`, took_ms: 1240 },
  { kind: "discovery", state: "done", detail: tools, took_ms: 86 },
];

/** Servers in every state. */
export const upstreams: UpstreamRow[] = [
  {
    ...base,
    name: "filesystem",
    summary: "npx -y @modelcontextprotocol/server-filesystem /home/ada/Documents",
    args: ["-y", "@modelcontextprotocol/server-filesystem", "/home/ada/Documents"],
    stages: done("process 4711", "2025-06-18", "14 tools"),
    tools: 14,
    server: "secure-filesystem-server 0.2.0",
    protocol: "2025-06-18",
    pid: 4711,
  },
  {
    ...base,
    name: "github",
    summary: "npx -y @modelcontextprotocol/server-github",
    args: ["-y", "@modelcontextprotocol/server-github"],
    env_keys: ["GITHUB_PERSONAL_ACCESS_TOKEN", "GITHUB_HOST"],
    secret_keys: ["GITHUB_PERSONAL_ACCESS_TOKEN"],
    state: "failed",
    failure: "exited_at_once",
    problem: {
      code: "upstream_failed",
      message: "the process ended during the handshake with exit status 1",
      hint: "its last lines on stderr say why; a missing token is the usual reason",
    },
    stages: [
      { kind: "saved", state: "done" },
      { kind: "started", state: "done", detail: "process 4720", took_ms: 12 },
      { kind: "handshake", state: "failed", detail: "the process ended", took_ms: 830 },
      { kind: "discovery", state: "pending" },
    ],
    stderr: [
      "npm warn deprecated @modelcontextprotocol/server-github@2025.4.8: no longer supported",
      "Error: GITHUB_PERSONAL_ACCESS_TOKEN is not valid (401 Bad credentials)",
      "    at main (/home/ada/.npm/_npx/3dfbf5a9eea4a1b3/node_modules/server-github/dist/index.js:41:11)",
    ],
  },
  {
    ...base,
    name: "linear",
    transport: "http",
    command: "",
    url: "https://mcp.linear.app/mcp",
    summary: "https://mcp.linear.app/mcp",
    header_keys: ["Authorization"],
    secret_keys: ["Authorization"],
    state: "starting",
    stages: [
      { kind: "saved", state: "done" },
      { kind: "started", state: "done", detail: "reached", took_ms: 210 },
      { kind: "handshake", state: "running" },
      { kind: "discovery", state: "pending" },
    ],
  },
  {
    ...base,
    name: "notes:everything-with-a-remarkably-long-name-that-must-be-clipped",
    summary: "notes-server --stdio",
    command: "notes-server",
    args: ["--stdio"],
    plugin: "notes",
    enabled: false,
    state: "off",
  },
  {
    ...base,
    name: "postgres",
    summary: "uvx postgres-mcp",
    command: "uvx",
    args: ["postgres-mcp"],
    state: "blocked",
  },
];

const schema = (properties: { [key: string]: Json }, required: string[] = []): Json => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});
const path: Json = { type: "string", description: "Path of the folder or file" };
const tool = (
  name: string,
  description: string,
  input_schema: Json,
  more: Partial<ToolRow> = {},
): ToolRow => ({
  name,
  server: "filesystem",
  description,
  input_schema,
  read_only: true,
  destructive: false,
  enabled: true,
  model_name: name.replace(".", "__"),
  shared: false,
  ...more,
});
const write = { read_only: false };
const own = (name: string, description: string, input_schema: Json, read_only = true): ToolRow => {
  const { server: _server, ...row } = tool(name, description, input_schema);
  return { ...row, category: "memory", shared: true, read_only };
};

/** Tools with every kind of schema. */
export const tools: ToolRow[] = [
  tool(
    "filesystem.read_file",
    "Read the complete contents of a file as text. DEPRECATED: use read_text_file.",
    schema({ path, tail: { type: "number" }, head: { type: "number" } }, ["path"]),
  ),
  tool(
    "filesystem.read_text_file",
    "Read the complete contents of a file from the file system as text.\n\nHandles various text encodings. Use 'head' to read only the first N lines, or 'tail' the last N lines.",
    schema({ path, head: { type: "integer", minimum: 1 }, tail: { type: "integer", minimum: 1 } }, ["path"]),
  ),
  tool(
    "filesystem.read_media_file",
    "Read an image or audio file. Returns the data and its MIME type.",
    schema({ path }, ["path"]),
  ),
  tool(
    "filesystem.read_multiple_files",
    "Read several files at once.",
    schema({ paths: { type: "array", items: { type: "string" }, minItems: 1 } }, ["paths"]),
  ),
  tool(
    "filesystem.write_file",
    "Create a new file or completely overwrite an existing one.",
    schema({ path, content: { type: "string" } }, ["path", "content"]),
    { read_only: false, destructive: true },
  ),
  tool(
    "filesystem.edit_file",
    "Make line-based edits to a text file.",
    schema(
      {
        path,
        edits: {
          type: "array",
          items: { type: "object", properties: { oldText: { type: "string" }, newText: { type: "string" } } },
        },
        dryRun: { type: "boolean", default: false, description: "Preview changes as a diff" },
      },
      ["path", "edits"],
    ),
    { read_only: false, destructive: true },
  ),
  tool(
    "filesystem.create_directory",
    "Create a folder, or make sure that it is there.",
    schema({ path }, ["path"]),
    write,
  ),
  tool(
    "filesystem.list_directory",
    "Get a detailed listing of all files and directories in a specified path.\n\nResults clearly distinguish between files and directories with [FILE] and [DIR] prefixes.",
    schema({ path }, ["path"]),
    { title: "List Directory" },
  ),
  tool(
    "filesystem.list_directory_with_sizes",
    "The listing with sizes.",
    schema({ path, sortBy: { type: "string", enum: ["name", "size"], default: "name" } }, ["path"]),
  ),
  tool(
    "filesystem.directory_tree",
    "A recursive tree of a folder as JSON.",
    schema({ path, excludePatterns: { type: "array", items: { type: "string" }, default: [] } }, ["path"]),
  ),
  tool(
    "filesystem.move_file",
    "Move or rename files and folders.",
    schema({ source: path, destination: path }, ["source", "destination"]),
    write,
  ),
  tool(
    "filesystem.search_files",
    "Search for files that match a pattern.",
    schema(
      {
        path,
        pattern: { type: "string" },
        depth: { anyOf: [{ type: "integer" }, { type: "null" }], default: null },
        options: {
          type: "object",
          properties: { hidden: { type: "boolean" }, limit: { type: "integer", minimum: 1, maximum: 100 } },
        },
      },
      ["path", "pattern"],
    ),
  ),
  tool("filesystem.get_file_info", "Size, times and permissions of a file.", schema({ path }, ["path"]), {
    enabled: false,
  }),
  tool("filesystem.list_allowed_directories", "The folders that this server may use.", schema({})),
  own(
    "remember",
    "Keep a note under a name.",
    schema(
      {
        name: { type: "string", pattern: "^[A-Za-z0-9_-]{1,64}$" },
        content: { type: "string" },
        tags: { type: "string", default: "" },
      },
      ["name", "content"],
    ),
    false,
  ),
  own("recall", "Read a note.", schema({ name: { type: "string" } }, ["name"])),
  own(
    "search_memories",
    "Find notes by their words.",
    schema({ query: { type: "string" }, k: { type: "integer", default: 10 } }, ["query"]),
  ),
  own(
    "forget",
    "Delete a note; it stays in the attic.",
    schema({ name: { type: "string" } }, ["name"]),
    false,
  ),
  own("list_memories", "Every note with its summary and tags.", schema({})),
];

/** Settings with a model, or without. */
export const settings = (model: boolean): Settings => ({
  mcp_on: true,
  mcp_allow: ["filesystem", "github", "linear"],
  base_url: model ? "http://127.0.0.1:11434/v1" : "",
  model: model ? "qwen3:8b" : "",
  key_set: false,
  key_place: "",
  auto_approve: ["fs", "code", "memory", "skills", "image"],
  rules: ["allow filesystem.list_* *", "deny shell.* rm *"],
  hard_deny: ["computer.*"],
  port: 8765,
});

/** The gateway. */
export const gateway: GatewayView = {
  enabled: true,
  state: "running",
  address: "http://127.0.0.1:8765/mcp",
  port: 8765,
  token_hint: "evi_3f…9c2e",
  token_kept: true,
  clients: [
    {
      name: "Claude Desktop",
      version: "1.4.2",
      transport: "stdio",
      since_ms: Date.now() - 5_400_000,
      last_call_ms: Date.now() - 130_000,
    },
    { name: "mcp-inspector", version: "2.0.1", transport: "http", since_ms: Date.now() - 40_000 },
  ],
  shares: [
    { server: "filesystem", tools: 14, mode: "read_only" },
    { server: "github", tools: 0 },
    { server: "linear", tools: 0 },
  ],
  categories: [
    { category: "memory", tools: 6, shared: true },
    { category: "git", tools: 6, shared: true },
    { category: "shell", tools: 1, shared: false },
  ],
  tools: 22,
};

const at = Date.now();
/** A chat with a finished call and one that waits. */
export const chat: ChatView = {
  id: "c1",
  title: "Files in Documents",
  running: true,
  messages: [
    {
      id: "m1",
      at_ms: at - 60_000,
      role: "user",
      text: "What is in my Documents folder, and which of it is older than a year?",
      calls: [],
    },
    {
      id: "m2",
      at_ms: at - 58_000,
      role: "assistant",
      text: "Let me look.",
      calls: [
        {
          call: "k1",
          tool: "filesystem.list_directory",
          server: "filesystem",
          arguments: { path: "/home/ada/Documents" },
          state: "ok",
          took_ms: 18,
          text: "[DIR] letters\n[DIR] taxes\n[FILE] notes.md\n[FILE] old-plan.txt",
        },
      ],
    },
    {
      id: "m3",
      at_ms: at - 50_000,
      role: "assistant",
      text: "There are two folders and two files:\n\n| Name | Kind |\n| --- | --- |\n| `letters` | folder |\n| `taxes` | folder |\n| `notes.md` | file |\n| `old-plan.txt` | file |\n\n`old-plan.txt` is from **March 2023**. I can move it into an `archive` folder.",
      calls: [
        {
          call: "k2",
          tool: "filesystem.move_file",
          server: "filesystem",
          arguments: {
            source: "/home/ada/Documents/old-plan.txt",
            destination: "/home/ada/Documents/archive/old-plan.txt",
          },
          state: "waiting",
        },
      ],
    },
  ],
  approvals: [
    {
      call: "k2",
      chat: "c1",
      caller: "chat",
      tool: "filesystem.move_file",
      server: "filesystem",
      arguments: {
        source: "/home/ada/Documents/old-plan.txt",
        destination: "/home/ada/Documents/archive/old-plan.txt",
      },
      reason: "filesystem.move_file may change things",
    },
  ],
};

const DOT =
  "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAYAAABzenr0AAAAOElEQVR42u3WsQ0AIAwEsd8ngzEz04QpEJFwcb3LS62dlwUAYCKgLwcAAAAAAAAAADAf4IoB/gIcksaKirez1b0AAAAASUVORK5CYII=";
const resource = (uri: string, more: Partial<ResourceRow> = {}): ResourceRow => ({
  server: "filesystem",
  uri,
  template: false,
  name: uri,
  description: "",
  definition: { uri },
  ...more,
});

/** What can be read. */
export const resources: ResourceRow[] = [
  resource("file:///home/ada/Documents/notes.md", {
    name: "notes.md",
    title: "Notes",
    description: "Written every Sunday",
    mime: "text/markdown",
    size: 2048,
  }),
  resource("file:///home/ada/Documents/plan.png", { name: "plan.png", mime: "image/png", size: 113 }),
  resource("file:///home/ada/Documents/archive.zip", { name: "archive.zip", mime: "application/zip" }),
  resource("file:///home/ada/Documents/{year}/{letter}.md", {
    template: true,
    name: "letter",
    title: "A letter of a year",
    description: "Letters by year and name",
  }),
];

/** The result of reading one of them. */
export function contents(uri: string): { [key: string]: Json } {
  if (uri.endsWith(".png")) return { uri, mimeType: "image/png", blob: DOT };
  if (uri.endsWith(".zip"))
    return { uri, mimeType: "application/zip", blob: "UEsFBgAAAAAAAAAAAAAAAAAAAAAAAA==" };
  return { uri, mimeType: "text/markdown", text: `# Notes\n\nRead from ${uri}.` };
}

/** Prompts. */
export const prompts: PromptRow[] = [
  {
    server: "filesystem",
    name: "summarize",
    title: "Summarize a file",
    description: "Asks for the gist of one file in a few words",
    arguments: [
      { name: "file", description: "Which file", required: true },
      { name: "words", description: "How many words at most", required: false },
    ],
    definition: { name: "summarize" },
  },
  { server: "filesystem", name: "tidy", description: "", arguments: [], definition: { name: "tidy" } },
];

/** What a server says of itself. */
export const about: ServerAbout = {
  name: "secure-filesystem-server",
  version: "0.2.0",
  title: "Files",
  description: "Reads and writes files within folders that you name",
  website: "https://example.org/files",
  icon: `data:image/png;base64,${DOT}`,
  instructions: "List a folder before you read from it.\nPaths are absolute.",
  completes: true,
  resources: 4,
  prompts: 2,
};
