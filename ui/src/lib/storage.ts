// Small preferences kept in the page's local storage. Never a secret, never anything that eVi itself must know.

/** Reads a preference; anything unreadable is as if it were absent. */
export function recall<T>(key: string, fallback: T): T {
  try {
    const text = localStorage.getItem(`evi.${key}`);
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

/** Keeps a preference, where the browser lets us. */
export function remember(key: string, value: unknown): void {
  try {
    localStorage.setItem(`evi.${key}`, JSON.stringify(value));
  } catch {
    // A full or forbidden storage costs only the preference.
  }
}
