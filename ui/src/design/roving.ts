// Arrow keys over the rows of a list: one stop for Tab, arrows within. It moves the focus and tells, no more.

/** Makes the elements with `data-row` inside `node` one tab stop that arrows, Home and End walk through. */
export function roving(node: HTMLElement, choose?: (row: HTMLElement) => void) {
  const rows = () => [...node.querySelectorAll<HTMLElement>("[data-row]")];

  function settle() {
    const all = rows();
    const chosen =
      all.find((row) => row === document.activeElement) ??
      all.find((row) => row.getAttribute("aria-current") === "true") ??
      all[0];
    for (const row of all) row.tabIndex = row === chosen ? 0 : -1;
  }
  function keydown(event: KeyboardEvent) {
    const all = rows();
    const at = all.indexOf(event.target as HTMLElement);
    if (at < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1, j: at + 1, k: at - 1 }[
      event.key
    ];
    if (next === undefined) return;
    event.preventDefault();
    const row = all[Math.max(0, Math.min(all.length - 1, next))];
    if (!row) return;
    row.focus();
    row.scrollIntoView({ block: "nearest" });
    choose?.(row);
  }
  const observer = new MutationObserver(settle);
  observer.observe(node, {
    childList: true,
    subtree: true,
    attributes: true,
    attributeFilter: ["aria-current"],
  });
  node.addEventListener("keydown", keydown);
  node.addEventListener("focusin", settle);
  settle();
  return {
    destroy() {
      observer.disconnect();
      node.removeEventListener("keydown", keydown);
      node.removeEventListener("focusin", settle);
    },
  };
}
