// Chat in the real window: without a model a tool is called all the same; with one, its call waits for the person, an
// answer streams, Stop ends it, the key is in the keychain and nowhere else, and all of it outlives the application.

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";

import { button, field, Key, until } from "./driver.mjs";
import { call, goTo, makeHome, openHome, run, startEmulator, step } from "./place.mjs";

const KEY = "sk-window-4d1f0c9a7b";

test("a person chats, and the model's calls wait for a yes", async (t) => {
  const place = await makeHome(t);
  const asked = `list the files in ${place.folder}`;
  const story = Array.from({ length: 400 }, (_, i) => `On day ${i + 1} the garden grew a little.`).join(" ");
  const list = { name: "filesystem__list_directory", arguments: JSON.stringify({ path: place.folder }) };
  const base = await startEmulator(t, place, [
    {
      match: { userMessage: asked, hasToolResult: true, toolResultContains: "[DIR] letters" },
      response: {
        content:
          "Your folder holds **two folders** and **two files**:\n\n| Name | Kind |\n|---|---|\n| letters | folder |\n| taxes | folder |\n| notes.md | file |\n| plan.txt | file |\n",
      },
    },
    {
      match: { userMessage: asked, hasToolResult: true },
      response: { content: "I could not look: the call was denied." },
    },
    { match: { userMessage: asked }, response: { content: "I look into the folder.", toolCalls: [list] } },
    { match: { userMessage: "a story" }, latency: 100, response: { content: story } },
  ]);
  let window = await openHome(t, place);
  const go = (name, body) => step(t, name, body, () => window);
  const row = (state) => `[data-call="filesystem.list_directory"][data-state="${state}"]`;
  const say = async (words) => {
    await window.type("textarea[aria-label=Message]", words);
    await window.press(Key.Enter);
  };

  await go("without a model the page says what to do", async () => {
    const draft = {
      name: "filesystem",
      transport: "stdio",
      command: "npx",
      args: ["-y", "@modelcontextprotocol/server-filesystem", place.folder],
      url: "",
      env: [],
      headers: [],
    };
    await call(window, "upstream_add", { draft, enabled: true, overwrite: false, turn_on_mcp: true });
    const ready = async () => (await call(window, "upstream_get", { name: "filesystem" })).state === "ready";
    await until("the server to be ready", ready, 30_000);
    await window.click(`//nav//a[contains(.,"Chat")]`);
    await window.waitForText("Choose a model to chat with");
    await window.waitForText("/call filesystem.list_directory");
    await window.picture("20-chat-without-a-model");
  });

  await go("a tool is called without a model", async () => {
    await say(`/call filesystem.list_directory path=${place.folder}`);
    await window.find(row("ok"));
    // The result of one's own call is open by itself.
    await window.waitForText("[FILE] notes.md", { locator: row("ok") });
    await window.picture("21-call-without-a-model");
    await say("hello");
    await window.waitForText(/No model is set up/);
  });

  await go("a model is named, and its key goes into the keychain and into no file", async () => {
    await goTo(window, "settings");
    await window.type(field("Base URL"), base);
    await window.type(field("Model"), "garden-small");
    await window.type(field("Key"), KEY);
    await window.click(button("Save"));
    await until("the model to be saved", async () => (await call(window, "settings_get")).model === "garden-small");
    await window.waitForText("A key is in the keychain");
    await window.picture("22-model");
    const kept = await run("secret-tool", ["search", "--all", "service", "evi"]);
    assert.ok(`${kept.stdout}${kept.stderr}`.includes(KEY), "the keychain has the key");
    assert.deepEqual(await filesWith(place.home, KEY), []);
    const page = await window.script(() => document.documentElement.outerHTML);
    assert.ok(!page.includes(KEY), "the page does not have the key");
  });

  await go("the model's call waits with its server, tool and exact arguments", async () => {
    await goTo(window, "chat?new=1");
    await say(asked);
    const waiting = await window.waitForText(/Allow once/, { locator: row("waiting"), within: 30_000 });
    assert.match(waiting, /filesystem\.list_directory on the server filesystem/);
    assert.ok(waiting.includes(JSON.stringify({ path: place.folder }, null, 2)), waiting);
    await window.waitForText("I look into the folder.");
    await window.picture("23-a-call-waits");
    const calls = (await call(window, "activity_list")).filter((one) => one.caller === "chat");
    assert.ok(!calls.some((one) => one.outcome === "ok"), JSON.stringify(calls));
  });

  await go("a denied call does not run, and the model is told", async () => {
    await window.click("//button[starts-with(normalize-space(.),'Deny')]");
    await window.find(row("denied"));
    await window.waitForText("I could not look: the call was denied.");
  });

  await go("an allowed call runs, and its result is in the answer", async () => {
    await say(asked);
    await window.find(row("waiting"));
    await window.click("//button[starts-with(normalize-space(.),'Allow once')]");
    await window.find(row("ok"));
    await window.waitForText("Your folder holds two folders and two files");
    await window.waitGone("button[aria-label=Stop]");
    await window.picture("24-answer");
  });

  await go("Stop ends a stream", async () => {
    await say("tell me a story");
    await window.waitForText("On day 1 the garden grew");
    await window.click("button[aria-label=Stop]");
    await window.waitGone("button[aria-label=Stop]");
    await window.waitForText("Stopped");
    assert.ok(!(await window.text("main")).includes("On day 400"));
    await window.picture("25-stopped");
  });

  await go("Stop cancels the call under way", async () => {
    const draft = {
      name: "everything",
      transport: "stdio",
      command: "npx",
      args: ["-y", "@modelcontextprotocol/server-everything"],
      url: "",
      env: [],
      headers: [],
    };
    await call(window, "upstream_add", { draft, enabled: true, overwrite: false, turn_on_mcp: true });
    const ready = async () => (await call(window, "upstream_get", { name: "everything" })).state === "ready";
    await until("the second server to be ready", ready, 30_000);
    await say("/call everything.trigger-long-running-operation duration=600 steps=600");
    const long = (state) => `[data-call="everything.trigger-long-running-operation"][data-state="${state}"]`;
    await window.find(long("running"));
    await window.click("button[aria-label=Stop]");
    await window.find(long("cancelled"));
    await window.waitGone("button[aria-label=Stop]");
    await call(window, "upstream_remove", { name: "everything" });
  });

  await go("the chat is there after a restart", async () => {
    await window.quit();
    window = await openHome(t, place);
    await window.click(`//nav//a[contains(.,"Chat")]`);
    await window.click(`//a[@data-row][contains(.,"list the files")]`);
    await window.waitForText("Your folder holds two folders and two files");
    await window.waitForText("On day 1 the garden grew");
    await window.find(row("denied"));
    await window.click(`${row("ok")} button[aria-expanded]`);
    await window.waitForText("[FILE] notes.md", { locator: row("ok") });
    assert.equal((await call(window, "settings_get")).key_place, "keychain");
    await goTo(window, "settings");
    await window.click("//*[@aria-label='Theme']//*[normalize-space(.)='Dark']");
    await window.click(`//nav//a[contains(.,"Chat")]`);
    await window.click(`//a[@data-row][contains(.,"list the files")]`);
    await window.waitForText("Stopped");
    await window.picture("30-dark-chat");
    await window.quit();
  });
});

/** Files below a folder that hold these words, as they are or as a database keeps them. */
async function filesWith(folder, words) {
  const found = [];
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = path.join(entry.parentPath ?? entry.path, entry.name);
    if ((await readFile(file)).includes(words)) found.push(file);
  }
  return found;
}
