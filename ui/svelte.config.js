// Compiler options of the page's components.
import { vitePreprocess } from "@sveltejs/vite-plugin-svelte";

export default {
  preprocess: vitePreprocess({ script: false }),
  compilerOptions: { runes: true },
  vitePlugin: {
    dynamicCompileOptions: ({ filename }) => (filename.includes("node_modules") ? { runes: undefined } : {}),
  },
};
