// What is worth saying once about a server right after it was saved. Forgotten when it has been read.

/** Whether servers are being added now: what is half known of them is not said yet. */
export const adding = $state({ now: false });
/** By server's name. */
export const notices = $state<Record<string, string>>({});
