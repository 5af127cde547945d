// What a screen reader hears, what the clipboard gets, and the time of the minute. It shows nothing by itself.
import { untrack } from "svelte";

import { visible } from "./unseen";

/** The text of the live region. */
export const spoken = $state({ text: "" });

/** Says something to those who do not see the page. */
export function announce(text: string): void {
  const exact = visible(text);
  // The same text twice is heard only when it differs; whoever says something does not depend on what was said.
  spoken.text = untrack(() => spoken.text) === exact ? `${exact}\u00a0` : exact;
}

/** Puts text on the clipboard, also one that is still on its way; says whether that worked. Rejects as `text` does. */
export async function copy(text: string | Promise<string>): Promise<boolean> {
  try {
    if (typeof text === "string") await navigator.clipboard.writeText(text);
    else {
      // Asked for now, while the press still counts: a webview refuses the clipboard to what comes later.
      const blob = text.then((value) => new Blob([value], { type: "text/plain" }));
      await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
    }
  } catch {
    // Older webviews have no clipboard permission, but the old way.
    const area = document.createElement("textarea");
    area.value = await text;
    area.setAttribute("readonly", "");
    area.style.position = "fixed";
    area.style.opacity = "0";
    const host = document.querySelector("dialog[open], [role=dialog]") ?? document.body;
    host.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) {
      announce("Could not copy");
      return false;
    }
  }
  announce("Copied");
  return true;
}

/** Now, by the half minute. */
export const time = $state({ now: Date.now() });
setInterval(() => (time.now = Date.now()), 30_000);
