// Settings: the model, the switch of the servers, the allow list, broken files, theme.
import { expect, open, test } from "./support/evi";
import { Model } from "./support/model";

test("an endpoint is entered, its models are listed and one is taken", async ({ page, evi }) => {
  const model = await Model.that();
  try {
    await open(page, evi, "#/settings");
    await page.getByLabel("Base URL").fill(model.address);
    await page.getByRole("button", { name: "List its models" }).click();
    await page.getByLabel("Models of the endpoint").click();
    await page.getByRole("option", { name: "small" }).click();
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await expect.poll(() => evi.read("config.toml")).toContain(`model = "small"`);
    expect(await evi.read("config.toml")).toContain(model.address);

    // One button for all three; the key is not shown and not in the file.
    await page.getByLabel("Key", { exact: true }).fill("sk-of-mine");
    await page.getByRole("textbox", { name: "Model" }).fill("large");
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await expect(page.getByText("A key is in the keychain")).toBeVisible();
    await expect.poll(() => evi.read("config.toml")).toContain(`model = "large"`);
    expect(await evi.read("config.toml")).not.toContain("sk-of-mine");
    await expect(page.getByRole("button", { name: "Save", exact: true })).toBeDisabled();
  } finally {
    model.stop();
  }
});

test("what runs without a question lists only what does", async ({ page, place }) => {
  await place.write("config.toml", `[auto]\nauto_approve = ["fs", "code", "memory", "shell"]\n`);
  await place.start();
  await open(page, place, "#/settings");
  const rules = page.getByRole("region", { name: "Calls without a question" });
  await expect(rules.getByText(/^All of/).locator("..")).toContainText("memory");
  await expect(rules.getByText(/^All of/).locator("..")).not.toContainText(/code|shell|fs/);
  await expect(rules.getByText(/^Reading only/).locator("..")).not.toContainText(/code|shell|memory/);
});

test("looking for a model on this machine says what it found, or what to start", async ({ page, evi }) => {
  await open(page, evi, "#/settings");
  await page.getByRole("button", { name: "Look for a model on this machine" }).click();
  await expect(page.getByText(/No model server answers|Ollama|LM Studio|llama\.cpp/).nth(1)).toBeVisible();
});

test("the servers' switch and the allow list are written to config.toml and keep its comments", async ({
  page,
  place,
}) => {
  await place.write("config.toml", "# mine\n[tools]\nmcp = false # later\n");
  await place.start();
  await open(page, place, "#/settings");
  await page.getByRole("switch", { name: "Run servers" }).click();
  await expect.poll(() => place.read("config.toml")).toContain("mcp = true");
  await page.getByLabel("Server to allow").fill("files");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("list", { name: "Allowed servers" })).toContainText("files");
  const text = await place.read("config.toml");
  expect(text).toContain("# mine");
  expect(text).toContain("files");
});

test("a broken config.toml is shown with its line and left as it was", async ({ page, place }) => {
  const broken = "[tools]\nmcp = \n";
  await place.write("config.toml", broken);
  await place.start();
  await open(page, place, "#/settings");
  await expect(page.getByText(/config\.toml, line 2/)).toBeVisible();
  await page.getByRole("switch", { name: "Run servers" }).click();
  await expect(
    page
      .getByRole("alert")
      .filter({ hasText: /could not|not written|config\.toml/i })
      .first(),
  ).toBeVisible();
  expect(await place.read("config.toml")).toBe(broken);
});

test("the theme is chosen and kept", async ({ page, evi }) => {
  await page.emulateMedia({ colorScheme: "light" });
  await open(page, evi, "#/settings");
  await page.getByRole("radio", { name: "Dark" }).click();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  await page.reload();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
});
