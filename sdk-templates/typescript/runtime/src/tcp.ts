// TCP by node:net, which Node, Deno and Bun have. It is imported when it is needed, so that browsers can load this file.

import type { Transport, TransportEvents } from "./transport.js";

const DEFAULT_PORT = 9876;

/** As much of node:net as is used, so that no project needs its types. */
interface Socket {
  write(bytes: Uint8Array): boolean;
  end(): void;
  destroy(): void;
  setNoDelay(on: boolean): void;
  unref(): void;
  on(event: string, listener: (...args: never[]) => void): void;
}

interface Net {
  connect(options: { host: string; port: number }): Socket;
}

/** Connects to `host:port`, `host`, or `tcp://host:port`. */
export async function dialTcp(address: string, events: TransportEvents, signal: AbortSignal): Promise<Transport> {
  const target = parseAddress(address);
  const socket = (await loadNet()).connect(target);
  return new Promise((resolve, reject) => {
    let last: unknown = new Error("the broker closed the connection");
    let open = false;
    const close = (): void => {
      // A peer that does not answer must not keep the program alive.
      socket.end();
      socket.unref();
    };
    const abort = (): void => {
      socket.destroy();
      reject(signal.reason);
    };
    signal.addEventListener("abort", abort, { once: true });
    socket.setNoDelay(true);
    socket.on("connect", () => {
      open = true;
      signal.removeEventListener("abort", abort);
      resolve({ write: (frames) => socket.write(frames), close, destroy: () => socket.destroy() });
    });
    socket.on("data", (chunk: Uint8Array) => events.received(new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.length)));
    socket.on("drain", () => events.drained());
    socket.on("error", (error: Error) => {
      last = error;
    });
    socket.on("close", () => {
      signal.removeEventListener("abort", abort);
      if (open) {
        events.ended(last);
      } else {
        reject(last);
      }
    });
    if (signal.aborted) {
      abort();
    }
  });
}

async function loadNet(): Promise<Net> {
  // Not a literal, so that bundlers for browsers leave it alone.
  const specifier = "node:net";
  try {
    return (await import(/* @vite-ignore */ /* webpackIgnore: true */ specifier)) as Net;
  } catch (cause) {
    throw new Error("there is no TCP here; connect to ws://host:9877 instead", { cause });
  }
}

/** The host and port of an address. */
export function parseAddress(address: string): { host: string; port: number } {
  const bare = address.replace(/^tcp:\/\//, "").replace(/\/$/, "");
  const match = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(bare);
  const host = match?.[1] ?? match?.[2];
  const port = match?.[3] === undefined ? DEFAULT_PORT : Number(match[3]);
  if (host === undefined || port > 65_535) {
    throw new TypeError(`${JSON.stringify(address)} is no address; write host:port, [::1]:port or ws://host:port`);
  }
  return { host, port };
}
