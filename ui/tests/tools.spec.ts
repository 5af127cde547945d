// Tools: a form made from a schema, exact JSON types, the result as it is, cancelling and switching.
import type { Page } from "@playwright/test";

import { addServer, expect, go, open, test } from "./support/evi";

const result = (page: Page) => page.getByRole("region", { name: "Result", exact: true });

test("a form calls a tool and shows the real result", async ({ page, evi }) => {
  await open(page, evi);
  await addServer(page, evi.filesystem, "filesystem");
  await page.getByRole("link", { name: "Try its tools" }).click();
  const list = page.getByRole("region", { name: "Tools", exact: true });
  await expect(list.locator(`a[title^="filesystem."]`)).toHaveCount(14);
  await list.getByRole("link", { name: /^filesystem\.list_directory / }).click();
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await expect(page.getByText("path needs a value")).toHaveCount(1);
  await expect(page.getByLabel("path")).toBeFocused();
  await page.getByLabel("path").fill(evi.folder);
  await page.keyboard.press("Control+Enter");
  await expect(result(page)).toContainText("[DIR] letters");
  await expect(result(page)).toContainText("[FILE] notes.md");
  await expect(result(page)).toContainText(/\d ms/);
  await page.getByRole("radio", { name: "Raw JSON" }).click();
  await expect(result(page)).toContainText(`"type": "text"`);

  // An answer that is an error looks like one.
  await page.getByLabel("path").fill("/nowhere");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await expect(result(page)).toContainText("The tool reported an error");
});

test("i51_arguments_have_exact_types_from_the_form_and_from_json", async ({ page, evi }) => {
  await open(page, evi);
  await addServer(page, evi.filesystem, "filesystem");
  const sent: { tool: string; arguments: unknown }[] = [];
  page.on("request", (request) => {
    if (request.url().endsWith("/api/tool_call")) sent.push(request.postDataJSON() as (typeof sent)[number]);
  });
  await go(page, "#/tools/filesystem.read_text_file");
  await page.getByLabel("path").fill(`${evi.folder}/notes.md`);
  await page.getByLabel("head").fill("one");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await expect(page.getByText("head is not a number", { exact: true })).toBeVisible();
  await page.getByLabel("head").fill("1");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await expect(result(page)).toContainText("# Notes");
  expect(sent.at(-1)?.arguments).toEqual({ path: `${evi.folder}/notes.md`, head: 1 });

  await go(page, "#/tools/filesystem.edit_file");
  await page.getByLabel("path").fill(`${evi.folder}/notes.md`);
  await page.getByRole("button", { name: "Add edits" }).click();
  await page.getByLabel("oldText").fill("# Notes");
  await page.getByLabel("newText").fill("# Papers");
  await page.getByRole("radio", { name: "true" }).click();
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await expect(result(page)).toContainText("+# Papers");
  expect(sent.at(-1)?.arguments).toEqual({
    path: `${evi.folder}/notes.md`,
    edits: [{ oldText: "# Notes", newText: "# Papers" }],
    dryRun: true,
  });

  await page.getByRole("radio", { name: "JSON", exact: true }).click();
  const json = page.getByLabel("Arguments as JSON");
  await expect(json).toHaveValue(/"dryRun": true/);
  await json.fill(`{"path": `);
  await expect(page.getByRole("alert")).toContainText("Not JSON");
});

test("a call can be cancelled while it runs", async ({ page, evi }) => {
  await open(page, evi);
  await addServer(page, evi.everything, "everything");
  await go(page, "#/tools/everything.trigger-long-running-operation");
  await page.getByLabel("duration").fill("30");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await expect(page.getByText(/^Running, /)).toBeVisible();
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await expect(page.getByRole("alert")).toContainText(/cancelled/i);
  await expect(page.getByRole("button", { name: "Call", exact: true })).toBeEnabled();
});

test("pictures, links and structured results are shown as they are", async ({ page, evi }) => {
  await open(page, evi);
  await addServer(page, evi.everything, "everything");
  await go(page, "#/tools/everything.get-tiny-image");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await expect(result(page).getByRole("img")).toBeVisible();
  const width = await result(page)
    .getByRole("img")
    .evaluate((image: HTMLImageElement) => image.naturalWidth);
  expect(width).toBeGreaterThan(0);
  await go(page, "#/tools/everything.get-resource-links");
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await expect(result(page)).toContainText("demo://resource");
  await go(page, "#/tools/everything.get-structured-content");
  await page.getByLabel("location").click();
  await page.getByRole("option").first().click();
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await expect(result(page)).toContainText("temperature");
});

test("a tool that is switched off is not offered", async ({ page, evi }) => {
  await open(page, evi);
  await addServer(page, evi.filesystem, "filesystem");
  await go(page, "#/tools/filesystem.write_file");
  await page.getByRole("switch", { name: "Offer filesystem.write_file" }).click();
  await expect(page.locator(`a[title="filesystem.write_file"]`)).toContainText("switched off");
  await page.reload();
  await expect(page.getByRole("switch", { name: "Offer filesystem.write_file" })).not.toBeChecked();
});

test("the filter finds tools by name and description", async ({ page, evi }) => {
  await open(page, evi, "#/tools");
  await page.getByLabel("Filter the tools").fill("no such tool anywhere");
  await expect(page.getByText("No tool has that")).toBeVisible();
  await page.getByRole("button", { name: "Clear the filter" }).click();
  await page.getByLabel("Filter the tools").fill("search_mem");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/search_memories/);
});
