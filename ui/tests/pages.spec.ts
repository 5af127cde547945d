// Every page in both themes with axe, on a narrow screen and at twice the size, empty and filled.
import type { Page } from "@playwright/test";

import { accessible, addServer, expect, go, open, stage, test } from "./support/evi";

/** Nothing is wider than the screen. */
async function fits(page: Page, what: string) {
  const wide = await page.evaluate(() => {
    const found: string[] = [];
    if (document.documentElement.scrollWidth > innerWidth) found.push("the page");
    for (const one of document.querySelectorAll<HTMLElement>(
      "main button, main input, main a, main h1, main h2",
    )) {
      const box = one.getBoundingClientRect();
      const clipped = one.closest("[role=tablist], .prose, pre, .visually-hidden") !== null;
      if (box.width > 0 && box.right > innerWidth + 1 && !clipped) found.push(one.outerHTML.slice(0, 120));
    }
    return found;
  });
  expect(wide, what).toEqual([]);
}

test("the first start says what eVi does and what to press, and every empty page is accessible", async ({
  page,
  evi,
}) => {
  test.setTimeout(180_000);
  await open(page, evi);
  await expect(page).toHaveURL(/#\/servers$/);
  await expect(page.getByText("eVi connects to MCP servers, calls their tools")).toBeVisible();
  await expect(page.getByRole("link", { name: "Add a server" })).toBeVisible();
  await accessible(page, "first start");
  const places: [string, string][] = [
    ["#/servers?add=1", "Fill in by hand"],
    ["#/tools", "Choose a tool"],
    ["#/gateway", "Connect an application"],
    ["#/settings", "Single-key shortcuts"],
    ["#/chat", "Choose a model to chat with"],
  ];
  for (const [hash, text] of places) {
    await go(page, hash);
    await expect(page.getByText(text).first()).toBeVisible();
    await accessible(page, hash);
  }
});

test("every page with a server is accessible in both themes, fits 360 px and 200 % zoom", async ({
  page,
  evi,
}) => {
  test.setTimeout(180_000);
  await open(page, evi);
  await addServer(page, evi.filesystem, "filesystem");
  const places: [string, () => Promise<void>][] = [
    ["#/servers", () => expect(page.getByText("Choose a server")).toBeAttached()],
    ["#/servers/filesystem", () => expect(stage(page, "discovery", "done")).toBeVisible()],
    [
      "#/servers/filesystem?tab=tools",
      () => expect(page.getByRole("link", { name: /^read_text_file/ })).toBeVisible(),
    ],
    ["#/servers/filesystem?tab=log", () => expect(page.getByRole("log")).toBeVisible()],
    [
      "#/servers/filesystem?tab=settings",
      () => expect(page.getByLabel("Command", { exact: true })).toBeVisible(),
    ],
    [
      "#/tools/filesystem.edit_file",
      () => expect(page.getByRole("button", { name: "Call", exact: true })).toBeVisible(),
    ],
    ["#/gateway", () => expect(page.getByRole("switch", { name: "Gateway" })).toBeVisible()],
    ["#/settings", () => expect(page.getByLabel("Base URL")).toBeVisible()],
    ["#/chat?new=1", () => expect(page.getByLabel("Message")).toBeVisible()],
  ];
  for (const [hash, ready] of places) {
    await go(page, hash);
    await ready();
    await accessible(page, hash);
  }
  // 640 px at twice the size are 320 px wide; 360 px is a small telephone.
  for (const viewport of [
    { width: 360, height: 640 },
    { width: 590, height: 380 },
  ]) {
    await page.setViewportSize(viewport);
    for (const [hash, ready] of places) {
      await go(page, hash);
      await ready();
      await fits(page, `${hash} at ${viewport.width} px`);
    }
    await accessible(page, `${viewport.width} px`);
  }
});

test("floating layers are accessible", async ({ page, evi }) => {
  await open(page, evi);
  await addServer(page, evi.filesystem, "filesystem");
  await page.keyboard.press("Control+k");
  await expect(page.getByRole("dialog", { name: "Commands" })).toBeVisible();
  await accessible(page, "palette");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "More for filesystem" }).click();
  // A menu floats outside of the landmarks, as menus do.
  await accessible(page, "menu", ["region"]);
  await page.getByRole("menuitem", { name: "Remove…" }).click();
  await expect(page.getByRole("dialog", { name: "Remove filesystem?" })).toBeVisible();
  await accessible(page, "dialog");
});

test("the page asks no one but eVi for anything", async ({ page, evi }) => {
  const foreign: string[] = [];
  const origin = new URL(evi.link).origin;
  page.on("request", (request) => {
    const url = new URL(request.url());
    if (url.origin !== origin && url.protocol !== "data:") foreign.push(request.url());
  });
  await open(page, evi);
  for (const hash of ["#/chat", "#/tools", "#/gateway", "#/settings"]) await go(page, hash);
  await expect(page.getByLabel("Base URL")).toBeVisible();
  expect(foreign).toEqual([]);
});

test("without the token the page says where the link is", async ({ page, evi }) => {
  await page.goto(new URL(evi.link).origin);
  await expect(page.getByText(/evi web/).first()).toBeVisible();
});
