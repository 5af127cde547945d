// The whole way without a pointer: palette, adding, lists, panes, shortcuts.
import { expect, open, serverRow, stage, test } from "./support/evi";

test("a server is added, looked at and its tool called with the keyboard alone", async ({ page, evi }) => {
  await open(page, evi);
  await page.keyboard.press("a");
  await expect(page.getByLabel("Paste a command, an address or a settings block")).toBeFocused();
  await page.keyboard.insertText(evi.filesystem);
  await expect(page.getByLabel("Command", { exact: true })).toHaveValue("node");
  await page.keyboard.press("Tab");
  await expect(page.getByLabel("Name", { exact: true })).toBeFocused();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("filesystem");
  await page.keyboard.press("Control+Enter");
  await expect(stage(page, "discovery", "done")).toBeVisible();

  await page.keyboard.press("Control+k");
  await page.keyboard.type("list_directory");
  await expect(page.getByRole("option").first()).toContainText("filesystem.list_directory");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/filesystem\.list_directory/);
  await page.getByLabel("path").focus();
  await page.keyboard.type(evi.folder);
  await page.keyboard.press("Control+Enter");
  await expect(page.getByRole("region", { name: "Result", exact: true })).toContainText("[DIR] letters");
});

test("Tab in the palette opens what can be done with a thing", async ({ page, evi }) => {
  await evi.run("mcp", "add", "quiet", "cat", "--disabled");
  await open(page, evi, "#/servers");
  await expect(serverRow(page, "quiet")).toBeVisible();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("quiet");
  await expect(page.getByRole("option")).toHaveCount(1);
  await page.keyboard.press("Tab");
  await page.keyboard.type("log");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("log")).toBeVisible();
});

test("F6 walks through the panes and arrows through a list", async ({ page, evi }) => {
  await evi.run("mcp", "add", "one", "cat", "--disabled");
  await evi.run("mcp", "add", "two", "cat", "--disabled");
  await open(page, evi, "#/servers");
  await expect(serverRow(page, "two")).toBeVisible();
  const sections = page.getByRole("navigation", { name: "Sections" });
  await page.keyboard.press("F6");
  await expect(sections).toBeFocused();
  await page.keyboard.press("F6");
  await expect(page.getByRole("link", { name: /^one/ })).toBeFocused();
  await page.keyboard.press("ArrowDown");
  await expect(page.getByRole("link", { name: /^two/ })).toBeFocused();
  await expect(page).toHaveURL(/servers\/two/);
  await page.keyboard.press("Shift+F6");
  await expect(sections).toBeFocused();
});

test("the list of shortcuts has every action, and single keys can be switched off", async ({ page, evi }) => {
  await open(page, evi);
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog", { name: "Shortcuts" })).toContainText("Add a server");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toBeHidden();
  await page.keyboard.press("Control+,");
  await page.getByRole("switch", { name: "Single-key shortcuts" }).click();
  await page.keyboard.press("n");
  await expect(page).toHaveURL(/settings/);
  await page.keyboard.press("Control+1");
  await expect(page).toHaveURL(/chat/);
});

test("the first Tab reaches a way past the sidebar", async ({ page, evi }) => {
  await open(page, evi);
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to the content" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("main")).toBeFocused();
});
