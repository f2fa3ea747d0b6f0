// Publishes of one queue on their way out: they collect in the order in which they were made, and leave in batches, one PUBLISH each.
// Nothing waits for a timer; `session` takes batches whenever the connection can carry them.

import { type QwerqError } from "./errors.js";
import { type Item, type Published, itemSize } from "./publish.js";

/** Messages of one PUBLISH at most. */
const BATCH_MESSAGES_MAX = 256;

/** Bytes of one PUBLISH at most, unless a single message is larger. */
export const BATCH_BYTES_MAX: number = 256 * 1024;

/** Entries that have left are taken out of the list when there are so many. */
const TRIM_AT = 8192;

/** One message on its way. */
export interface Entry {
  readonly item: Item;
  done(result: Published | QwerqError): void;
}

/** One PUBLISH's worth of messages. */
export interface Batch {
  readonly entries: readonly Entry[];
  readonly bytes: number;
  readonly atomic: boolean;
  /** How often the broker has answered `overloaded`. */
  readonly refused: number;
  /** When a connection was first lost on which it may have been stored. */
  readonly lostAt?: number | undefined;
}

/** The way out of one queue, under one contract. */
export class Lane {
  readonly queue: string;
  readonly contract: Uint8Array;
  /** Waits in the connection's list of lanes with work. */
  listed = false;
  #entries: Entry[] = [];
  #taken = 0;
  // Batches that go out as they are, before the entries: atomic ones, and those that come back.
  #batches: Batch[] = [];

  constructor(queue: string, contract: Uint8Array) {
    this.queue = queue;
    this.contract = contract;
  }

  push(entry: Entry): void {
    this.#entries.push(entry);
  }

  /** What is published before goes out before: the entries so far become batches. */
  pushAtomic(entries: readonly Entry[]): void {
    for (let batch = this.#cut(); batch !== undefined; batch = this.#cut()) {
      this.#batches.push(batch);
    }
    this.#batches.push(batchOf(entries, true, 0));
  }

  /** Puts batches back in front, in their order. */
  putBack(batches: readonly Batch[]): void {
    this.#batches.unshift(...batches);
  }

  get empty(): boolean {
    return this.#batches.length === 0 && this.#entries.length === this.#taken;
  }

  /** The next batch. */
  take(): Batch | undefined {
    return this.#batches.shift() ?? this.#cut();
  }

  #cut(): Batch | undefined {
    const from = this.#taken;
    let bytes = 0;
    let at = from;
    for (let next = this.#entries[at]; next !== undefined && at - from < BATCH_MESSAGES_MAX; next = this.#entries[at]) {
      const size = itemSize(next.item);
      if (at > from && bytes + size > BATCH_BYTES_MAX) {
        break;
      }
      bytes += size;
      at += 1;
    }
    if (at === from) {
      return undefined;
    }
    const entries = this.#entries.slice(from, at);
    this.#taken = at;
    if (this.#taken === this.#entries.length || this.#taken >= TRIM_AT) {
      this.#entries.splice(0, this.#taken);
      this.#taken = 0;
    }
    return { entries, bytes, atomic: false, refused: 0 };
  }
}

/** A batch of those entries. */
export function batchOf(entries: readonly Entry[], atomic: boolean, refused: number, lostAt?: number): Batch {
  return { entries, bytes: entries.reduce((sum, entry) => sum + itemSize(entry.item), 0), atomic, refused, lostAt };
}
