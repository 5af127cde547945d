// How the page is built and served while it is worked on. No product code.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [svelte()],
  base: "/",
  define: { __FAKE_HOST__: JSON.stringify(process.env["VITE_HOST"] === "fake") },
  build: {
    outDir: "dist",
    emptyOutDir: true,
    target: ["es2022", "safari16", "chrome108"],
    // The content security policy allows no inline script and no data: font.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    chunkSizeWarningLimit: 700,
  },
  server: {
    host: "127.0.0.1",
    proxy: process.env["EVI_WEB"] ? { "/api": process.env["EVI_WEB"] } : {},
  },
});
