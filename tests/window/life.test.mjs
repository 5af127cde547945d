// The life of the desktop application as the system sees it: one instance, a window that frees its webview when it is
// closed to the tray, an end that leaves no process, and a start right after an end. No WebDriver here, because a
// driver would keep the webview alive.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";

import { applicationGone, processesOf, tray, until } from "./driver.mjs";
import { evi, filesystemServers, makeHome, processesAt, run, serveClient, step } from "./place.mjs";

test("the application starts once, closes to the tray and ends without a trace", async (t) => {
  const place = await makeHome(t);
  place.ends.push(() => applicationGone(place.desktop, 1_000).catch(() => {}));
  const added = ["mcp", "add", "filesystem", "npx", "--", "-y", "@modelcontextprotocol/server-filesystem", place.folder];
  assert.equal((await evi(place, ...added)).code, 0);
  const shared = 'categories = ["memory"]\nservers = [{ name = "filesystem", mode = "ask" }]';
  await writeFile(path.join(place.home, "config.toml"), `[tools]\nmcp = true\n\n[serve.profiles.default]\n${shared}\n`);
  let first;

  await step(t, "a start shows its window", async () => {
    first = start();
    await windowShown();
    await webviews((count) => count > 0);
    await until("its server to run", async () => (await filesystemServers()) === 1, 30_000);
  });

  await step(t, "a second start brings the first one's window to the front and ends", async () => {
    const [window] = await windows();
    await run("xdotool", ["windowminimize", window]);
    await until("the window to be minimised", async () => (await windows()).length === 0);
    const second = start();
    assert.equal(await second.ended, 0);
    await windowShown();
    assert.deepEqual(await processesOf(place.desktop), [first.pid]);
    assert.equal(await filesystemServers(), 1);
  });

  await step(t, "closing the window frees the webview and leaves the tray, which brings it back", async () => {
    await closeWindow();
    await webviews((count) => count === 0);
    assert.deepEqual(await processesOf(place.desktop), [first.pid]);
    assert.equal(await filesystemServers(), 1);
    await tray.click("Open eVi");
    await windowShown();
    await webviews((count) => count > 0);
    assert.equal((await windows()).length, 1);
  });

  await step(t, "the gateway is switched in the tray while no window is open", async () => {
    await closeWindow();
    await webviews((count) => count === 0);
    await tray.click("Gateway");
    const running = await until("the gateway to run", async () =>
      (await tray.list()).find((entry) => /^(Serving at|Not serving)/.test(entry.label)),
    );
    if (running.label.startsWith("Serving")) {
      const address = running.label.replace("Serving at ", "");
      assert.equal((await fetch(address, { method: "POST", body: "{}" })).status, 401);
    }
    await tray.click("Gateway");
    await tray.waitFor("Gateway is off");
  });

  await step(t, "a call that waits for the person opens the window", async () => {
    const client = serveClient(place);
    await client.start();
    const params = { name: "filesystem.list_directory", arguments: { path: place.folder } };
    client.ask("tools/call", params).catch(() => {});
    await windowShown();
    await client.end();
  });

  await step(t, "Quit leaves no process, and a start right after it is a new start", async () => {
    await tray.click("Quit eVi");
    const next = start();
    assert.equal(await first.ended, 0);
    await windowShown();
    await until("the server to run again", async () => (await filesystemServers()) === 1, 30_000);
    assert.deepEqual(await processesOf(place.desktop), [next.pid]);
    first = next;
  });

  await step(t, "after it was killed the next start finds nothing in its way", async () => {
    process.kill(first.pid, "SIGKILL");
    await first.ended;
    await until("its server to end", async () => (await filesystemServers()) === 0);
    first = start();
    await windowShown();
    await until("the server to run again", async () => (await filesystemServers()) === 1, 30_000);
  });

  await step(t, "the end of the session ends it in order", async () => {
    process.kill(first.pid, "SIGTERM");
    assert.equal(await first.ended, 0);
    const left = async () => [...(await processesAt(place)).values()].map((words) => words.join(" "));
    await until("everything that it started to end", async () => (await left()).length === 0).catch(async (error) => {
      error.message += `\nstill there: ${(await left()).join("; ")}`;
      throw error;
    });
  });

  function start() {
    const child = spawn(place.desktop, [], {
      env: { ...process.env, ...place.environment },
      cwd: place.root,
      stdio: "ignore",
    });
    const ended = new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error("the application did not end within 120 s")), 120_000);
      child.on("exit", (code, signal) => {
        clearTimeout(late);
        resolve(code ?? signal);
      });
      late.unref();
    });
    ended.catch(() => {});
    place.ends.push(() => child.kill("SIGKILL"));
    return { pid: child.pid, ended };
  }

  /** The visible windows of the application. */
  async function windows() {
    const { stdout } = await run("xdotool", ["search", "--onlyvisible", "--name", "^eVi$|· eVi$"]);
    return stdout.split("\n").filter(Boolean);
  }

  async function windowShown() {
    await until("the window", async () => {
      const [window] = await windows();
      if (!window) return false;
      const { stdout } = await run("xdotool", ["getactivewindow"]);
      return stdout.trim() === window;
    }, 30_000);
  }

  async function closeWindow() {
    await run("xdotool", ["key", "--clearmodifiers", "alt+F4"]);
    await until("the window to close", async () => (await windows()).length === 0);
  }

  async function webviews(holds) {
    await until("the webview's processes to come or go", async () => {
      const lines = [...(await processesAt(place)).values()];
      return holds(lines.filter(([program]) => program.endsWith("WebKitWebProcess")).length);
    });
  }
});
