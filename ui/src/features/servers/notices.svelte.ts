// What is worth saying once about a server right after it was saved. Forgotten when it has been read.

/** By server's name. */
export const notices = $state<Record<string, string>>({});
