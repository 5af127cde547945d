// The main job in the real window, step by step as a person does it: add a server, call its tools, serve them to
// another application, and see the same home from a terminal. Each step leaves its picture.

import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";

import { button, field, Key, processesOf, text, tray, until } from "./driver.mjs";
import {
  call,
  evi,
  filesystemServers,
  goTo,
  inspect,
  isServed,
  listenOn,
  makeHome,
  openHome,
  portsOf,
  post,
  serveClient,
  step,
} from "./place.mjs";

test("a person adds a server, calls its tools and serves them to another application", async (t) => {
  const place = await makeHome(t);
  const command = `npx -y @modelcontextprotocol/server-filesystem ${place.folder}`;
  let window = await openHome(t, place);
  const go = (name, body) => step(t, name, body, () => window);
  const stage = (kind, state = "done") => `[data-stage="${kind}"][data-state="${state}"]`;

  await go("the first start says what it is and what to press", async () => {
    await window.waitForText("Begin with one server");
    await window.waitForText("0.1", { locator: "nav" });
    await window.picture("01-first-start");
  });

  await go("a pasted command is split into name, command and arguments", async () => {
    await window.click("//a[starts-with(normalize-space(.),'Add a server')]");
    await window.type("textarea", command);
    await until("the fields to be filled", async () => (await value(field("Name"))) === "filesystem");
    assert.equal(await value(field("Command")), "npx");
    assert.equal(await value(field("Argument 1")), "-y");
    assert.equal(await value(field("Argument 2")), "@modelcontextprotocol/server-filesystem");
    assert.equal(await value(field("Argument 3")), place.folder);
    await window.waitForText("/npx");
    await window.picture("02-add-server");
  });

  await go("each stage of its start shows its result and its time", async () => {
    await window.click("//button[starts-with(normalize-space(.),'Save and start')]");
    await window.find(stage("discovery"), 30_000);
    const shown = {};
    for (const kind of ["saved", "started", "handshake", "discovery"]) {
      shown[kind] = await window.text(stage(kind));
      assert.match(shown[kind], /\d (ms|s)\b/, `${kind} has a time`);
    }
    assert.match(shown.started, /pid \d+/);
    assert.match(shown.handshake, /20\d\d-\d\d-\d\d/);
    assert.match(shown.discovery, /14 tools/);
    await window.picture("03-server-ready");
  });

  await go("a missing program is said with what helps", async () => {
    await addByPaste("no-such-program --flag", "no-such-program");
    await window.find(stage("started", "failed"));
    await window.waitForText(/program not found: no-such-program/);
    await window.picture("04-program-not-found");
  });

  await go("a program that ends at once shows its last words", async () => {
    await addByPaste(`sh -c "echo the key file is missing >&2; exit 3"`, "sh");
    await window.find("[data-state=failed]");
    await window.waitForText("the key file is missing");
    await window.picture("05-server-ended-at-once");
    for (const name of ["sh", "no-such-program"]) await call(window, "upstream_remove", { name });
    await window.waitGone(text("no-such-program", "//ul"));
  });

  await go("its fourteen tools are listed, and a form calls one", async () => {
    await window.click(`//nav//a[contains(.,"Tools")]`);
    await window.find(`a[data-row][title="filesystem.list_directory"]`);
    assert.equal((await window.findAll(`a[data-row][title^="filesystem."]`)).length, 14);
    await window.click(`a[data-row][title="filesystem.list_directory"]`);
    await window.type(field("path"), place.folder);
    await window.click("//button[starts-with(normalize-space(.),'Call')]");
    const result = await window.waitForText("[DIR] letters", { locator: "section.result" });
    assert.match(result, /\[FILE\] notes\.md/);
    await window.picture("06-call-a-tool");
  });

  const gatewaySwitch = "[role=switch][aria-label=Gateway]";
  const state = (word) => window.find(`//header//*[normalize-space(.)="${word}"]`);
  let port = 8765;
  let url;

  await go("one switch serves the endpoint, in the window and in the tray", async () => {
    await window.click(`//nav//a[contains(.,"Gateway")]`);
    await state("Off");
    if (await isServed(port)) {
      const free = await listenOn(t);
      await free.close();
      port = free.port;
      await call(window, "gateway_set_port", { port });
    }
    url = `http://127.0.0.1:${port}/mcp`;
    await window.waitForText(url, { locator: "[data-testid=gateway-address]" });
    await tray.waitFor("Gateway is off");
    await window.click(gatewaySwitch);
    await state("Running");
    await tray.waitFor("Gateway", (entry) => entry.checked);
    await tray.waitFor(`Serving at ${url}`);
    await window.picture("07-gateway-on");

    await tray.click("Gateway");
    await state("Off");
    await tray.waitFor("Gateway", (entry) => !entry.checked);
    assert.equal(await isServed(port), false);
    await tray.click("Gateway");
    await state("Running");
    assert.equal((await post(url, {})).status, 401);
  });

  await go("a busy port is an error in both places, and nothing listens elsewhere", async (t) => {
    await window.click(gatewaySwitch);
    await state("Off");
    const other = await listenOn(t, port);
    // The driver's own way into the webview is a port, too.
    const [pid] = await processesOf(window.program);
    const before = await portsOf(pid);
    await window.click(gatewaySwitch);
    await state("Not serving");
    const shown = await window.waitForText(new RegExp(`port ${port}.*in use`, "i"));
    assert.match(shown, /Try again/);
    const entry = await until("the tray to say so", async () =>
      (await tray.list()).find((entry) => entry.label.startsWith("Not serving")),
    );
    assert.match(entry.label, new RegExp(String(port)));
    assert.equal((await tray.list()).find((entry) => entry.label === "Gateway").checked, true);
    assert.deepEqual(await portsOf(pid), before);
    await window.picture("08-port-in-use");

    // The tray has the same switch: off, and on again with the same error.
    await tray.click("Gateway");
    await tray.waitFor("Gateway is off");
    await state("Off");
    await tray.click("Gateway");
    await tray.waitFor(entry.label);
    await state("Not serving");
    await other.close();
    await window.click(button("Try again"));
    await state("Running");
    await tray.waitFor("Gateway", (one) => one.checked);
  });

  let token;
  await go("the token is copied and replaced", async () => {
    ({ token } = await call(window, "gateway_token_copy"));
    await window.click(button("Copy token"));
    await window.find(button("Copied"));
    await window.press(Key.Control, "k");
    await window.find("[role=dialog] input");
    await window.press(Key.Control, "v");
    await until("the token to be pasted", async () => (await value("[role=dialog] input")) === token);
    await window.press(Key.Escape);
    await window.waitGone("[role=dialog]");
    const page = await window.script(() => document.documentElement.outerHTML);
    assert.ok(!page.includes(token), "the page shows the token only in part");

    await window.click(button("Replace…"));
    await window.find("[role=dialog],[role=alertdialog]");
    await window.picture("09-replace-token");
    await window.click(button("Replace the token"));
    await window.waitGone("[role=dialog],[role=alertdialog]");
    assert.equal((await post(url, { authorization: `Bearer ${token}` })).status, 401);
    const before = token;
    ({ token } = await call(window, "gateway_token_copy"));
    assert.notEqual(token, before);
  });

  await go("another program sees eVi's own tools, and a server's once it is shared", async () => {
    const names = async () => (await inspect(url, token, "--method", "tools/list")).tools.map((tool) => tool.name);
    const own = await names();
    for (const name of ["remember", "recall", "search_memories", "list_memories"]) assert.ok(own.includes(name), name);
    assert.ok(!own.some((name) => name.startsWith("filesystem.")));

    await window.click(`//label[contains(.,"filesystem")]//*[@role="checkbox"]`);
    await window.waitForText("20 tools for a connected application");
    const shared = await names();
    assert.equal(shared.filter((name) => name.startsWith("filesystem.")).length, 14);
    await window.picture("10-shared");
  });

  await go("that program calls both kinds, with the token and from no foreign page", async () => {
    const use = (tool, ...args) => {
      const words = args.flatMap((one) => ["--tool-arg", one]);
      return inspect(url, token, "--method", "tools/call", "--tool-name", tool, ...words);
    };
    const listed = await use("filesystem.list_directory", `path=${place.folder}`);
    assert.match(listed.content[0].text, /\[DIR\] letters/);
    const kept = await use("remember", "name=tea", "content=Ada takes milk");
    assert.notEqual(kept.isError, true);
    const { stdout } = await evi(place, "mcp", "call", "recall", `name=tea`);
    assert.match(stdout, /Ada takes milk/);

    const bare = await post(url, {});
    assert.equal(bare.status, 401);
    assert.ok(bare.headers["www-authenticate"]);
    const foreign = await post(url, { authorization: `Bearer ${token}`, origin: "https://example.com" });
    assert.equal(foreign.status, 403);
  });

  await go("what a terminal changes shows in the open window, and the other way round", async () => {
    await window.click(`//nav//a[contains(.,"Servers")]`);
    const row = (name) => `//li[contains(@class,"row")][.//a[contains(.,"${name}")]]`;
    const words = ["npx", "-y", "@modelcontextprotocol/server-memory"];
    const added = await evi(place, "mcp", "add", "graph", words[0], "--", ...words.slice(1));
    assert.equal(added.code, 0, added.stderr);
    assert.equal(added.stdout.split("\n")[0], `added graph — ${words.join(" ")}`);
    await window.waitForText("Ready", { locator: row("graph") });
    await window.waitForText("9 tools", { locator: row("graph") });
    await window.click(`${row("graph")}//a`);
    await window.find(stage("discovery"));
    await window.picture("11-added-in-a-terminal");

    assert.equal((await evi(place, "mcp", "disable", "graph")).code, 0);
    await window.waitForText("Off", { locator: row("graph") });
    await window.click(`${row("graph")}//*[@role="switch"]`);
    await window.waitForText("Ready", { locator: row("graph") });
    const { stdout } = await evi(place, "mcp", "list-servers");
    assert.match(stdout, /^on {2}filesystem — npx -y @modelcontextprotocol\/server-filesystem /m);
    assert.match(stdout, /^on {2}graph — npx /m);
    assert.equal((await evi(place, "mcp", "remove", "graph")).code, 0);
    await window.waitGone(row("graph"));
    assert.equal((await evi(place, "mcp", "remove", "graph")).code, 1);
  });

  const client = serveClient(place);
  await go("an application that starts evi shares the running servers", async () => {
    const { serverInfo } = await client.start();
    assert.equal(serverInfo.name, "evi");
    assert.ok((await client.tools()).includes("filesystem.list_directory"));
    assert.equal(await filesystemServers(), 1);
    await window.click(`//nav//a[contains(.,"Gateway")]`);
    await window.waitForText("a desktop application", { locator: ".clients" });
    // MCP Inspector has left a session for each of its runs, and is one application all the same.
    assert.equal((await window.findAll(".clients li")).length, 2);
    await window.picture("12-connected-app");
  });

  await go("a server shared with a question asks in the window, wherever the person is", async () => {
    await window.click("[aria-label='How filesystem is shared']");
    await window.click("//*[@role='option'][contains(.,'Ask each time')]");
    await window.waitForText("Ask each time", { locator: "[aria-label='How filesystem is shared']" });
    await window.click(`//nav//a[contains(.,"Tools")]`);
    const params = { name: "filesystem.list_directory", arguments: { path: place.folder } };
    const answer = client.ask("tools/call", params);
    const waiting = "[aria-label='Waiting for an answer']";
    const shown = await window.waitForText("a desktop application asks to call", { locator: waiting });
    assert.ok(shown.includes(JSON.stringify(params.arguments, null, 2)), shown);
    assert.match(shown, /becomes a denial in \d+ s/);
    await window.picture("14-another-application-asks");
    await window.click(button("Allow once"));
    assert.match((await answer).result.content[0].text, /\[DIR\] letters/);
    await window.waitGone(waiting);
    await call(window, "share_set", { server: "filesystem", mode: "full" });
  });

  await go("the block for another application is checked by starting what is in it", async () => {
    await goTo(window, "gateway?connect=1");
    await window.click(button("Check the connection"));
    await window.find(`[aria-label="How the check went"] ${stage("discovery")}`, 30_000);
    await window.waitForText("It works");
    const check = await window.text(`[aria-label="How the check went"]`);
    assert.match(check, /20 tools/);
    await window.script(() => {
      const page = document.querySelector("main .page .page");
      page.scrollTo(0, page.scrollHeight);
    });
    await window.picture("13-connect-an-application");
  });

  const listed = async () => {
    const params = { name: "filesystem.list_directory", arguments: { path: place.folder } };
    const { result } = await client.ask("tools/call", params);
    return result?.content?.[0]?.text ?? "";
  };
  await go("its session goes on when the desktop ends first, and when it starts again", async () => {
    assert.match(await listed(), /\[DIR\] letters/);
    await window.quit();
    await until("the session to go on without a desktop", async () => (await client.tools()).includes("filesystem.list_directory"), 30_000);
    await until("the tool to answer", async () => (await listed()).includes("[DIR] letters"), 30_000);
    assert.equal(await filesystemServers(), 1);

    window = await openHome(t, place);
    await window.click(`//nav//a[contains(.,"Servers")]`);
    await window.waitForText("14 tools", { within: 30_000 });
    await until("the tool to answer through the desktop", async () => (await listed()).includes("[DIR] letters"), 30_000);
    assert.equal(await filesystemServers(), 1);
    assert.ok(client.notices.includes("notifications/tools/list_changed"));
    await client.end();
  });

  await go("the gateway comes back as it was left", async () => {
    await window.click(`//nav//a[contains(.,"Gateway")]`);
    await state("Running");
    assert.ok((await inspect(url, token, "--method", "tools/list")).tools.length === 20);
  });

  await go("a file that cannot be read is said with its place, and nothing is written to it", async () => {
    const file = path.join(place.home, "mcp.json");
    const good = await readFile(file, "utf8");
    const broken = `${good.trimEnd().slice(0, -1)}, {"name": "half`;
    await writeFile(file, broken);
    await window.click(`//nav//a[contains(.,"Servers")]`);
    const shown = await window.waitForText(/mcp\.json/, { locator: ".notes" });
    assert.match(shown, /line \d+/i);
    await window.picture("15-broken-file");
    const added = await evi(place, "mcp", "add", "another", "node");
    assert.equal(added.code, 1);
    assert.match(added.stderr, /mcp\.json/);
    assert.equal(await readFile(file, "utf8"), broken);
    assert.equal(await filesystemServers(), 1);
    await writeFile(file, good);
    await until("the note to go", async () => !/mcp\.json/.test(await window.text(".notes")));
  });

  await go("every page has its dark face", async () => {
    await goTo(window, "settings");
    await window.click("//*[@aria-label='Theme']//*[normalize-space(.)='Dark']");
    await window.script(() => document.querySelector("main .page .page").scrollTo(0, 0));
    await window.picture("30-dark-settings");
    for (const [name, at, words] of [
      ["servers", "servers/filesystem", "Discovery"],
      ["tools", "tools/filesystem.list_directory", "Arguments"],
      ["gateway", "gateway", "Connected apps"],
    ]) {
      await goTo(window, at);
      await window.waitForText(words, { locator: "main" });
      await window.picture(`30-dark-${name}`);
    }
  });

  await go("quitting leaves no process behind", async () => {
    await window.quit();
    await until("the servers to be gone", async () => (await filesystemServers()) === 0);
  });

  async function value(locator) {
    return (await window.find(locator)).property("value");
  }

  async function addByPaste(words, name) {
    await window.click("//a[starts-with(normalize-space(.),'Add')]");
    await window.type("textarea", words);
    await until("the name to be filled", async () => (await value(field("Name"))) === name);
    await window.click("//button[starts-with(normalize-space(.),'Save and start')]");
    await window.find(`//h2[normalize-space(.)="${name}"]`);
  }
});
