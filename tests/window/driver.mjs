// The real window, driven through WebDriver on Node's own fetch: start, find, click, type, wait, take pictures, end.
// Every wait has a bound and says what it waited for. It knows nothing of what the page shows; flows do.
//
//   import { open } from "./driver.mjs";
//   test("a server is added", async (t) => {
//     const window = await open(t, { environment: { EVI_HOME: home } });
//     await window.click(button("Add server"));
//     await window.type("input[name=command]", "npx");
//     await window.waitForText("14 tools");
//     await window.picture("servers");
//   });
//
// The window ends with the test. `close` ends it earlier, for a second start within one test.
// A locator is a CSS selector, or an XPath (begins with "/" or "("), or what button(), field() and text() give.

import { execFile, spawn } from "node:child_process";
import { mkdir, readdir, readFile, readlink, realpath, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);

/** How long a wait lasts when the caller sets no bound, in milliseconds. */
export const PATIENCE = 15_000;

const START_PATIENCE = 60_000;
const POLL = 50;
const ELEMENT_KEY = "element-6066-11e4-a52e-4f735466cecf";
const IDENTIFIER = "org.evi.desktop";
const session = fileURLToPath(new URL("../support/session/", import.meta.url));

// Errors that only say "not yet": the page was about to change, or something is still moving over the element.
const PASSING = new Set([
  "no such element",
  "stale element reference",
  "element not interactable",
  "element click intercepted",
  "detached shadow root",
]);

/** Keys for `press`, as WebDriver names them. */
export const Key = {
  Enter: "\uE007",
  Escape: "\uE00C",
  Tab: "\uE004",
  Backspace: "\uE003",
  Space: "\uE00D",
  Up: "\uE013",
  Down: "\uE015",
  Left: "\uE012",
  Right: "\uE014",
  Control: "\uE009",
  Shift: "\uE008",
  Alt: "\uE00A",
};

/** What the WebDriver answered instead of a result; `code` is WebDriver's error word. */
export class DriverError extends Error {
  constructor(code, message) {
    super(`${code}: ${message}`);
    this.code = code;
  }
}

/**
 * Polls `check` until it gives something truthy and returns that. A passing WebDriver error counts as "not yet".
 * After `within` milliseconds it fails with what was waited for and what stood in the way last.
 */
export async function until(what, check, within = PATIENCE) {
  const end = Date.now() + within;
  let last;
  for (;;) {
    try {
      const found = await check();
      if (found) return found;
      last = undefined;
    } catch (error) {
      if (!(error instanceof DriverError && PASSING.has(error.code))) throw error;
      last = error;
    }
    if (Date.now() > end) {
      const reason = last ? ` (last: ${last.message.split("\n")[0]})` : "";
      throw new Error(`waited ${within} ms for ${what}${reason}`);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL));
  }
}

/** A button, tab, menu entry, switch or link whose visible text or accessible label is exactly `label`. */
export function button(label) {
  const name = quoted(label);
  const kinds =
    "self::button or self::a or self::summary or @role='button' or @role='tab' or @role='menuitem' or @role='switch' or @role='option' or @role='link'";
  return `//*[${kinds}][normalize-space(.)=${name} or @aria-label=${name} or @title=${name}]`;
}

/** The input, select or text area with this label: a label around it, a label for it, or an accessible label. */
export function field(label) {
  const name = quoted(label);
  const kinds = "self::input or self::select or self::textarea or @role='combobox' or @role='switch' or @role='checkbox'";
  const labelled = `@id=//label[normalize-space(.)=${name} or .//*[normalize-space(.)=${name}] or text()[normalize-space(.)=${name}]]/@for`;
  return `//*[${kinds}][@aria-label=${name} or @placeholder=${name} or ${labelled} or ancestor::label[contains(normalize-space(.),${name})]]`;
}

/** The innermost element that contains `words`, inside `within` (an XPath) where one is given. */
export function text(words, within = "") {
  const holds = `contains(normalize-space(.),${quoted(words)})`;
  return `${within}//*[${holds} and not(self::script or self::style) and not(*[${holds}])]`;
}

function quoted(words) {
  if (!words.includes('"')) return `"${words}"`;
  if (!words.includes("'")) return `'${words}'`;
  return `concat("${words.split('"').join(`",'"',"`)}")`;
}

/**
 * Starts the application under its driver, waits until its page answers, and ends it after the test `t`.
 * `application`: absolute path, by default `$EVI_DESKTOP`. `environment`: added to this process's own.
 * `ready`: a locator that must be there before this returns, by default any element in the page's body.
 */
export async function open(t, { application = process.env.EVI_DESKTOP, args = [], environment = {}, ready = "body *" } = {}) {
  if (!application) throw new Error("no application: set EVI_DESKTOP or pass { application }");
  const program = await realpath(application);
  await applicationGone(program);
  const driver = await startDriver({ ...process.env, ...environment });
  let window;
  try {
    const options = { application: program, ...(args.length > 0 && { args }) };
    const capabilities = { alwaysMatch: { browserName: "wry", "tauri:options": options } };
    const answer = await driver.request("POST", "/session", { capabilities }, START_PATIENCE);
    window = new Window(driver, answer.sessionId, program);
    await window.request("POST", "/timeouts", { implicit: 0, script: PATIENCE, pageLoad: START_PATIENCE });
    await window.find(ready, START_PATIENCE);
    t.after(() => window.close());
    return window;
  } catch (error) {
    await (window ?? driver).close().catch(() => {});
    error.message += driver.log();
    throw error;
  }
}

/** One running application with its window. */
export class Window {
  #driver;
  #session;
  #open = true;

  constructor(driver, sessionId, program) {
    this.#driver = driver;
    this.#session = `/session/${sessionId}`;
    this.program = program;
  }

  /** One WebDriver command of this session; gives its `value`. */
  request(method, command, body, limit) {
    return this.#driver.request(method, this.#session + command, body, limit);
  }

  /** The first element that matches, as soon as there is one. */
  find(locator, within = PATIENCE) {
    return until(`${show(locator)}`, () => this.#element(locator), within);
  }

  /** All elements that match now. */
  async findAll(locator) {
    const elements = await this.request("POST", "/elements", strategy(locator));
    return elements.map((element) => new Element(this, element[ELEMENT_KEY]));
  }

  /** Waits until nothing matches. */
  waitGone(locator, within = PATIENCE) {
    return until(`${show(locator)} to go`, async () => (await this.findAll(locator)).length === 0, within);
  }

  /** Waits until the page, or what matches `locator`, shows `words`; gives the whole shown text. */
  waitForText(words, { locator = "body", within = PATIENCE } = {}) {
    let shown = "";
    const holds = async () => {
      shown = await (await this.#element(locator)).text();
      return words instanceof RegExp ? words.test(shown) : shown.includes(words);
    };
    return until(`the text ${words} in ${show(locator)}`, holds, within).then(
      () => shown,
      (error) => {
        error.message += `\nshown instead:\n${shown.slice(0, 2000)}`;
        throw error;
      },
    );
  }

  /** Clicks what matches, again and again until nothing is in its way; gives the element. */
  click(locator, within = PATIENCE) {
    return this.#act(locator, "clickable", within, (element) => element.click());
  }

  /** Replaces the content of an input by `words`. */
  type(locator, words, within = PATIENCE) {
    return this.#act(locator, "editable", within, async (element) => {
      await element.clear();
      await element.send(words);
    });
  }

  /** Presses keys, modifiers first: `press(Key.Control, "k")`. They go to what has the focus. */
  async press(...keys) {
    const actions = keys.map((value) => ({ type: "keyDown", value }));
    actions.push(...keys.toReversed().map((value) => ({ type: "keyUp", value })));
    await this.request("POST", "/actions", { actions: [{ type: "key", id: "keyboard", actions }] });
  }

  /** The visible text of what matches. */
  async text(locator = "body", within = PATIENCE) {
    return (await this.find(locator, within)).text();
  }

  /** Runs a function, or the body of one, in the page; its result must be JSON. A promise is waited for. */
  async script(code, ...values) {
    const call = typeof code === "function" ? `return (${code}).apply(null, arguments)` : code;
    const script = `const done = arguments[arguments.length - 1];
      const values = Array.prototype.slice.call(arguments, 0, -1);
      Promise.resolve().then(() => (function () { ${call} }).apply(null, values))
        .then((value) => done({ value }), (error) => done({ error: String(error) }));`;
    const answer = await this.request("POST", "/execute/async", { script, args: values }, PATIENCE + 5_000);
    if (answer?.error) throw new Error(`in the page: ${answer.error}`);
    return answer?.value;
  }

  /** Waits until the page is drawn as it will stay: fonts there, animations over, the pointer's traces gone. */
  async settle() {
    await this.script(async () => {
      await document.fonts.ready;
      const moving = document.getAnimations().filter((one) => one.effect?.getComputedTiming().iterations !== Infinity);
      await Promise.allSettled(moving.map((one) => one.finished));
      const drawn = () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      await drawn();
      await drawn();
    });
  }

  /** Writes what the page shows as PNG to `file` (absolute) and gives that path. */
  async screenshot(file) {
    await this.settle();
    const encoded = await this.request("GET", "/screenshot");
    await mkdir(path.dirname(file), { recursive: true });
    await writeFile(file, Buffer.from(encoded, "base64"));
    return file;
  }

  /** A picture named `name` in `$EVI_PICTURES`; without that variable none is taken. */
  async picture(name) {
    const folder = process.env.EVI_PICTURES;
    if (!folder) return undefined;
    const file = await this.screenshot(path.join(folder, `${name}.png`));
    // A page is flat colour and text: a palette is enough, and the file is a third of what it was.
    await run("convert", [file, "-strip", "-dither", "None", "-colors", "200", `PNG8:${file}`]).catch((error) => {
      if (error.code !== "ENOENT") throw error;
    });
    return file;
  }

  /** Gives the window this inner size in CSS pixels. */
  async resize(width, height) {
    await this.request("POST", "/window/rect", { width, height });
  }

  /** Quits as a person does, by the tray, and waits until the application is gone. */
  async quit() {
    await tray.click("Quit eVi");
    await applicationGone(this.program);
    await this.close();
  }

  /** Ends the session and waits until the application is gone, so that the next start meets no dying instance. */
  async close() {
    if (!this.#open) return;
    this.#open = false;
    // The application may have ended by itself, and with it the session.
    await this.request("DELETE", "", undefined, PATIENCE).catch(() => {});
    await this.#driver.close();
    // Without its window the application lives on in the tray.
    for (const pid of await processesOf(this.program)) process.kill(pid, "SIGTERM");
    await applicationGone(this.program);
  }

  async #element(locator) {
    if (locator instanceof Element) return locator;
    const element = await this.request("POST", "/element", strategy(locator));
    return new Element(this, element[ELEMENT_KEY]);
  }

  #act(locator, what, within, action) {
    const attempt = async () => {
      const element = await this.#element(locator);
      await action(element);
      return element;
    };
    return until(`${show(locator)} to be ${what}`, attempt, within);
  }
}

/** One element of the page, valid until the page replaces it. */
export class Element {
  #window;
  #command;

  constructor(window, id) {
    this.#window = window;
    this.#command = `/element/${id}`;
    // The form in which a script takes it as a value.
    this[ELEMENT_KEY] = id;
  }

  click() {
    return this.#window.request("POST", `${this.#command}/click`, {});
  }

  clear() {
    return this.#window.request("POST", `${this.#command}/clear`, {});
  }

  send(words) {
    return this.#window.request("POST", `${this.#command}/value`, { text: words });
  }

  /** What it shows, as the page itself tells it: WebDriver's own way leaves out every text that may be cut off. */
  text() {
    return this.property("innerText");
  }

  attribute(name) {
    return this.#window.request("GET", `${this.#command}/attribute/${name}`);
  }

  property(name) {
    return this.#window.request("GET", `${this.#command}/property/${name}`);
  }

  isEnabled() {
    return this.#window.request("GET", `${this.#command}/enabled`);
  }

  isShown() {
    return this.#window.request("GET", `${this.#command}/displayed`);
  }
}

/** The tray's menu, through the session's bus. */
export const tray = {
  /** The entries: `{ id, label, enabled, toggle, checked, depth }`. */
  async list() {
    const { stdout } = await run("/usr/bin/python3", [path.join(session, "tray.py"), "list"], { timeout: PATIENCE });
    return stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  },
  /** Clicks the entry with exactly this label. */
  async click(label) {
    await run("/usr/bin/python3", [path.join(session, "tray.py"), "click", label], { timeout: PATIENCE });
  },
  /** Waits until an entry with this label satisfies `holds`. */
  waitFor(label, holds = () => true, within = PATIENCE) {
    const found = async () => (await tray.list()).find((entry) => entry.label === label && holds(entry));
    return until(`the tray entry ${label}`, found, within);
  },
};

/** Processes of this session that run `program`, as numbers. */
export async function processesOf(program) {
  const found = [];
  for (const entry of await readdir("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    const isOurs = await readlink(`/proc/${entry}/exe`).then((exe) => exe === program, () => false);
    if (isOurs && (await isInSession(entry))) found.push(Number(entry));
  }
  return found;
}

/** The command lines of this session's processes, by process id. */
export async function commandLines() {
  const found = new Map();
  for (const entry of await readdir("/proc")) {
    if (!/^\d+$/.test(entry) || !(await isInSession(entry))) continue;
    const line = await readFile(`/proc/${entry}/cmdline`, "utf8").catch(() => "");
    if (line) found.set(Number(entry), line.split("\0").slice(0, -1));
  }
  return found;
}

async function isInSession(pid) {
  const wanted = process.env.EVI_SESSION_DIR;
  if (!wanted) return true;
  const environment = await readFile(`/proc/${pid}/environ`, "utf8").catch(() => "");
  return environment.split("\0").includes(`EVI_SESSION_DIR=${wanted}`);
}

/** Waits until no instance runs and the single-instance name is free on the bus; a stuck one is killed and reported. */
export async function applicationGone(program, within = PATIENCE) {
  const gone = async () => (await processesOf(program)).length === 0 && !(await hasOwner(`${IDENTIFIER}.SingleInstance`));
  try {
    await until(`${program} to end`, gone, within);
  } catch (error) {
    for (const pid of await processesOf(program)) process.kill(pid, "SIGKILL");
    throw error;
  }
}

async function hasOwner(name) {
  if (!process.env.DBUS_SESSION_BUS_ADDRESS) return false;
  const bus = ["--session", "--print-reply=literal", "--dest=org.freedesktop.DBus", "/org/freedesktop/DBus"];
  const call = [...bus, "org.freedesktop.DBus.NameHasOwner", `string:${name}`];
  const { stdout } = await run("dbus-send", call, { timeout: PATIENCE });
  return stdout.includes("true");
}

function strategy(locator) {
  if (typeof locator !== "string") throw new Error(`not a locator: ${locator}`);
  const using = /^[/(]/.test(locator) ? "xpath" : "css selector";
  return { using, value: locator };
}

function show(locator) {
  return typeof locator === "string" ? locator : "that element";
}

/** Starts tauri-driver on free ports and waits until it takes sessions. */
async function startDriver(environment) {
  const program = process.env.EVI_TAURI_DRIVER ?? "tauri-driver";
  const [port, nativePort] = await freePorts(2);
  const native = process.env.EVI_NATIVE_DRIVER ?? "/usr/bin/WebKitWebDriver";
  const options = ["--port", String(port), "--native-port", String(nativePort), "--native-driver", native];
  const child = spawn(program, options, { env: environment, stdio: ["ignore", "pipe", "pipe"] });
  let lines = "";
  const keep = (chunk) => (lines = (lines + chunk).slice(-4_000));
  child.stdout.on("data", keep);
  child.stderr.on("data", keep);
  let ended;
  const end = new Promise((resolve) => {
    child.on("error", (error) => resolve((ended = error.message)));
    child.on("exit", (code, signal) => resolve((ended = `ended with ${signal ?? code}`)));
  });

  const driver = {
    log: () => (lines ? `\nthe driver and the application printed last:\n${lines}` : ""),
    async request(method, command, body, limit = PATIENCE) {
      const answer = await fetch(`http://127.0.0.1:${port}${command}`, {
        method,
        ...(body !== undefined && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
        signal: AbortSignal.timeout(limit),
      }).catch((error) => {
        throw new Error(`${method} ${command}: ${error.cause?.message ?? error.message}${driver.log()}`);
      });
      const { value } = await answer.json();
      if (!answer.ok) throw new DriverError(value?.error ?? String(answer.status), value?.message ?? "");
      return value;
    },
    async close() {
      if (ended === undefined) child.kill("SIGTERM");
      const force = setTimeout(() => child.kill("SIGKILL"), 5_000);
      await end;
      clearTimeout(force);
    },
  };

  const answers = async () => {
    if (ended !== undefined) throw new Error(`${program} ${ended}${driver.log()}`);
    return fetch(`http://127.0.0.1:${port}/status`, { signal: AbortSignal.timeout(2_000) }).then(
      (answer) => answer.ok,
      () => false,
    );
  };
  try {
    await until(`${program} to answer`, answers);
  } catch (error) {
    await driver.close();
    throw error;
  }
  return driver;
}

/** Ports that were free a moment ago, held open together so that they differ. */
async function freePorts(count) {
  const servers = await Promise.all(
    Array.from({ length: count }, () => {
      const server = createServer();
      return new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen(0, "127.0.0.1", () => resolve(server));
      });
    }),
  );
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
