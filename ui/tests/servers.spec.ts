// Servers: adding one by pasting, its steps, what fails and what helps, changing, renaming and removing it.
import type { Page } from "@playwright/test";

import { addServer, expect, go, open, serverRow, stage, test } from "./support/evi";

const PASTE = "Paste a command, an address or a settings block";

/** Notes what stands in the page from now on, even for a moment, and matches. */
async function hearing(page: Page, what: RegExp): Promise<() => Promise<string[]>> {
  const heard = await page.evaluateHandle((source) => {
    const found: string[] = [];
    const look = () => {
      const match = new RegExp(source).exec(document.body.innerText);
      if (match) found.push(match[0]);
    };
    new MutationObserver(look).observe(document.body, {
      childList: true,
      characterData: true,
      subtree: true,
    });
    return found;
  }, what.source);
  return () => heard.jsonValue();
}

test("a pasted command is split, saved, and its steps show result and time", async ({ page, evi }) => {
  await open(page, evi);
  await page.getByRole("link", { name: "Add a server" }).click();
  await expect(page.getByLabel(PASTE)).toBeFocused();
  await page.keyboard.insertText(`npx -y @modelcontextprotocol/server-filesystem ${evi.folder}`);
  await expect(page.getByLabel("Name", { exact: true })).toHaveValue("filesystem");
  await expect(page.getByLabel("Command", { exact: true })).toHaveValue("npx");
  await expect(page.getByLabel("Argument 1", { exact: true })).toHaveValue("-y");
  await expect(page.getByLabel("Argument 2", { exact: true })).toHaveValue(
    "@modelcontextprotocol/server-filesystem",
  );
  await expect(page.getByLabel("Argument 3", { exact: true })).toHaveValue(evi.folder);
  await expect(page.getByText(/\/npx$/)).toBeVisible();

  // The same server as it is installed here, so that the test needs no registry.
  await page.getByLabel(PASTE).fill(evi.filesystem);
  await expect(page.getByLabel("Command", { exact: true })).toHaveValue("node");
  await page.getByLabel("Name", { exact: true }).fill("filesystem");
  const contradictions = await hearing(page, /switched off as a whole|Servers off/);
  await page.keyboard.press("Control+Enter");

  for (const kind of ["saved", "started", "handshake", "discovery"]) {
    await expect(stage(page, kind, "done")).toBeVisible();
  }
  await expect(stage(page, "handshake", "done")).toContainText(/20\d\d-\d\d-\d\d/);
  await expect(stage(page, "discovery", "done")).toContainText("14 tools");
  await expect(stage(page, "discovery", "done")).toContainText(/\d (ms|s)/);
  await expect(page.getByText("eVi starts servers from now on")).toBeVisible();
  await page.getByRole("tab", { name: "Log" }).click();
  await page.getByRole("tab", { name: "Overview" }).click();
  await expect(stage(page, "discovery", "done")).toBeVisible();
  await expect(page.getByText("eVi starts servers from now on")).toBeHidden();
  expect(await contradictions()).toEqual([]);
  await expect(serverRow(page, "filesystem")).toContainText("Ready");
  await expect(serverRow(page, "filesystem")).toContainText("14 tools");
  expect(await evi.run("mcp", "list-servers")).toContain(`on  filesystem — ${evi.filesystem}`);
});

test("i10_a_program_that_is_not_there_is_said_under_the_field_and_saved_all_the_same", async ({
  page,
  evi,
}) => {
  await open(page, evi, "#/servers?add=1");
  await page.getByLabel(PASTE).fill("no-such-program --flag");
  await expect(page.getByText(/program not found: no-such-program/i)).toBeVisible();
  await page.getByRole("button", { name: "Save and start" }).click();
  await expect(stage(page, "started", "failed")).toBeVisible();
  await expect(page.getByRole("alert")).toContainText(/no-such-program/);
  await expect(serverRow(page, "no-such-program")).toContainText("Failed");
});

test("a program that ends at once shows its last words, its log, and can be restarted", async ({
  page,
  evi,
}) => {
  await open(page, evi, "#/servers?add=1");
  await page.getByLabel(PASTE).fill(`sh -c "echo the key file is missing >&2; exit 3"`);
  await page.getByLabel("Name", { exact: true }).fill("ends");
  await page.getByRole("button", { name: "Save and start" }).click();
  await expect(page.getByRole("region", { name: "Last lines of stderr" })).toContainText(
    "the key file is missing",
  );
  await page.getByRole("button", { name: "View log" }).click();
  await expect(page.getByRole("log")).toContainText("the key file is missing");
  await page.getByRole("tab", { name: "Overview" }).click();
  await page.getByRole("button", { name: "Restart" }).click();
  await expect(serverRow(page, "ends")).toContainText("Failed");
});

test("a name that is there already can be replaced or changed", async ({ page, evi }) => {
  await evi.run("mcp", "add", "files", "cat");
  await open(page, evi, "#/servers?add=1");
  await page.getByLabel(PASTE).fill(evi.filesystem);
  await page.getByLabel("Name", { exact: true }).fill("files");
  await page.getByRole("button", { name: "Save and start" }).click();
  await page.getByRole("button", { name: "Replace files" }).click();
  await expect(stage(page, "discovery", "done")).toBeVisible();
  expect(await evi.run("mcp", "list-servers")).toContain("node ");
});

test("a settings block of another application gives each of its servers", async ({ page, evi }) => {
  await open(page, evi, "#/servers?add=1");
  const [command, ...args] = evi.filesystem.split(" ");
  const block = { mcpServers: { one: { command, args }, two: { url: "http://127.0.0.1:9/mcp" } } };
  await page.getByLabel(PASTE).fill(JSON.stringify(block, null, 2));
  await expect(page.getByText("2 servers found")).toBeVisible();
  await expect(page.getByRole("tab", { name: "two" })).toBeVisible();
  await page.getByRole("button", { name: "Save 2 servers" }).click();
  await expect(serverRow(page, "one")).toContainText("Ready");
  await expect(serverRow(page, "two")).toContainText(/Failed|Starting/);
});

test("i67_values_that_are_not_replaced_stay_and_a_rename_costs_none", async ({ page, place }) => {
  await place.write("config.toml", "[tools]\nmcp = true\n");
  const [command, ...args] = place.filesystem.split(" ");
  const entry = { name: "files", command, args, env: { API_KEY: "abc", REGION: "eu" }, enabled: true };
  await place.write("mcp.json", JSON.stringify([entry], null, 2));
  await place.start();
  await open(page, place, "#/servers/files?tab=settings");
  await expect(page.getByText("API_KEY", { exact: true })).toBeVisible();
  expect(await page.content()).not.toContain("abc");
  await page.getByLabel("Argument 2", { exact: true }).fill(`${place.folder}/letters`);
  await page.getByRole("button", { name: "Save and restart" }).click();
  await expect.poll(() => place.read("mcp.json")).toContain("/letters");
  expect(await place.read("mcp.json")).toContain(`"API_KEY": "abc"`);

  await page.getByRole("tab", { name: "Settings" }).click();
  await page.getByLabel("Name", { exact: true }).fill("papers");
  await page.getByRole("button", { name: "Rename" }).click();
  await expect(serverRow(page, "papers")).toContainText("Ready");
  const text = await place.read("mcp.json");
  expect(text).toContain(`"papers"`);
  expect(text).toContain(`"REGION": "eu"`);
});

test("removing says what stays, and a change in a terminal shows in the open page", async ({ page, evi }) => {
  await open(page, evi);
  await addServer(page, evi.filesystem, "filesystem");
  await evi.run("mcp", "disable", "filesystem");
  await expect(serverRow(page, "filesystem")).toContainText("Off");
  await page.getByRole("switch", { name: "Switch filesystem", exact: true }).click();
  await expect(serverRow(page, "filesystem")).toContainText("Ready");
  expect(await evi.run("mcp", "list-servers")).toContain("on  filesystem");

  await page.getByRole("button", { name: "More for filesystem" }).click();
  await page.getByRole("menuitem", { name: "Remove…" }).click();
  await expect(page.getByRole("dialog")).toContainText("remain until you revoke them");
  await page.getByRole("button", { name: "Keep it" }).click();
  await expect(serverRow(page, "filesystem")).toBeVisible();
  await page.getByRole("button", { name: "More for filesystem" }).click();
  await page.getByRole("menuitem", { name: "Remove…" }).click();
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await expect(page.getByText("Begin with one server")).toBeVisible();
  expect(await evi.run("mcp", "list-servers")).toContain("no MCP servers configured");
});

test("i63_a_broken_file_is_shown_with_line_and_column_and_left_as_it_was", async ({ page, place }) => {
  const broken = `[\n  {"name": "one", "command": "cat"},\n  {"name": "two" "command": "cat"}\n]\n`;
  await place.write("mcp.json", broken);
  await place.start();
  await open(page, place, "#/servers");
  await expect(page.getByText(/mcp\.json, line 3/).first()).toBeVisible();
  await go(page, "#/settings");
  await expect(page.getByText(/mcp\.json, line 3, column \d+/)).toBeVisible();
  expect(await place.read("mcp.json")).toBe(broken);
});

test("servers that are switched off as a whole say so and can be switched on", async ({ page, place }) => {
  await place.run("mcp", "add", "files", "--", ...place.filesystem.split(" "));
  await place.start();
  await open(page, place, "#/servers/files");
  await expect(serverRow(page, "files")).toContainText("Servers off");
  await page.getByRole("button", { name: "Switch servers on" }).click();
  await expect(stage(page, "discovery", "done")).toBeVisible();
});
