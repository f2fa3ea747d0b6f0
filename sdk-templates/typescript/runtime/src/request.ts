// A request on its way, and what is left for the connection to do: requests, lanes with publishes, open feeds. It outlives connections.

import type { Arrival } from "./arrival.js";
import type { QwerqError } from "./errors.js";
import type { Lane } from "./lane.js";
import type { Ledger } from "./ledger.js";
import type { RetryKeys } from "./retry_key.js";
import type { Call, ConsumeAck } from "./wire_pb.js";

/** A correlated frame and who waits for its reply. */
export interface Request {
  readonly opcode: number;
  readonly payload: Uint8Array;
  /** The opcode that answers it. */
  readonly expect: number;
  /** Twice is like once, so that it may be sent again after a lost connection. */
  readonly safe: boolean;
  /** It may wait for somebody other than the broker. */
  readonly mayWait: boolean;
  /** How often the broker has answered `overloaded`. */
  refused: number;
  /** Nobody waits for it any more. */
  cancelled: boolean;
  resolve(reply: Reply): void;
  reject(error: unknown): void;
}

/** The payload that answered, and the ledger of the connection that it came by. */
export interface Reply {
  readonly payload: Uint8Array;
  readonly ledger: Ledger;
}

/** A subscription as the connection sees it. */
export interface Feed {
  readonly number: number;
  /** The message of its CONSUME; a reader that keeps its own position goes on there. */
  consume(): Uint8Array;
  /** The broker has agreed, for the first time or again. */
  opened(ack: ConsumeAck): void;
  /** Whether the broker has ever agreed. */
  readonly wasOpen: boolean;
  /** Messages have arrived. */
  delivered(messages: readonly Arrival[], ledger: Ledger): void;
  /** A call has arrived; `answer` sends the message of a CALL_RESPONSE. */
  called(call: Call, answer: (response: Uint8Array) => void): void;
  /** The connection is gone, and with it all leases. */
  lost(): void;
  /** It is over: with an error, or because it was closed. */
  ended(error: QwerqError | undefined): void;
}

/** What waits for a connection. */
export interface Work {
  requests: Request[];
  lanes: Lane[];
  readonly feeds: Map<number, Feed>;
  /** The client is closing: nothing new comes. */
  closing: boolean;
  /** Keys for publishes without one, where they may have to be retried. */
  readonly retryKeys: RetryKeys;
}
