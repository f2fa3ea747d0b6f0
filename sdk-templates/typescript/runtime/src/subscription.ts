// Consuming a queue: options, and the subscription that yields deliveries. It survives reconnects; its leases do not.

import { create, toBinary } from "@bufbuild/protobuf";

import type { Arrival } from "./arrival.js";
import { type Decode, Delivery } from "./delivery.js";
import type { Driver } from "./driver.js";
import { ClosedError, DecodeError, type QwerqError } from "./errors.js";
import type { Ledger } from "./ledger.js";
import type { Feed } from "./request.js";
import { type ConsumeAck, ConsumeSchema, Role, type StartAt as WireStartAt, StartAtSchema } from "./wire_pb.js";

/** What the broker takes for a prefetch of 0, and for 0 bytes. */
const PREFETCH_DEFAULT = 32;
const PREFETCH_BYTES_DEFAULT = 16 * 1024 * 1024;

/** Where a new group, or a reader without one, begins: at the oldest message, at the next one, at an offset, or at a time. */
export type StartAt = "beginning" | "end" | { readonly offset: bigint | number } | { readonly time: Date };

/** How to consume. */
export interface ConsumeOptions {
  /** The consumer group. Absent: `default` on a queue; no group, a reader of its own, on a stream. */
  group?: string;
  /** Unsettled messages at most. Default: 32. */
  prefetch?: number;
  /** Unsettled payload bytes at most. Default: 16 MiB. */
  prefetchBytes?: number;
  /** Messages worked on at once; only the oldest so many count an attempt when the connection is lost. Default: 1. */
  concurrency?: number;
  /** How long a lease lasts between renewals. Default: as the queue says. */
  visibilityTimeoutMs?: number;
  /** Where a new group, or a reader without one, begins. */
  startAt?: StartAt;
  /** Follow the tail without a group and without leases. */
  tail?: boolean;
  /** Ends the subscription as `drain` does. */
  signal?: AbortSignal;
}

/** What the broker has agreed to. */
export interface Opened {
  /** The group that the subscription is in; empty for a reader without one. */
  readonly group: string;
  /** The group was there before, so `startAt` was ignored. */
  readonly groupExisted: boolean;
  /** How long a lease lasts. */
  readonly visibilityTimeoutMs: number;
}

interface Taker<T> {
  resolve(result: IteratorResult<Delivery<T>, undefined>): void;
  reject(error: unknown): void;
}

/**
 * An open subscription: `for await (const message of subscription)`. It is opened again after every reconnect; deliveries of the lost
 * connection that nobody has taken yet vanish from it, since their leases have ended. Leaving the loop ends it as `drain` does.
 */
export class Subscription<T> implements AsyncIterableIterator<Delivery<T>>, AsyncDisposable {
  /** The queue that it consumes. */
  readonly queue: string;
  /** Resolves when the broker has agreed for the first time. */
  readonly ready: Promise<Opened>;
  readonly #driver: Driver;
  readonly #number: number;
  readonly #options: ConsumeOptions;
  readonly #contract: Uint8Array;
  readonly #decode: Decode<T>;
  readonly #onAbort: () => void;
  #items: Delivery<T>[] = [];
  #next = 0;
  #takers: Taker<T>[] = [];
  #over = false;
  #error: QwerqError | undefined;
  #wasOpen = false;
  // A reader without leases: it keeps its own position and asks for more as it goes.
  #leaseless = false;
  #position: bigint | undefined;
  #prefetch: number;
  #prefetchBytes: number;
  #taken = 0;
  #takenBytes = 0;
  #readyDone: { resolve(opened: Opened): void; reject(error: unknown): void } | undefined;

  /** @internal */
  constructor(driver: Driver, number: number, queue: string, contract: Uint8Array, options: ConsumeOptions, decode: Decode<T>) {
    this.queue = queue;
    this.#driver = driver;
    this.#number = number;
    this.#options = options;
    this.#contract = contract;
    this.#decode = decode;
    this.#leaseless = options.tail === true;
    this.#prefetch = options.prefetch ?? PREFETCH_DEFAULT;
    this.#prefetchBytes = options.prefetchBytes ?? PREFETCH_BYTES_DEFAULT;
    this.ready = new Promise((resolve, reject) => {
      this.#readyDone = { resolve, reject };
    });
    // Whoever iterates gets the error there.
    this.ready.catch(() => {});
    this.#onAbort = () => void this.drain().catch(() => {});
    const closed = driver.closed;
    if (closed !== undefined) {
      this.#end(closed);
    } else if (options.signal?.aborted === true) {
      this.#end(undefined);
    } else {
      options.signal?.addEventListener("abort", this.#onAbort, { once: true });
      const feed = this.#feed();
      driver.work.feeds.set(number, feed);
      driver.session?.open(feed);
    }
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** The next delivery; done when the subscription has ended. Rejects once with what ended it, if it was an error. */
  next(): Promise<IteratorResult<Delivery<T>, undefined>> {
    const delivery = this.#take();
    if (delivery !== undefined) {
      return Promise.resolve({ done: false, value: delivery });
    }
    if (this.#over) {
      const error = this.#error;
      this.#error = undefined;
      return error === undefined ? Promise.resolve({ done: true, value: undefined }) : Promise.reject(error);
    }
    this.#grantMore(true);
    return new Promise((resolve, reject) => this.#takers.push({ resolve, reject }));
  }

  /** Ends the loop: as `drain`. */
  async return(): Promise<IteratorResult<Delivery<T>, undefined>> {
    await this.drain();
    return { done: true, value: undefined };
  }

  /**
   * Works on `concurrency` messages at once, until the subscription ends. A message is acknowledged when the handler has returned and
   * nacked when it has thrown; one that is no message of the contract is rejected. A handler that settles by itself is left alone.
   */
  async forEach(handler: (message: Delivery<T>) => void | Promise<void>): Promise<void> {
    const worker = async (): Promise<void> => {
      for (let next = await this.next(); next.done !== true; next = await this.next()) {
        await handle(next.value, handler);
      }
    };
    await Promise.all(Array.from({ length: Math.max(1, this.#options.concurrency ?? 1) }, worker));
  }

  /**
   * Ends the subscription. All leases that came by it are released without counting an attempt, those of messages that are being worked
   * on too: settle these first, or use `drain`.
   */
  close(): Promise<void> {
    return this.#leave(false);
  }

  /** Ends the subscription, but lets messages that were handed out keep their leases until they are settled. */
  drain(): Promise<void> {
    return this.#leave(true);
  }

  /** Changes how much the subscription may hold; 0 messages pause it. */
  setPrefetch(messages: number, bytes: number = PREFETCH_BYTES_DEFAULT): void {
    this.#prefetch = messages;
    this.#prefetchBytes = bytes;
    this.#driver.session?.credit(this.#number, messages, bytes);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drain();
  }

  #leave(keepLeases: boolean): Promise<void> {
    if (this.#over) {
      return Promise.resolve();
    }
    const { session, work } = this.#driver;
    work.feeds.delete(this.#number);
    const unread = this.#items.slice(this.#next);
    this.#end(undefined);
    for (const delivery of unread.filter((delivery) => !delivery.stale)) {
      delivery.release();
    }
    if (session === undefined) {
      return Promise.resolve();
    }
    return new Promise((resolve, reject) =>
      session.unsubscribe(this.#number, keepLeases, (error) => (error === undefined ? resolve() : reject(error))),
    );
  }

  #take(): Delivery<T> | undefined {
    for (let item = this.#items[this.#next]; item !== undefined; item = this.#items[this.#next]) {
      this.#next += 1;
      if (this.#next === this.#items.length) {
        this.#items = [];
        this.#next = 0;
      }
      if (!item.stale) {
        this.#taken += 1;
        this.#takenBytes += item.payload.length;
        this.#grantMore(false);
        return item;
      }
    }
    return undefined;
  }

  /**
   * A reader without leases settles nothing, so CREDIT says that there is room again: when half of the last one is used, or, when the reader
   * is about to wait, any of it, since the broker may be holding back a message that did not fit.
   */
  #grantMore(aboutToWait: boolean): void {
    const half = this.#taken >= Math.ceil(this.#prefetch / 2) || this.#takenBytes >= this.#prefetchBytes / 2;
    if (!this.#leaseless || this.#taken === 0 || this.#prefetch === 0 || !(half || aboutToWait)) {
      return;
    }
    this.#driver.session?.credit(this.#number, this.#prefetch, this.#prefetchBytes);
    this.#taken = 0;
    this.#takenBytes = 0;
  }

  #feed(): Feed {
    const subscription = this;
    return {
      number: this.#number,
      get wasOpen() {
        return subscription.#wasOpen;
      },
      consume: () => this.#consume(),
      opened: (ack) => this.#opened(ack),
      delivered: (messages, ledger) => this.#delivered(messages, ledger),
      called: () => {},
      lost: () => this.#lost(),
      ended: (error) => this.#end(error),
    };
  }

  #consume(): Uint8Array {
    const { group, concurrency, visibilityTimeoutMs, startAt, tail } = this.#options;
    const begin = this.#leaseless && this.#position !== undefined ? { offset: this.#position } : startAt;
    const consume = create(ConsumeSchema, {
      subscription: this.#number,
      queue: this.queue,
      group: group ?? "",
      // 0 would be the broker's default; a paused subscription is paused again by CREDIT.
      prefetch: Math.max(1, this.#prefetch),
      prefetchBytes: BigInt(this.#prefetchBytes),
      concurrency: concurrency ?? 0,
      visibilityTimeoutMs: BigInt(visibilityTimeoutMs ?? 0),
      role: tail === true ? Role.TAIL : Role.CONSUME,
      contract: this.#contract,
    });
    if (begin !== undefined) {
      consume.startAt = wireStartAt(begin);
    }
    return toBinary(ConsumeSchema, consume);
  }

  #opened(ack: ConsumeAck): void {
    this.#wasOpen = true;
    this.#leaseless = this.#options.tail === true || ack.group === "";
    this.#taken = 0;
    this.#takenBytes = 0;
    if (this.#prefetch === 0) {
      this.#driver.session?.credit(this.#number, 0, this.#prefetchBytes);
    }
    this.#readyDone?.resolve({ group: ack.group, groupExisted: ack.groupExisted, visibilityTimeoutMs: Number(ack.visibilityTimeoutMs) });
  }

  #delivered(messages: readonly Arrival[], ledger: Ledger): void {
    const now = performance.now();
    for (const arrival of messages) {
      const lease =
        arrival.leaseId.length === 0
          ? undefined
          : ledger.hold(arrival.leaseId, this.#number, arrival.leaseMs, false, now);
      this.#position = arrival.seq + 1n;
      this.#items.push(new Delivery(this.queue, arrival, this.#decode, lease));
    }
    for (let taker = this.#takers[0]; taker !== undefined; taker = this.#takers[0]) {
      const value = this.#take();
      if (value === undefined) {
        return;
      }
      this.#takers.shift();
      taker.resolve({ done: false, value });
    }
  }

  /** Leases have ended; what a reader without leases has is still its own. */
  #lost(): void {
    if (!this.#leaseless) {
      this.#items = [];
      this.#next = 0;
    }
  }

  #end(error: QwerqError | undefined): void {
    if (this.#over) {
      return;
    }
    this.#over = true;
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    this.#readyDone?.reject(error ?? new ClosedError());
    if (!this.#leaseless || error === undefined) {
      this.#items = [];
      this.#next = 0;
    }
    const [first, ...others] = this.#takers.splice(0);
    if (first === undefined || error === undefined) {
      this.#error = error;
      first?.resolve({ done: true, value: undefined });
    } else {
      first.reject(error);
    }
    for (const taker of others) {
      taker.resolve({ done: true, value: undefined });
    }
  }
}

async function handle<T>(message: Delivery<T>, handler: (message: Delivery<T>) => void | Promise<void>): Promise<void> {
  try {
    await handler(message);
  } catch (error) {
    if (message.held) {
      if (error instanceof DecodeError) {
        message.reject(error.message);
      } else {
        message.nack({ reason: error instanceof Error ? error.message : String(error) });
      }
    }
    return;
  }
  if (message.held) {
    message.ack();
  }
}

/** Where to begin, as the wire says it. */
export function wireStartAt(startAt: StartAt): WireStartAt {
  if (startAt === "beginning" || startAt === "end") {
    return create(StartAtSchema, { at: { case: startAt, value: true } });
  }
  if ("offset" in startAt) {
    return create(StartAtSchema, { at: { case: "offset", value: BigInt(startAt.offset) } });
  }
  return create(StartAtSchema, { at: { case: "timeMs", value: BigInt(startAt.time.getTime()) } });
}
