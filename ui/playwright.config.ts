// Browser tests of the page over the real `evi web`, in the system's Chromium.
import { defineConfig } from "@playwright/test";

const root = process.getuid?.() === 0;

export default defineConfig({
  testDir: "tests",
  testMatch: "*.spec.ts",
  timeout: 60_000,
  expect: { timeout: 15_000 },
  fullyParallel: true,
  workers: 2,
  forbidOnly: process.env["CI"] !== undefined,
  retries: 0,
  reporter: [["list"]],
  use: {
    viewport: { width: 1180, height: 760 },
    trace: "retain-on-failure",
    permissions: ["clipboard-read", "clipboard-write"],
    launchOptions: {
      executablePath: process.env["EVI_CHROMIUM"] ?? "/usr/bin/chromium",
      args: [
        "--headless",
        ...(root ? ["--no-sandbox"] : []),
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
      ],
    },
  },
});
