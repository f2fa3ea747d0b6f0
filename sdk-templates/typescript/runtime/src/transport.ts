// How frames reach the broker: TCP, or WebSocket where there is no TCP. Everything above sees whole frames out and bytes in.

import { dialTcp } from "./tcp.js";
import { dialWebSocket } from "./websocket.js";

/** An open way to the broker. */
export interface Transport {
  /** Sends whole frames. `false`: the way is full; wait for `drained`. */
  write(frames: Uint8Array): boolean;
  /** Sends what was written and closes. */
  close(): void;
  /** Closes at once. */
  destroy(): void;
}

/** What a transport tells its user. Nothing comes after `ended`. */
export interface TransportEvents {
  received(bytes: Uint8Array): void;
  drained(): void;
  /** The way is closed, from either side. */
  ended(why: unknown): void;
}

/** Opens a transport to an address. The signal ends the attempt. */
export type Dial = (address: string, events: TransportEvents, signal: AbortSignal) => Promise<Transport>;

/** WebSocket for `ws:` and `wss:` addresses, TCP for all others. */
export const dial: Dial = (address, events, signal) =>
  /^wss?:/.test(address) ? dialWebSocket(address, events, signal) : dialTcp(address, events, signal);
