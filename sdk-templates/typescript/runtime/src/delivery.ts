// A message on loan: its contents, and what its holder says about it in the end. The loan itself is kept in `ledger`.

import { formatId } from "./message_id.js";
import { type Lease, type Say } from "./ledger.js";
import { Opcode } from "./opcode.js";
import type { Arrival } from "./arrival.js";

/** Turns a payload into what the holder sees. */
export type Decode<T> = (payload: Uint8Array, what: string) => T;

/** A stored message. */
export class StoredMessage<T> {
  /** The queue that it came from. */
  readonly queue: string;
  readonly #arrival: Arrival;
  readonly #decode: Decode<T>;
  #body: { value: T } | undefined;
  #headers: ReadonlyMap<string, string> | undefined;

  constructor(queue: string, arrival: Arrival, decode: Decode<T>) {
    this.queue = queue;
    this.#arrival = arrival;
    this.#decode = decode;
  }

  /** The message. Throws a DecodeError when the payload is not what the contract says. */
  get body(): T {
    this.#body ??= { value: this.#decode(this.payload, `the payload (queue ${this.queue}, seq ${this.seq})`) };
    return this.#body.value;
  }

  /** The payload, byte for byte as it was published: a view into what was read together with it. */
  get payload(): Uint8Array {
    return this.#arrival.payload;
  }

  /** The message's id, a ULID when the broker made it. */
  get id(): string {
    return formatId(this.#arrival.id);
  }

  /** Its position in the queue, or offset in the stream. */
  get seq(): bigint {
    return this.#arrival.seq;
  }

  /** When the broker accepted it. */
  get publishedAt(): Date {
    return new Date(this.#arrival.publishedAtMs);
  }

  /** The version of the contract that it was accepted under; 0 on a queue without one. */
  get schemaVersion(): number {
    return this.#arrival.schemaVersion;
  }

  /** Its headers. */
  get headers(): ReadonlyMap<string, string> {
    this.#headers ??= headerMap(this.#arrival.headers);
    return this.#headers;
  }

  /** Its ordering key. */
  get orderingKey(): string | undefined {
    return this.#arrival.orderingKey === "" ? undefined : this.#arrival.orderingKey;
  }

  /** Streams: so many messages before this one were removed by retention before the group saw them. */
  get skipped(): bigint {
    return this.#arrival.skipped;
  }

  /** Which delivery of this message to this group it is, from 1. */
  get attempt(): number {
    return this.#arrival.attempt;
  }
}

/**
 * A message that this consumer holds a lease on. Settle it: `ack`, `nack`, `reject` or `release`. The client renews the lease until then,
 * or until nothing refers to the delivery any more. A reader without leases (a stream without a group, or `tail`) may settle too; nothing
 * happens.
 */
export class Delivery<T> extends StoredMessage<T> {
  readonly #lease: Lease | undefined;

  constructor(queue: string, arrival: Arrival, decode: Decode<T>, lease: Lease | undefined) {
    super(queue, arrival, decode);
    this.#lease = lease;
    lease?.ledger.watch(this, lease);
  }

  /** The lease's id; `undefined` for a reader without leases. */
  get leaseId(): Uint8Array | undefined {
    return this.#lease?.id;
  }

  /** Whether the lease is known to have ended, with its connection or its subscription. */
  get stale(): boolean {
    return this.#lease?.state === "lost";
  }

  /** Whether the lease still waits to be settled, as far as this side knows. */
  get held(): boolean {
    return this.#lease?.state === "held";
  }

  /**
   * The message is done. It rides in a shared frame; nothing is waited for.
   * Throws `stale-lease` when the lease is known to have ended; the message is delivered again.
   */
  ack(): void {
    this.#settle({ opcode: Opcode.Ack });
  }

  /** The message is done; resolves when that is durable. */
  ackConfirmed(): Promise<void> {
    return this.#settleConfirmed({ opcode: Opcode.Ack });
  }

  /** The attempt failed; the message comes again after the queue's backoff, or after `delayMs`, 0 included. */
  nack(options: NackOptions = {}): void {
    this.#settle(nack(options));
  }

  /** As `nack`; resolves when that is durable. */
  nackConfirmed(options: NackOptions = {}): Promise<void> {
    return this.#settleConfirmed(nack(options));
  }

  /** The message is hopeless: to failure handling at once, with a reason for whoever looks at the dead letter. */
  reject(reason: string): void {
    this.#settle({ opcode: Opcode.Reject, reason });
  }

  /** As `reject`; resolves when that is durable. */
  rejectConfirmed(reason: string): Promise<void> {
    return this.#settleConfirmed({ opcode: Opcode.Reject, reason });
  }

  /** Gives the message back as if it had not been delivered. */
  release(): void {
    this.#settle({ opcode: Opcode.Release });
  }

  /** Makes the lease end so long from now. Only a hint to the broker: the client renews by itself. */
  extend(lengthMs: number): Promise<void> {
    return this.#lease === undefined ? Promise.resolve() : this.#lease.ledger.extend(this.#lease, Math.round(lengthMs));
  }

  #settle(say: Say): void {
    this.#lease?.ledger.settle(this.#lease, say);
  }

  #settleConfirmed(say: Say): Promise<void> {
    return this.#lease === undefined ? Promise.resolve() : this.#lease.ledger.settleConfirmed(this.#lease, say);
  }
}

/** How an attempt failed. */
export interface NackOptions {
  /** Before the next delivery; absent: the queue's `retry_backoff`. */
  delayMs?: number;
  /** Goes into the dead letter's headers. */
  reason?: string;
}

function nack({ delayMs, reason }: NackOptions): Say {
  return { opcode: Opcode.Nack, delayMs: delayMs === undefined ? undefined : BigInt(Math.round(delayMs)), reason };
}

/** Headers by name; of a repeated one the first. */
export function headerMap(headers: readonly { readonly name: string; readonly value: string }[]): ReadonlyMap<string, string> {
  const map = new Map<string, string>();
  for (const { name, value } of headers) {
    if (!map.has(name)) {
      map.set(name, value);
    }
  }
  return map;
}
