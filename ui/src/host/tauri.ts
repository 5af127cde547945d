// The desktop shell: one command `call` and one event `evi`. The only importer of @tauri-apps/api.
import { invoke } from "@tauri-apps/api/core";
import { listen } from "@tauri-apps/api/event";

import type { Command, Event } from "../contract/contract";
import type { Host, HostEvent, Input, Output } from "./host";
import { asProblem } from "./host";

/** The host of the desktop window. */
export function tauriHost(): Host {
  return {
    name: "desktop",
    async call<C extends Command>(command: C, params: Input<C>): Promise<Output<C>> {
      try {
        return await invoke<Output<C>>("call", { command, params });
      } catch (error) {
        throw asProblem(error);
      }
    },
    openExternal(url: string) {
      // The address stands beside the link, so a browser that does not open loses nothing.
      void invoke("open_external", { url }).catch(() => undefined);
    },
    listen(handler: (event: HostEvent) => void) {
      let ended = false;
      let stop: (() => void) | undefined;
      void listen<Event>("evi", (event) => handler(event.payload)).then((unlisten) => {
        if (ended) unlisten();
        else {
          stop = unlisten;
          handler({ kind: "connected" });
        }
      });
      return () => {
        ended = true;
        stop?.();
      };
    },
  };
}
