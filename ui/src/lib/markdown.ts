// Markdown of a model or a server as safe HTML: sanitised, no picture from the network, no address that runs anything.
import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";

const markdown = new MarkdownIt({ html: false, linkify: true, breaks: true });
markdown.validateLink = (url) => /^(https?:|mailto:|data:image\/(png|jpe?g|gif|webp);)/i.test(url.trim());
markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });

const purifier = DOMPurify(window);
purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "IMG") {
    const source = node.getAttribute("src") ?? "";
    // A picture from the network would tell its server that this was read.
    if (!/^data:image\/(png|jpe?g|gif|webp);/i.test(source)) {
      const text = document.createElement("span");
      text.textContent = `[picture: ${node.getAttribute("alt") || source}]`;
      node.replaceWith(text);
    }
  }
  if (node.tagName === "A") {
    node.setAttribute("rel", "noopener noreferrer");
    node.setAttribute("title", node.getAttribute("href") ?? "");
  }
  if (["P", "LI", "H1", "H2", "H3", "H4", "TD", "BLOCKQUOTE"].includes(node.tagName))
    node.setAttribute("dir", "auto");
  if (node.tagName === "PRE") node.setAttribute("tabindex", "0");
});

/** Safe HTML of a markdown text. */
export function toHtml(text: string): string {
  return purifier.sanitize(markdown.render(text), {
    FORBID_TAGS: ["style", "form", "input", "button", "iframe", "svg", "math", "video", "audio"],
    FORBID_ATTR: ["style", "id", "class", "srcset"],
    ADD_ATTR: ["dir", "tabindex"],
  });
}
