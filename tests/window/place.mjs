// Where a flow of the real window plays: a person's home folder with real files, the programs around the window (the
// command `evi`, MCP Inspector, the model emulator), and the steps of a flow. It asserts nothing.

import { execFile, spawn } from "node:child_process";
import { copyFile, link, mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";

import { commandLines, open, until } from "./driver.mjs";

/** A person's home, removed after the test `t`. */
export async function makeHome(t) {
  const root = await makeRoot();
  // Whoever works in the home is ended first, the last one before the others.
  const ends = [];
  t.after(async () => {
    const failures = [];
    const keep = (error) => failures.push(error);
    for (const end of ends.toReversed()) await Promise.resolve().then(end).catch(keep);
    await rm(root, { recursive: true, force: true, maxRetries: 3 }).catch(keep);
    if (failures.length > 0) throw failures[0];
  });
  const folder = path.join(root, "Documents");
  for (const name of ["letters", "taxes"]) await mkdir(path.join(folder, name), { recursive: true });
  await writeFile(path.join(folder, "notes.md"), "# Notes\n\nBread, coffee, a birthday card.\n");
  await writeFile(path.join(folder, "plan.txt"), "First the garden, then the roof.\n");
  // The real npx takes what lies in the working folder's node_modules before it asks any registry.
  await symlink(needed("EVI_PEER_SERVERS"), path.join(root, "node_modules"));
  const home = path.join(root, ".evi");
  const programs = path.join(root, ".local/bin");
  await mkdir(programs, { recursive: true });
  const bin = await install(needed("EVI_BIN"), path.join(programs, "evi"));
  const desktop = await install(needed("EVI_DESKTOP"), path.join(programs, "evi-desktop"));
  // … and with this it asks none for a newer npm either.
  const settings = { npm_config_update_notifier: "false", npm_config_audit: "false", npm_config_fund: "false" };
  // No more folders than a person without developers' tools has, because messages show where was searched.
  const folders = new Set([path.dirname(process.execPath), "/usr/local/bin", "/usr/bin", "/bin"]);
  const person = { HOME: root, EVI_HOME: home, PATH: [...folders].join(":") };
  // The webview keeps the look there, and one flow's must not be another's.
  const kept = { XDG_DATA_HOME: ".local/share", XDG_CONFIG_HOME: ".config", XDG_CACHE_HOME: ".cache" };
  for (const [name, folder] of Object.entries(kept)) person[name] = path.join(root, folder);
  const environment = { ...person, ...settings };
  return { root, home, folder, bin, desktop, environment, ends };
}

/** A short name, because pictures show it; another one where that is taken. */
async function makeRoot() {
  const short = path.join(tmpdir(), "ada");
  return mkdir(short).then(
    () => short,
    () => mkdtemp(`${short}-`),
  );
}

/** Puts a program where a person has it: what the page shows of it is no path of a build. */
async function install(program, to) {
  await link(program, to).catch(() => copyFile(program, to));
  return to;
}

/** The value of a variable that the test stage sets. */
export function needed(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set; run: cargo xtask test window`);
  return value;
}

/** Opens the window over this home. */
export async function openHome(t, place, options = {}) {
  const window = await open(t, { application: place.desktop, ready: "nav a", environment: place.environment, ...options });
  place.ends.push(() => window.close());
  return window;
}

/** Processes that were started with this home, by process id: the application's own and all that it started. */
export async function processesAt(place) {
  const found = new Map();
  for (const [pid, words] of await commandLines()) {
    const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
    if (environment.split("\0").includes(`EVI_HOME=${place.home}`)) found.set(pid, words);
  }
  return found;
}

/** Calls a command of the application through the window's own channel. */
export function call(window, command, params = {}) {
  return window.script(
    (command, params) =>
      window.__TAURI_INTERNALS__.invoke("call", { command, params }).catch((problem) => {
        throw new Error(typeof problem === "string" ? problem : JSON.stringify(problem));
      }),
    command,
    params,
  );
}

/** Goes to a place of the page by its address: `goTo(window, "tools/remember")`. */
export async function goTo(window, place) {
  await window.script((hash) => void (location.hash = hash), `#/${place}`);
}

/** Runs a program to its end: `{ code, stdout, stderr }`, whatever the code. */
export function run(program, args, { env = {}, within = 30_000, ...options } = {}) {
  return new Promise((resolve, reject) => {
    const settings = { env: { ...process.env, ...env }, timeout: within, maxBuffer: 16 << 20, ...options };
    execFile(program, args, settings, (error, stdout, stderr) => {
      if (error && typeof error.code !== "number") {
        const why = error.killed ? `did not end within ${within} ms` : error.message;
        reject(new Error(`${program} ${args.join(" ")}: ${why}\n${stdout}${stderr}`));
      } else resolve({ code: error ? error.code : 0, stdout, stderr });
    });
  });
}

/** The command `evi` in this home. */
export function evi(place, ...args) {
  return run(place.bin, args, { env: place.environment, cwd: place.root });
}

/** MCP Inspector's command line against an endpoint; gives its JSON. */
export async function inspect(url, token, ...args) {
  const options = ["--cli", url, "--transport", "http", "--header", `Authorization: Bearer ${token}`, ...args];
  const { code, stdout, stderr } = await run(needed("EVI_PEER_NODE24"), [needed("EVI_PEER_INSPECTOR"), ...options]);
  if (code !== 0) throw new Error(`MCP Inspector ended with ${code}\n${stdout}${stderr}`);
  return JSON.parse(stdout);
}

/** An MCP client over the standard input and output of `evi mcp serve`, as a desktop application starts it. */
export function serveClient(place, ...args) {
  const child = spawn(place.bin, ["mcp", "serve", ...args], {
    env: { ...process.env, ...place.environment },
    cwd: place.root,
    stdio: ["pipe", "pipe", "pipe"],
  });
  const waiting = new Map();
  const notices = [];
  let stderr = "";
  let rest = "";
  let ended = false;
  child.stderr.on("data", (chunk) => (stderr = (stderr + chunk).slice(-4_000)));
  child.stdin.on("error", () => {});
  child.on("exit", () => (ended = true));
  child.stdout.on("data", (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    for (const line of lines.filter(Boolean)) {
      const message = JSON.parse(line);
      if (message.id !== undefined && !message.method) {
        waiting.get(message.id)?.(message);
        waiting.delete(message.id);
      } else notices.push(message.method);
    }
  });
  const send = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  let next = 1;
  const client = {
    child,
    notices,
    /** One request; gives the whole answer. */
    ask(method, params = {}, within = 20_000) {
      const id = next++;
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`no answer to ${method} in ${within} ms\n${stderr}`)), within);
        waiting.set(id, (message) => {
          clearTimeout(timer);
          resolve(message);
        });
        send({ id, method, params });
      });
    },
    /** The names of the tools that it sees. */
    async tools() {
      return (await client.ask("tools/list")).result.tools.map((tool) => tool.name);
    },
    async start() {
      const clientInfo = { name: "a desktop application", version: "1.0" };
      const answer = await client.ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
      send({ method: "notifications/initialized" });
      return answer.result;
    },
    async end() {
      child.stdin.end();
      await until("evi mcp serve to end", () => ended);
    },
  };
  place.ends.push(() => child.kill("SIGKILL"));
  return client;
}

/** A server of the test's own on this port; any free one without. Ends with the test. */
export async function listenOn(t, port = 0) {
  const server = createServer((socket) => socket.destroy());
  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  const close = () => new Promise((resolve) => server.close(resolve));
  t.after(close);
  return { port: server.address().port, close };
}

/** How many filesystem servers run in this session; what npx starts around one does not count. */
export async function filesystemServers() {
  const lines = [...(await commandLines()).values()];
  return lines.filter((words) => words[1]?.endsWith(".bin/mcp-server-filesystem")).length;
}

/** The ports that a process listens on. */
export async function portsOf(pid) {
  const sockets = new Set();
  for (const name of await readdir(`/proc/${pid}/fd`)) {
    const target = await readlink(`/proc/${pid}/fd/${name}`).catch(() => "");
    const inode = /^socket:\[(\d+)\]$/.exec(target)?.[1];
    if (inode) sockets.add(inode);
  }
  const ports = [];
  for (const table of ["tcp", "tcp6"]) {
    const lines = (await readFile(`/proc/net/${table}`, "utf8").catch(() => "")).split("\n").slice(1);
    for (const line of lines) {
      const words = line.trim().split(/\s+/);
      if (words[3] === "0A" && sockets.has(words[9])) ports.push(Number.parseInt(words[1].split(":").at(-1), 16));
    }
  }
  return ports;
}

/** POSTs one MCP request with these headers as they are; gives status and headers. */
export function post(url, headers) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
  const all = { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: "POST", headers: all, timeout: 5_000 }, (answer) => {
      answer.resume();
      answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** Whether something accepts connections on this port. */
export async function isServed(port) {
  return fetch(`http://127.0.0.1:${port}/mcp`, { signal: AbortSignal.timeout(5_000) }).then(
    () => true,
    () => false,
  );
}

/** The model emulator with these fixtures; gives its base URL. Ends with the test. */
export async function startEmulator(t, place, fixtures) {
  const file = path.join(place.root, "fixtures.json");
  await writeFile(file, JSON.stringify({ fixtures }));
  const { port, close } = await listenOn(t);
  await close();
  const program = path.join(needed("EVI_PEER_SERVERS"), ".bin/llmock");
  const child = spawn(process.execPath, [program, "-p", String(port), "-f", file, "--strict"], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said = (said + chunk).slice(-4_000)));
  place.ends.push(() => child.kill("SIGTERM"));
  await until(`the model emulator to answer on ${port}`, async () => {
    if (child.exitCode !== null) throw new Error(`the model emulator ended with ${child.exitCode}: ${said}`);
    return fetch(`http://127.0.0.1:${port}/health`).then(() => true, () => false);
  });
  return `http://127.0.0.1:${port}/v1`;
}

/**
 * One step of a flow, shown as a subtest; the first that fails ends the flow, with a picture of what the window shows.
 * `window` gives the window that is open at that time.
 */
export async function step(t, name, body, window) {
  let failure;
  await t.test(name, async (t) => {
    try {
      await body(t);
    } catch (error) {
      failure = error;
      const file = path.join(process.env.EVI_CACHE ?? tmpdir(), "failures", `${name.replaceAll(/\W+/g, "-")}.png`);
      const taken = await window?.()?.screenshot(file).catch(() => undefined);
      if (taken) error.message += `\nthe window then: ${taken}`;
      throw error;
    }
  });
  if (failure) throw new Error(`the flow ends at: ${name}`);
}
