// What a server offers beside tools: its resources read, its templates and prompts filled in with its help, and its own words.
import type { Page } from "@playwright/test";

import { expand, variables } from "../src/lib/uri-template";
import { accessible, addServer, expect, go, open, test } from "./support/evi";

const entry = (page: Page, name: RegExp) => page.getByRole("button", { name, expanded: false });

test("an address with variables becomes the one that RFC 6570 says", () => {
  const values = { var: "value", hello: "Hello World!", path: "/foo/bar", empty: "", x: "1024", y: "768" };
  for (const [template, address] of [
    ["{var}", "value"],
    ["{hello}", "Hello%20World%21"],
    ["{+hello}", "Hello%20World!"],
    ["{+path}/here", "/foo/bar/here"],
    ["map?{x,y}", "map?1024,768"],
    ["X{#hello}", "X#Hello%20World!"],
    ["X{.x,y}", "X.1024.768"],
    ["{/var,x}/here", "/value/1024/here"],
    ["{;x,y}", ";x=1024;y=768"],
    ["{?x,y,none}", "?x=1024&y=768"],
    ["?fixed=yes{&x}", "?fixed=yes&x=1024"],
    ["{var:3}{x*}", "val1024"],
    ["{none}{not closed", "{not closed"],
  ] as const) {
    expect(expand(template, values), template).toBe(address);
  }
  expect(variables("a/{x}/{?y,x}{/path*}")).toEqual(["x", "y", "path"]);
});

test("resources are read, templates are filled in, and both stand in their tab", async ({ page, evi }) => {
  test.setTimeout(120_000);
  await open(page, evi);
  await addServer(page, evi.everything, "all");
  await page.getByRole("tab", { name: /^Resources/ }).click();
  await expect(page).toHaveURL(/tab=resources/);
  await entry(page, /architecture\.md/).click();
  await expect(page.getByRole("region", { name: "Content" })).toContainText("Everything Server");
  await accessible(page, "a resource");

  // With the keyboard alone: open the template, fill it in, read.
  await entry(page, /dynamic\/blob/).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByText("demo://resource/dynamic/blob/", { exact: true })).toBeVisible();
  await page.getByRole("button", { name: "Read", exact: true }).click();
  await expect(page.getByText("resourceId is needed")).toBeVisible();
  await page.getByRole("combobox", { name: "resourceId" }).fill("3");
  await expect(page.getByText("demo://resource/dynamic/blob/3", { exact: true })).toBeVisible();
  await page.keyboard.press("Enter");
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save" }).click();
  expect((await saving).suggestedFilename()).toMatch(/^3\b/);
  await accessible(page, "a template");
  await page.getByRole("combobox", { name: "resourceId" }).fill("none");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("alert")).toContainText("error");
});

test("a prompt's arguments are suggested and its messages are shown", async ({ page, evi }) => {
  test.setTimeout(120_000);
  await open(page, evi);
  await addServer(page, evi.everything, "all");
  await page.getByRole("tab", { name: /^Prompts/ }).click();
  await entry(page, /completable-prompt/).click();
  const department = page.getByRole("combobox", { name: "department" });
  await department.focus();
  const options = page.getByRole("option");
  await expect(options).toHaveText(["Engineering", "Sales", "Marketing", "Support"]);
  await accessible(page, "suggestions");
  await department.pressSequentially("S");
  await expect(options).toHaveText(["Sales", "Support"]);
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await expect(department).toHaveValue("Sales");
  // What is suggested for the second depends on the first.
  await page.getByRole("combobox", { name: "name" }).focus();
  await expect(options).toHaveText(["David", "Eve", "Frank"]);
  await page.keyboard.press("Escape");
  await expect(options).toHaveCount(0);
  await page.keyboard.insertText("Eve");
  await page.keyboard.press("Control+Enter");
  await page.getByRole("button", { name: "Show its messages" }).click();
  await expect(page.getByRole("list", { name: "Messages" })).toContainText("Eve");
  await accessible(page, "a prompt");
});

test("a server's own words are shown as text, and one with tools only has no empty sides", async ({
  page,
  evi,
}) => {
  test.setTimeout(120_000);
  await open(page, evi);
  await addServer(page, evi.everything, "all");
  const about = page.getByRole("region", { name: "About" });
  await expect(about).toContainText("Instructions for models");
  await accessible(page, "about a server");
  await addServer(page, evi.filesystem, "files");
  await expect(page.getByRole("tab", { name: /^Tools/ })).toBeVisible();
  await expect(page.getByRole("tab", { name: /^(Resources|Prompts)/ })).toHaveCount(0);
  await go(page, "#/servers/files?tab=prompts");
  await expect(page.getByText("It has no prompts.")).toBeVisible();
});
