// Chooses the host once, by what the page finds itself in. The fake one is left out of the product's bundle.
import type { Host } from "./host";

/** Set by the build: true only where the page is worked on without eVi. */
declare const __FAKE_HOST__: boolean;

/** The host of this page. */
export async function findHost(): Promise<Host> {
  if (__FAKE_HOST__) return (await import("./fake")).fakeHost();
  if ("__TAURI_INTERNALS__" in window) return (await import("./tauri")).tauriHost();
  return (await import("./web")).webHost();
}
