// What the linter asks of the page, and which module alone may import which package.
import js from "@eslint/js";
import svelte from "eslint-plugin-svelte";
import globals from "globals";
import ts from "typescript-eslint";

import svelteConfig from "./svelte.config.js";

/** Packages that have one home; anywhere else an import of them is an error. */
const homes = {
  tauri: { group: ["@tauri-apps/*"], message: "only src/host/tauri.ts speaks to Tauri" },
  bits: { group: ["bits-ui"], message: "only src/design uses bits-ui" },
};
const only = (...patterns) => ["error", { patterns }];

export default ts.config(
  { ignores: ["dist/", "node_modules/", "src/contract/", "test-results/", "playwright-report/"] },
  js.configs.recommended,
  ...ts.configs.strict,
  ...svelte.configs.recommended,
  { languageOptions: { globals: { ...globals.browser, ...globals.node } } },
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: ts.parser, svelteConfig } },
  },
  {
    rules: {
      "no-console": "error",
      eqeqeq: "error",
      // Records here are keyed by names that people chose.
      "@typescript-eslint/no-dynamic-delete": "off",
      "@typescript-eslint/no-unused-vars": ["error", { varsIgnorePattern: "^_", argsIgnorePattern: "^_" }],
      "@typescript-eslint/consistent-type-imports": "error",
      "svelte/require-each-key": "error",
      "svelte/no-navigation-without-resolve": "off",
      // Maps here are caches whose entries hold the state.
      "svelte/prefer-svelte-reactivity": "off",
    },
  },
  { files: ["src/**"], rules: { "no-restricted-imports": only(homes.tauri, homes.bits) } },
  { files: ["src/design/**"], rules: { "no-restricted-imports": only(homes.tauri) } },
  { files: ["src/host/tauri.ts"], rules: { "no-restricted-imports": only(homes.bits) } },
);
