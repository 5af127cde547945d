// Gateway: its switch, its port, its token, what it shares and how another application connects.
import { createServer } from "node:net";
import { once } from "node:events";

import type { Page } from "@playwright/test";

import { addServer, type Evi, expect, freePort, go, open, test } from "./support/evi";

async function setPort(page: Page, port: number) {
  await page.getByLabel("Port").fill(String(port));
  await page.getByRole("button", { name: "Change port" }).click();
  await expect(page.getByTestId("gateway-address")).toHaveText(`http://127.0.0.1:${port}/mcp`);
}
async function toolsOf(port: number, token: string): Promise<{ status: number; names: string[] }> {
  const headers = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    authorization: `Bearer ${token}`,
  };
  const url = `http://127.0.0.1:${port}/mcp`;
  const ask = (id: number | undefined, method: string, params: unknown, more = {}) =>
    fetch(url, {
      method: "POST",
      headers: { ...headers, ...more },
      body: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
    });
  const first = await ask(1, "initialize", {
    protocolVersion: "2025-06-18",
    capabilities: {},
    clientInfo: { name: "a\u202e test", version: "1" },
  });
  if (!first.ok) return { status: first.status, names: [] };
  await first.text();
  const session = {
    "mcp-session-id": first.headers.get("mcp-session-id") ?? "",
    "mcp-protocol-version": "2025-06-18",
  };
  await ask(undefined, "notifications/initialized", {}, session);
  const text = await (await ask(2, "tools/list", {}, session)).text();
  return { status: 200, names: [...text.matchAll(/"name":"([^"]+)","/g)].map((match) => match[1] ?? "") };
}
async function ready(page: Page, evi: Evi): Promise<number> {
  await open(page, evi);
  await addServer(page, evi.filesystem, "filesystem");
  await go(page, "#/gateway");
  const port = await freePort();
  await setPort(page, port);
  return port;
}

test("one switch serves the endpoint, and ticking a server shares its tools", async ({ page, evi }) => {
  const port = await ready(page, evi);
  await page.getByRole("switch", { name: "Gateway" }).click();
  await expect(page.getByText("Running", { exact: true })).toBeVisible();
  await page.getByRole("button", { name: "Copy token" }).click();
  await expect(page.getByRole("button", { name: "Copied" })).toBeVisible();
  const token = await page.evaluate(() => navigator.clipboard.readText());
  expect(token.length).toBeGreaterThan(20);
  expect(await page.content()).not.toContain(token);

  expect((await toolsOf(port, "wrong")).status).toBe(401);
  const own = (await toolsOf(port, token)).names;
  expect(own).toContain("remember");
  expect(own.some((name) => name.startsWith("filesystem"))).toBe(false);

  await page.getByText("filesystem", { exact: true }).click();
  await expect(page.getByRole("checkbox", { name: /filesystem/ })).toBeChecked();
  await expect.poll(async () => (await toolsOf(port, token)).names).toContain("filesystem.list_directory");
  await page.getByLabel("How filesystem is shared").click();
  await page.getByRole("option", { name: /Reading only/ }).click();
  await expect.poll(async () => (await toolsOf(port, token)).names).not.toContain("filesystem.write_file");
  await expect(page.getByText(String.raw`a\u202e test`).first()).toBeVisible();

  await page.getByRole("button", { name: "Replace…" }).click();
  await page.getByRole("button", { name: "Replace the token" }).click();
  await expect(page.getByRole("dialog")).toBeHidden();
  expect((await toolsOf(port, token)).status).toBe(401);

  await page.getByRole("switch", { name: "Gateway" }).click();
  await expect(page.locator("header").getByText("Off", { exact: true })).toBeVisible();
  await expect(fetch(`http://127.0.0.1:${port}/mcp`)).rejects.toThrow();
});

test("a busy port is an error where the switch is, and nothing moves elsewhere", async ({ page, evi }) => {
  const port = await ready(page, evi);
  const other = createServer().listen(port, "127.0.0.1");
  await once(other, "listening");
  await page.getByRole("switch", { name: "Gateway" }).click();
  await expect(page.getByRole("alert")).toContainText(new RegExp(`port ${port} is in use`, "i"));
  await expect(page.locator("header").getByText("Not serving", { exact: true })).toBeVisible();
  await expect(page.getByTestId("gateway-address")).toContainText(String(port));
  other.close();
  await once(other, "close");
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByText("Running", { exact: true })).toBeVisible();
});

test("a port that is none is said under its field", async ({ page, evi }) => {
  await open(page, evi, "#/gateway");
  await page.getByLabel("Port").fill("99999");
  await page.getByRole("button", { name: "Change port" }).click();
  await expect(page.getByRole("alert")).toContainText("1 to 65535");
});

test("the block for another application works when eVi starts it as that application will", async ({
  page,
  evi,
}) => {
  await open(page, evi, "#/gateway?connect=1");
  await expect(page.getByRole("region", { name: /^Block for / })).toContainText("mcp");
  await page.getByRole("button", { name: "Check the connection" }).click();
  const steps = page.getByRole("list", { name: "How the check went" });
  await expect(steps).toContainText("Handshake");
  await expect(page.getByText("It works")).toBeVisible();
});
