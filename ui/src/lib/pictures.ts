// Pictures that came as data. An address of a picture would be fetched, so it is none.

/** The address for an `img`, if the data is a picture of a kind that holds no script. */
export function picture(mime: string | undefined, data: string | undefined): string | undefined {
  return data !== undefined && /^image\/(png|jpe?g|gif|webp|avif|bmp)$/.test(mime ?? "")
    ? `data:${mime};base64,${data}`
    : undefined;
}

/** The bytes of a base64 text; `undefined` when it is none. */
export function decoded(base64: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(base64.replace(/\s/g, "")), (c) => c.charCodeAt(0));
  } catch {
    return undefined;
  }
}
