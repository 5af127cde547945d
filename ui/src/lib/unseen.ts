// Makes text of others exact: what a screen would hide or use to turn the rest around is written as an escape. It changes no text that is stored or sent.

/** Characters without a sign of their own: controls, format and bidi marks, fillers, tags, lone surrogates. Lines and tabs are seen. */
const UNSEEN =
  /(?:(?![\n\t]|\r\n|(?<=\p{Extended_Pictographic})\ufe0f)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}])+/gu;
/** Letters that are written from right to left. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;
const JSON_STRING = /"(?:[^"\\\n]|\\.)*"/g;

/** A part of a text as it is shown. */
export interface Piece {
  text: string;
  /** Stands for characters that would not be seen. */
  escape: boolean;
}
/** Pieces that stand together, kept from turning their neighbours around where `apart`. */
export interface Stretch {
  pieces: Piece[];
  apart: boolean;
}

function escape(run: string): string {
  return [...run]
    .map((one) => {
      const code = one.codePointAt(0) ?? 0;
      return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
    })
    .join("");
}

/** The text with escapes in place of what would not be seen; for titles, names and what is read aloud. */
export function visible(text: string): string {
  return text.replace(UNSEEN, escape);
}

/** The same in parts. `json`: each string in it is kept apart from what stands beside it. */
export function stretches(text: string, json = false): Stretch[] {
  if (!json || !RIGHT_TO_LEFT.test(text)) return [{ pieces: pieces(text), apart: false }];
  const found: Stretch[] = [];
  let at = 0;
  for (const match of text.matchAll(JSON_STRING)) {
    if (match.index > at) found.push({ pieces: pieces(text.slice(at, match.index)), apart: false });
    found.push({ pieces: pieces(match[0]), apart: true });
    at = match.index + match[0].length;
  }
  if (at < text.length) found.push({ pieces: pieces(text.slice(at)), apart: false });
  return found;
}

function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let at = 0;
  for (const match of text.matchAll(UNSEEN)) {
    if (match.index > at) found.push({ text: text.slice(at, match.index), escape: false });
    found.push({ text: escape(match[0]), escape: true });
    at = match.index + match[0].length;
  }
  if (at < text.length) found.push({ text: text.slice(at), escape: false });
  return found;
}

/** For a tooltip: exact, and no longer than people read there. */
export function brief(text: string, most = 200): string {
  const shown = visible(text);
  return shown.length > most ? `${shown.slice(0, most - 1)}…` : shown;
}
