// A host without eVi, for work on the page alone. Never part of the product's bundle.
import type { Host } from "./host";
/** placeholder */
export function fakeHost(): Host {
  throw new Error("not yet");
}
