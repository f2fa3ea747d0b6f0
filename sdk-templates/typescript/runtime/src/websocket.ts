// The same frames over WebSocket, for browsers: a binary message holds whole frames.

import type { Transport, TransportEvents } from "./transport.js";

/** Bytes that may wait in the browser before publishers are held back. */
const BUFFERED_MAX = 1024 * 1024;

/** How often a full buffer is looked at: WebSocket has no event for it. */
const POLL_MS = 10;

/** As much of the browser's WebSocket as is used, so that no project needs the DOM's types. */
interface Socket {
  binaryType: string;
  readonly bufferedAmount: number;
  send(bytes: Uint8Array): void;
  close(): void;
  addEventListener(event: string, listener: (event: { data?: unknown; reason?: string; code?: number }) => void): void;
}

/** Connects to `ws://host:port` or `wss://host:port`; the path is `/ws` unless the address has another. */
export async function dialWebSocket(address: string, events: TransportEvents, signal: AbortSignal): Promise<Transport> {
  const WebSocket = (globalThis as { WebSocket?: new (url: string) => Socket }).WebSocket;
  if (WebSocket === undefined) {
    throw new Error("there is no WebSocket here (Node has one from version 22); connect to host:9876 by TCP instead");
  }
  const socket = new WebSocket(withPath(address));
  socket.binaryType = "arraybuffer";
  return new Promise((resolve, reject) => {
    let open = false;
    let over = false;
    let poll: ReturnType<typeof setInterval> | undefined;
    const end = (why: unknown): void => {
      if (over) {
        return;
      }
      over = true;
      clearInterval(poll);
      signal.removeEventListener("abort", abort);
      if (open) {
        events.ended(why);
      } else {
        reject(why);
      }
    };
    const abort = (): void => {
      end(signal.reason);
      socket.close();
    };
    const waitForRoom = (): void => {
      poll ??= setInterval(() => {
        if (socket.bufferedAmount < BUFFERED_MAX) {
          clearInterval(poll);
          poll = undefined;
          events.drained();
        }
      }, POLL_MS);
    };
    signal.addEventListener("abort", abort, { once: true });
    socket.addEventListener("open", () => {
      open = true;
      signal.removeEventListener("abort", abort);
      resolve({
        write(frames) {
          socket.send(frames);
          const room = socket.bufferedAmount < BUFFERED_MAX;
          if (!room) {
            waitForRoom();
          }
          return room;
        },
        close: () => socket.close(),
        destroy() {
          // A broken peer answers no closing handshake, so nobody waits for it.
          socket.close();
          end(new Error("closed"));
        },
      });
    });
    socket.addEventListener("message", ({ data }) => {
      if (over) {
        return;
      }
      if (data instanceof ArrayBuffer) {
        events.received(new Uint8Array(data));
      } else {
        end(new Error("the broker sent a text message, which is no frame"));
        socket.close();
      }
    });
    socket.addEventListener("error", () => end(new Error(`the WebSocket to ${address} failed`)));
    socket.addEventListener("close", ({ reason }) => end(new Error(reason || "the broker closed the connection")));
    if (signal.aborted) {
      abort();
    }
  });
}

function withPath(address: string): string {
  const url = new URL(address);
  if (url.pathname === "/") {
    url.pathname = "/ws";
  }
  return url.href;
}
