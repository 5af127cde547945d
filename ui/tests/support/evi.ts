// Starts the real `evi web` with a home of its own for one test, and opens its page. Fails the test on any error the page logs.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { homedir, tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import AxeBuilder from "@axe-core/playwright";
import { test as base, expect, type Page } from "@playwright/test";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
/** The program under test. */
const BIN = process.env["EVI_BIN"] ?? path.join(ROOT, "target/debug/evi");
/** Where the reference servers are installed. */
const PEERS =
  process.env["EVI_PEER_SERVERS"] ?? path.join(homedir(), ".cache/evi-dev/peers/servers/node_modules");

/** One `evi web` and its home. */
export class Evi {
  /** The page's link with its token. */
  link = "";
  #process: ChildProcess | undefined;
  #errors = "";

  private constructor(
    /** EVI_HOME. */
    readonly home: string,
    /** A folder with `letters/` and `notes.md` for servers to look into. */
    readonly folder: string,
  ) {}

  static async make(): Promise<Evi> {
    const place = await realpath(await mkdtemp(path.join(tmpdir(), "evi-ui-")));
    const evi = new Evi(path.join(place, "home"), path.join(place, "files"));
    await mkdir(evi.home);
    await mkdir(path.join(evi.folder, "letters"), { recursive: true });
    await writeFile(path.join(evi.folder, "notes.md"), "# Notes\n");
    return evi;
  }

  /** Writes a file of the home. */
  async write(name: string, text: string): Promise<void> {
    await writeFile(path.join(this.home, name), text);
  }

  /** Reads a file of the home. */
  async read(name: string): Promise<string> {
    return readFile(path.join(this.home, name), "utf8");
  }

  /** Runs `evi` at this home. */
  async run(...args: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(BIN, args, { env: this.#env(), timeout: 30_000 });
    return stdout;
  }

  /** A command line that starts the reference server for files. */
  get filesystem(): string {
    return `node ${path.join(PEERS, "@modelcontextprotocol/server-filesystem/dist/index.js")} ${this.folder}`;
  }

  /** A command line that starts the reference server with everything. */
  get everything(): string {
    return `node ${path.join(PEERS, "@modelcontextprotocol/server-everything/dist/index.js")}`;
  }

  #env() {
    return { ...process.env, EVI_HOME: this.home };
  }

  async start(): Promise<void> {
    const child = spawn(BIN, ["web", "--port", "0"], { env: this.#env(), stdio: ["ignore", "pipe", "pipe"] });
    this.#process = child;
    child.stderr.on("data", (data: Buffer) => (this.#errors += data.toString()));
    const lines = createInterface({ input: child.stdout });
    this.link = await new Promise<string>((resolve, reject) => {
      const give = (why: string) => reject(new Error(`${BIN} web ${why}\n${this.#errors}`));
      const timer = setTimeout(() => give("printed no link in 20 s"), 20_000);
      lines.on("line", (line) => {
        const link = /https?:\/\/\S+/.exec(line)?.[0];
        if (!link) return;
        clearTimeout(timer);
        resolve(link);
      });
      child.on("error", (error) => give(`did not start: ${error.message}`));
      child.on("exit", (code) => give(`ended with ${code}`));
    });
  }

  async stop(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (!child || child.exitCode !== null) return;
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), 15_000);
    await once(child, "exit");
    clearTimeout(timer);
  }

  async remove(): Promise<void> {
    await this.stop();
    await rm(path.dirname(this.home), { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A free port of this machine. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

interface Fixtures {
  /** A home with nothing in it; `start` is for the test. */
  place: Evi;
  /** A running `evi web` with nothing set up. */
  evi: Evi;
}

/** Tests with eVi. */
export const test = base.extend<Fixtures>({
  // eslint-disable-next-line no-empty-pattern -- Playwright reads the names of what a fixture needs out of this pattern.
  place: async ({}, use) => {
    const evi = await Evi.make();
    await use(evi);
    await evi.remove();
  },
  evi: async ({ place }, use) => {
    await place.start();
    await use(place);
  },
  page: async ({ page }, use) => {
    const errors: string[] = [];
    page.on("pageerror", (error) => errors.push(`${error.message}\n${error.stack ?? ""}`));
    page.on("console", (message) => {
      // A refused command is an answer, which Chromium writes down as a failure to load.
      if (message.type() === "error" && !/Failed to load resource/.test(message.text()))
        errors.push(message.text());
    });
    // The desktop's webview does the same to its page.
    await page.addInitScript(() => Object.freeze(Object.prototype));
    await use(page);
    expect(errors, "errors of the page").toEqual([]);
  },
});
export { expect };

/** Opens the page; `hash` is where. */
export async function open(page: Page, evi: Evi, hash = ""): Promise<void> {
  await page.goto(evi.link);
  await expect(page.getByRole("navigation", { name: "Sections" })).toBeVisible();
  // The token goes from the address into the tab.
  await expect.poll(() => page.url()).not.toContain("token=");
  if (hash !== "") await go(page, hash);
}

/** Goes to a place in the page. */
export async function go(page: Page, hash: string): Promise<void> {
  await page.evaluate((to) => (location.hash = to), hash);
}

/** Adds a server by pasting, as a person does, and waits until it is ready. */
export async function addServer(page: Page, command: string, name: string): Promise<void> {
  await go(page, "#/servers?add=1");
  await page.getByLabel("Paste a command, an address or a settings block").fill(command);
  await expect(page.getByLabel("Command", { exact: true })).not.toHaveValue("");
  await page.getByLabel("Name", { exact: true }).fill(name);
  await page.getByRole("button", { name: "Save and start" }).click();
  await expect(stage(page, "discovery", "done")).toBeVisible();
}

/** A step of a server. */
export function stage(page: Page, kind: string, state: string) {
  return page.locator(`[data-stage="${kind}"][data-state="${state}"]`);
}

/** A server's row in the list. */
export function serverRow(page: Page, name: string) {
  return page
    .getByRole("region", { name: "Servers", exact: true })
    .getByRole("listitem")
    .filter({ hasText: name });
}

/** Looks with axe for what keeps people out, in both themes; `without` names rules that do not fit. */
export async function accessible(page: Page, what: string, without: string[] = []): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await expect(page.locator(`html[data-theme=${colorScheme}]`)).toBeAttached();
    const { violations } = await new AxeBuilder({ page })
      .withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"])
      .disableRules(without)
      .analyze();
    const found = violations.flatMap((violation) =>
      violation.nodes.map(
        (node) => `${violation.id}: ${node.target.join(" ")}\n${node.failureSummary ?? ""}`,
      ),
    );
    expect(found, `${what}, ${colorScheme}`).toEqual([]);
  }
}
