// Chat: without a model, /call, a streamed answer, approvals in the conversation, Stop, and what a model may not do to the page.
import type { Page } from "@playwright/test";

import { addServer, type Evi, expect, go, open, test } from "./support/evi";
import { Model, type Reply } from "./support/model";

async function withModel(run: (model: Model) => Promise<void>, ...replies: Reply[]) {
  const model = await Model.that(...replies);
  try {
    await run(model);
  } finally {
    model.stop();
  }
}

/** Starts eVi with the model, adds the server where a call needs one, and says the first thing. */
async function say(page: Page, place: Evi, model: Model, text: string, withServer = false) {
  await place.write("config.toml", model.config);
  await place.start();
  await open(page, place);
  if (withServer) await addServer(page, place.filesystem, "filesystem");
  await go(page, "#/chat?new=1");
  await page.getByLabel("Message").fill(text);
  await page.keyboard.press("Enter");
}

test("without a model the page says what to do, and /call runs a tool all the same", async ({
  page,
  evi,
}) => {
  await open(page, evi);
  await addServer(page, evi.filesystem, "filesystem");
  await go(page, "#/chat?new=1");
  await expect(page.getByText("Choose a model to chat with")).toBeVisible();
  await expect(page.getByRole("button", { name: "Look for a model on this machine" })).toBeVisible();
  const box = page.getByLabel("Message");
  await box.fill("hello");
  await box.press("Enter");
  await expect(page.getByRole("alert")).toContainText(/model/);
  await expect(box).toHaveValue("hello");

  await box.fill("/call filesystem.list_dir");
  await expect(page.getByRole("button", { name: /filesystem\.list_directory/ }).first()).toBeVisible();
  await box.press("Tab");
  await expect(box).toHaveValue("/call filesystem.list_directory ");
  await expect(page.getByText("path=", { exact: true })).toBeVisible();
  await box.fill(`/call filesystem.list_directory path=${evi.folder}`);
  await box.press("Enter");
  const call = page.locator(`[data-call="filesystem.list_directory"][data-state="ok"]`);
  await expect(call).toBeVisible();
  await expect(call.getByRole("button").first()).toHaveAttribute("aria-expanded", "true");
  await expect(call).toContainText("[DIR] letters");
  await page.reload();
  await expect(call).toBeVisible();
});

test("a call waits in the conversation with its exact arguments until it is allowed", async ({
  page,
  place,
}) => {
  await withModel(
    async (model) => {
      await say(page, place, model, "list the files", true);
      const call = page.locator(`[data-call="filesystem.list_directory"]`);
      await expect(call).toHaveAttribute("data-state", "waiting");
      await expect(call).toContainText("on the server filesystem");
      await expect(call.getByRole("region", { name: "Arguments" })).toContainText(
        `"path": "${place.folder}"`,
      );
      // Its time is the tool's, not the person's.
      await page.waitForFunction((since) => Date.now() - since > 2000, Date.now());
      await page.keyboard.press("Control+Enter");
      await expect(call).toHaveAttribute("data-state", "ok");
      await expect(call.getByRole("button").first()).toContainText(/\d ms/);
      await expect(page.getByText("There is a folder called letters.")).toBeVisible();
      await expect(page.getByRole("button", { name: "Send" })).toBeVisible();
      expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain("[DIR] letters");
      await page.reload();
      await expect(page.getByText("There is a folder called letters.")).toBeVisible();
      await expect(page.getByText("There is a folder called letters.")).toHaveCount(1);
    },
    { calls: "filesystem__list_directory", with: { path: place.folder } },
    { says: "There is a folder called letters." },
  );
});

test("what a call would hide is written out before it is allowed", async ({ page, place }) => {
  await withModel(
    async (model) => {
      await say(page, place, model, "look\u202e here", true);
      const call = page.locator(`[data-call="filesystem.list_directory"]`);
      await expect(call).toHaveAttribute("data-state", "waiting");
      const shown = call.getByRole("region", { name: "Arguments" });
      await expect(shown).toContainText(String.raw`"path": "/tmp/\u202egnp.exe\u200b\u0085"`);
      await expect(shown.locator(".unseen")).toHaveText([
        String.raw`\u202e`,
        String.raw`\u200b\u0085`,
        String.raw`\u200e`,
      ]);
      await expect(call.getByRole("button").first()).toContainText(String.raw`/tmp/\u202egnp.exe`);
      const left = page.getByRole("region", { name: "Chats" });
      await expect(left.getByRole("link", { name: /^look/ })).toContainText(String.raw`look\u202e here`);
      expect(await page.locator("main").innerText()).not.toMatch(/[\u202e\u200b\u0085]/);
      // Each string for itself: a key cannot change places with its value.
      await expect(shown.locator("bdi bdi")).toHaveText([
        `"path"`,
        String.raw`"/tmp/\u202egnp.exe\u200b\u0085"`,
        String.raw`"עב\u200eרית"`,
        `"אבג"`,
      ]);
      await page.keyboard.press("Escape");
      await expect(call).toHaveAttribute("data-state", "denied");
    },
    {
      calls: "filesystem__list_directory",
      with: { path: "/tmp/\u202egnp.exe\u200b\u0085", "עב\u200eרית": "אבג" },
    },
    { says: "I did nothing." },
  );
});

test("Escape denies the call that waits, and the model is told", async ({ page, place }) => {
  await withModel(
    async (model) => {
      await say(page, place, model, "write a file", true);
      const call = page.locator(`[data-call="filesystem.write_file"]`);
      await expect(call).toHaveAttribute("data-state", "waiting");
      await page.keyboard.press("Escape");
      await expect(call).toHaveAttribute("data-state", "denied");
      await expect(page.getByText("I wrote nothing.")).toBeVisible();
      expect(JSON.stringify(model.requests.at(-1)?.messages)).toMatch(/denied|said no/);
    },
    { calls: "filesystem__write_file", with: { path: `${place.folder}/x`, content: "x" } },
    { says: "I wrote nothing." },
  );
});

test("an answer that fails says why, and can be asked for again", async ({ page, place }) => {
  await withModel(
    async (model) => {
      await say(page, place, model, "hello");
      await expect(page.getByRole("alert")).toContainText(/model|endpoint|key/i);
      await expect(page.getByRole("link", { name: "Open settings" })).toBeVisible();
      await page.getByRole("button", { name: "Try again" }).click();
      await expect(page.getByText("Here I am again.")).toBeVisible();
      await expect(page.getByRole("button", { name: "Try again" })).toHaveCount(0);
    },
    { refuses: 401 },
    { says: "Here I am again." },
  );
});

test("Always for this chat asks once only", async ({ page, place }) => {
  await withModel(
    async (model) => {
      await say(page, place, model, "list twice", true);
      await page.getByRole("button", { name: "Always for this chat" }).click();
      await expect(page.getByText("Listed twice.")).toBeVisible();
      await expect(page.locator(`[data-call="filesystem.list_directory"][data-state="ok"]`)).toHaveCount(2);
    },
    { calls: "filesystem__list_directory", with: { path: place.folder } },
    { calls: "filesystem__list_directory", with: { path: `${place.folder}/letters` } },
    { says: "Listed twice." },
  );
});

test("Stop ends the stream and keeps what was said", async ({ page, place }) => {
  await withModel(
    async (model) => {
      await say(page, place, model, "talk for ever");
      await expect(page.getByText("Once upon a time")).toBeVisible();
      await page.getByRole("button", { name: "Stop" }).click();
      await expect(page.getByRole("button", { name: "Send" })).toBeVisible();
      await expect(page.getByText("Stopped", { exact: true }).first()).toBeAttached();
      await expect.poll(() => model.hungUp).toBe(1);
      await expect(page.getByText("Once upon a time")).toHaveCount(1);
    },
    { begins: "Once upon a time" },
  );
});

test("markdown is shown, and nothing in it runs or is fetched", async ({ page, place }) => {
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.url()));
  await withModel(
    async (model) => {
      await say(page, place, model, "show off");
      const answer = page.getByRole("article", { name: "Answer" });
      await expect(answer.getByRole("table")).toBeVisible();
      await expect(answer.locator("strong")).toHaveText("bold");
      await expect(answer.locator("img, script, iframe, form")).toHaveCount(0);
      await expect(answer.getByRole("link", { name: "evil" })).toHaveCount(0);
      expect(asked.filter((url) => url.includes("tracker.example"))).toEqual([]);
      expect(await page.evaluate(() => "hacked" in window)).toBe(false);
    },
    {
      says: [
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n**bold** ![x](https://tracker.example/p.png)",
        "<img src=x onerror='window.hacked=1'><script>window.hacked=1</script>",
        "[evil](javascript:window.hacked=1) done",
      ].join("\n\n"),
    },
  );
});

test("a chat is renamed and deleted", async ({ page, evi }) => {
  await open(page, evi, "#/chat?new=1");
  await page.getByLabel("Message").fill("/call list_memories");
  await page.keyboard.press("Enter");
  await expect(page.locator(`[data-call="list_memories"][data-state="ok"]`)).toBeVisible();
  await page.getByRole("button", { name: "More for this chat" }).click();
  await page.getByRole("menuitem", { name: "Rename…" }).click();
  await page.getByLabel("Title").fill("Notes of mine");
  await page.getByRole("button", { name: "Rename", exact: true }).click();
  await expect(page.getByRole("link", { name: /Notes of mine/ })).toBeVisible();
  await page.getByRole("button", { name: "More for this chat" }).click();
  await page.getByRole("menuitem", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await expect(page.getByRole("link", { name: /Notes of mine/ })).toHaveCount(0);
});
