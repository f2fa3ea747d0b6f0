// The client: a handle to one connection that comes back by itself. Payloads are bytes here; `queue` and `service` put types on them.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { DescMessage, MessageInitShape, MessageShape } from "@bufbuild/protobuf";

import { Admin } from "./admin.js";
import { decodeFetched } from "./arrival.js";
import type { ReconnectOptions } from "./backoff.js";
import { type Decode, Delivery, headerMap } from "./delivery.js";
import { type ConnectionState, Driver } from "./driver.js";
import { type QwerqError, UnavailableError, fromWire } from "./errors.js";
import { type Entry, Lane } from "./lane.js";
import type { Say } from "./ledger.js";
import { Opcode } from "./opcode.js";
import { type HeadersInit, type Item, type Published, type PublishOptions, encodeItem, hasKey, itemSize, wireHeaders } from "./publish.js";
import type { Reply, Request } from "./request.js";
import { type CallContext, Responder, type ServeOptions } from "./responder.js";
import { addressesOf } from "./route.js";
import { type ConsumeOptions, type StartAt, Subscription, wireStartAt } from "./subscription.js";
import { type Dial, dial } from "./transport.js";
import { Window } from "./window.js";
import { CallResponseSchema, CallSchema, FetchSchema, SettleSchema, type Settled, SettledSchema } from "./wire_pb.js";

/** The version of this runtime, which the broker shows. */
export const VERSION: string = "0.1.0";

/** How long a call waits when nothing is said. */
const CALL_TIMEOUT_MS = 30_000;

/** The longest that setTimeout waits. */
const TIMER_MS_MAX = 0x7fff_ffff;

const NO_CONTRACT = new Uint8Array(0);

/** Settings of a client. */
export interface ConnectOptions {
  /** The broker's auth token. */
  token?: string;
  /** The name that the broker shows for this client. Default: `qwerq-typescript`. */
  clientName?: string;
  /** The version that the broker shows for this client. Default: the runtime's. */
  clientVersion?: string;
  /** Messages that may be published and not yet acknowledged; beyond it publishers wait. Default: 1,024. */
  publishWindow?: number;
  /** Payload bytes that may be published and not yet acknowledged. Default: 16 MiB. */
  publishWindowBytes?: number;
  /** How often this side says something at least. Default, and at most: what the broker says (10 s). */
  heartbeatMs?: number;
  /** How long one attempt to connect may take. Default: 5 s. */
  connectTimeoutMs?: number;
  /** How long a lease is renewed at most, from its delivery. Default: 12 h. */
  maxLeaseMs?: number;
  /** What to do when the connection is lost. Default: come back for ever. */
  reconnect?: ReconnectOptions;
  /** Told when the connection is made, lost, and closed for good. */
  onConnection?: (state: ConnectionState) => void;
  /** Opens connections otherwise: through a proxy, or in a test. */
  dial?: Dial;
  /** Ends the first attempt to connect. */
  signal?: AbortSignal;
}

/** How to pull messages. */
export interface FetchOptions {
  /** The consumer group. Absent: `default`. */
  group?: string;
  /** Messages at most. Default: 1. */
  max?: number;
  /** How long to wait for the first one. Default: not at all. */
  waitMs?: number;
  /** How long a lease lasts between renewals. Default: as the queue says. */
  visibilityTimeoutMs?: number;
  /** The leases outlive this connection and are not renewed: they end by time, or by whoever presents the lease id. */
  detached?: boolean;
  /** Where a new group begins. */
  startAt?: StartAt;
  /** Ends the waiting; messages that arrive all the same go back uncounted. */
  signal?: AbortSignal;
}

/** How to call. */
export interface CallOptions {
  /** How long to wait for the reply. Default: 30 s. */
  timeoutMs?: number;
  /** Headers of the request. */
  headers?: HeadersInit;
  /** Cancels the call. */
  signal?: AbortSignal;
}

/** The answer to a call. */
export interface Replied {
  readonly payload: Uint8Array;
  readonly headers: ReadonlyMap<string, string>;
}

/** A message that was handed in; its result comes later. */
export interface Receipt {
  /** Resolves when the message is durable. It goes out whether or not anybody waits. */
  readonly result: Promise<Published>;
}

/** A message to publish in a batch. */
export interface OutMessage {
  readonly payload: Uint8Array;
  readonly options?: PublishOptions | undefined;
}

/** What is said about a lease by its id: see `Client.settle`. */
export type Settlement =
  | { readonly ack: true }
  | { readonly nack: { readonly delayMs?: number; readonly reason?: string } }
  | { readonly reject: string }
  | { readonly release: true }
  | { readonly extendMs: number };

/**
 * Connects to a broker: `host:port` by TCP, `ws://host:port` by WebSocket; or to the leader of a cluster by some of its nodes, as an array
 * or with commas in between. Tries each address once, in random order, and goes to the leader that a node names; while a cluster has no
 * leader it keeps trying for ten seconds. Throws ConnectError when no broker answers, or none that leads, RefusedError when one does but
 * refuses the token.
 */
export async function connectClient(address: string | readonly string[], options: ConnectOptions = {}): Promise<Client> {
  const client = new Client(addressesOf(address), options);
  await client.connected(options.signal);
  return client;
}

/** A connection to a broker. Close it, or declare it with `await using`. */
export class Client implements AsyncDisposable {
  /** Queues, groups, schemas and dead letters, for operators' tools. */
  readonly admin: Admin;
  readonly #driver: Driver;
  readonly #window: Window;
  /** By queue, then by contract: those of generated code are one object each. */
  readonly #lanes = new Map<string, Map<Uint8Array, Lane>>();
  #subscriptions = 0;

  /** @internal Use `connectClient`. */
  constructor(addresses: readonly string[], options: ConnectOptions) {
    this.#window = new Window(options.publishWindow ?? 1024, options.publishWindowBytes ?? 16 * 1024 * 1024);
    this.#driver = new Driver(
      {
        addresses,
        token: options.token ?? "",
        clientName: options.clientName ?? "qwerq-typescript",
        clientVersion: options.clientVersion ?? VERSION,
        connectTimeoutMs: options.connectTimeoutMs ?? 5_000,
        heartbeatMs: options.heartbeatMs,
        maxLeaseMs: options.maxLeaseMs ?? 12 * 60 * 60 * 1000,
        reconnect: options.reconnect ?? {},
        onConnection: options.onConnection,
        dial: options.dial ?? dial,
      },
      (error) => this.#window.close(error),
    );
    this.admin = new Admin((opcode, schema, message, expect, reply, safe) => this.request(opcode, schema, message, expect, reply, safe));
  }

  /** @internal */
  connected(signal: AbortSignal | undefined): Promise<void> {
    return this.#driver.connect(signal);
  }

  /** Whether there is a connection at this moment. Without one, work waits. */
  get isConnected(): boolean {
    return this.#driver.session !== undefined;
  }

  /** The largest message that the broker takes in one frame, and its release; `undefined` before the first connection. */
  get broker(): { readonly version: string; readonly session: string; readonly maxFrameBytes: number } | undefined {
    const agreed = this.#driver.agreed;
    return agreed && { version: agreed.brokerVersion, session: agreed.session, maxFrameBytes: agreed.maxFrameBytes };
  }

  /** Publishes one message and resolves when it is durable. Concurrent publishes share frames. */
  async publish(queue: string, payload: Uint8Array, options: PublishOptions = {}, contract: Uint8Array = NO_CONTRACT): Promise<Published> {
    const { result } = await this.submit(queue, payload, options, contract);
    return aborted(result, options.signal);
  }

  /** Hands one message in and resolves as soon as the window has room for it. */
  async submit(queue: string, payload: Uint8Array, options: PublishOptions = {}, contract: Uint8Array = NO_CONTRACT): Promise<Receipt> {
    const item = this.#encode(payload, options);
    const cost = this.#window.cost(itemSize(item));
    try {
      if (!this.#window.tryTake(1, cost)) {
        await this.#window.take(1, cost, options.signal);
      }
      this.#checkOpen(1, cost);
    } catch (error) {
      this.#settle(item);
      throw error;
    }
    const result = this.#enter(this.#lane(queue, contract), item, cost);
    // A receipt may be dropped.
    result.catch(() => {});
    return { result };
  }

  /** Publishes many; one result each, in their order. One bad message does not fail its neighbours. */
  async publishBatch(queue: string, messages: Iterable<OutMessage>, contract: Uint8Array = NO_CONTRACT): Promise<(Published | QwerqError)[]> {
    const results: Promise<Published | QwerqError>[] = [];
    for (const { payload, options } of messages) {
      const { result } = await this.submit(queue, payload, options, contract);
      results.push(result.catch((error: QwerqError) => error));
    }
    return Promise.all(results);
  }

  /** Publishes all or none, in one frame. Throws the refusal of the first bad message. */
  async publishAtomic(queue: string, messages: Iterable<OutMessage>, contract: Uint8Array = NO_CONTRACT): Promise<Published[]> {
    const items = Array.from(messages, ({ payload, options }) => this.#encode(payload, options ?? {}));
    if (items.length === 0) {
      return [];
    }
    const places = Math.min(items.length, this.#window.messagesMax);
    const cost = this.#window.cost(items.reduce((sum, item) => sum + itemSize(item), 0));
    try {
      await this.#window.take(places, cost);
      this.#checkOpen(places, cost);
    } catch (error) {
      items.forEach((item) => this.#settle(item));
      throw error;
    }
    const results = await new Promise<(Published | QwerqError)[]>((resolve) => {
      const done: (Published | QwerqError)[] = [];
      let missing = items.length;
      const entries: Entry[] = items.map((item, at) => ({
        item,
        done: (result) => {
          done[at] = this.#asAsked(item, result);
          missing -= 1;
          if (missing === 0) {
            this.#window.give(places, cost);
            resolve(done);
          }
        },
      }));
      const lane = this.#lane(queue, contract);
      lane.pushAtomic(entries);
      this.#list(lane);
    });
    const errors = results.filter((result) => result instanceof Error);
    const cause = errors.find((error) => error.code !== "atomic-refused") ?? errors[0];
    if (cause !== undefined) {
      throw cause;
    }
    return results.filter((result): result is Published => !(result instanceof Error));
  }

  /** Opens a subscription. What is wrong with it is thrown where it is iterated. */
  consume(queue: string, options?: ConsumeOptions): Subscription<Uint8Array>;
  /** @internal */
  consume<T>(queue: string, options: ConsumeOptions, contract: Uint8Array, decode: Decode<T>): Subscription<T>;
  consume(
    queue: string,
    options: ConsumeOptions = {},
    contract: Uint8Array = NO_CONTRACT,
    decode: Decode<unknown> = raw,
  ): Subscription<unknown> {
    return new Subscription(this.#driver, this.#nextSubscription(), queue, contract, options, decode);
  }

  /** Pulls up to `max` messages, waiting up to `waitMs` for the first one. */
  fetch(queue: string, options?: FetchOptions): Promise<Delivery<Uint8Array>[]>;
  /** @internal */
  fetch<T>(queue: string, options: FetchOptions, contract: Uint8Array, decode: Decode<T>): Promise<Delivery<T>[]>;
  async fetch(
    queue: string,
    options: FetchOptions = {},
    contract: Uint8Array = NO_CONTRACT,
    decode: Decode<unknown> = raw,
  ): Promise<Delivery<unknown>[]> {
    const fetch = create(FetchSchema, {
      queue,
      group: options.group ?? "",
      max: options.max ?? 1,
      waitMs: BigInt(Math.round(options.waitMs ?? 0)),
      visibilityTimeoutMs: BigInt(options.visibilityTimeoutMs ?? 0),
      detached: options.detached ?? false,
      contract,
    });
    if (options.startAt !== undefined) {
      fetch.startAt = wireStartAt(options.startAt);
    }
    const reply = await this.#ask(Opcode.Fetch, toBinary(FetchSchema, fetch), Opcode.Fetched, { mayWait: true, signal: options.signal });
    const now = performance.now();
    return decodeFetched(reply.payload).map((arrival) => {
      const lease =
        arrival.leaseId.length === 0
          ? undefined
          : reply.ledger.hold(arrival.leaseId, undefined, arrival.leaseMs, options.detached === true, now);
      return new Delivery(queue, arrival, decode, lease);
    });
  }

  /** Settles or extends leases by their ids, detached ones above all. Resolves when that is durable, with those that were refused. */
  async settle(leaseIds: readonly Uint8Array[], settlement: Settlement): Promise<Settled> {
    const say = sayOf(settlement);
    const message = create(SettleSchema, {
      leaseIds: [...leaseIds],
      confirm: true,
      reason: say.reason ?? "",
      visibilityTimeoutMs: say.lengthMs ?? 0n,
      ...(say.delayMs === undefined ? {} : { delayMs: say.delayMs }),
    });
    const expect = say.opcode === Opcode.ExtendVisibility ? Opcode.ExtendVisibilityAck : Opcode.Settled;
    const reply = await this.#ask(say.opcode, toBinary(SettleSchema, message), expect, {});
    return fromBinary(SettledSchema, reply.payload);
  }

  /**
   * Asks whoever serves the queue and resolves with the reply. Throws UnavailableError (`no-responders`, `responder-lost`, `overloaded`,
   * `timeout`), RefusedError when request or reply break the contract, or what the responder answered.
   */
  async call(queue: string, payload: Uint8Array, options: CallOptions = {}, contract: Uint8Array = NO_CONTRACT): Promise<Replied> {
    const timeoutMs = Math.max(1, Math.round(options.timeoutMs ?? CALL_TIMEOUT_MS));
    const call = create(CallSchema, { queue, payload, headers: wireHeaders(options.headers), timeoutMs: BigInt(timeoutMs), contract });
    const reply = await this.#ask(Opcode.Call, toBinary(CallSchema, call), Opcode.CallResponse, {
      mayWait: true,
      signal: options.signal,
      timeout: {
        ms: timeoutMs,
        error: () => new UnavailableError("timeout", `nobody on queue ${queue} replied within ${timeoutMs} ms`, { number: 2003 }),
      },
    });
    const response = fromBinary(CallResponseSchema, reply.payload);
    if (response.error !== undefined) {
      throw fromWire(response.error);
    }
    return { payload: response.payload, headers: headerMap(response.headers) };
  }

  /** Serves the calls of a queue. */
  serve(queue: string, handler: Handler<Uint8Array>, options: ServeOptions = {}): Responder<Uint8Array> {
    return this.serveAs(queue, handler, options, NO_CONTRACT, raw);
  }

  /** @internal */
  serveAs<T>(queue: string, handler: Handler<T>, options: ServeOptions, contract: Uint8Array, decode: Decode<T>): Responder<T> {
    return new Responder(this.#driver, this.#nextSubscription(), queue, contract, options, decode, handler);
  }

  /** @internal One request of any kind and its decoded reply. */
  async request<I extends DescMessage, O extends DescMessage>(
    opcode: number,
    schema: I,
    message: MessageInitShape<I>,
    expect: number,
    reply: O,
    safe: boolean,
  ): Promise<MessageShape<O>> {
    const { payload } = await this.#ask(opcode, toBinary(schema, create(schema, message)), expect, { safe });
    return fromBinary(reply, payload);
  }

  /**
   * Sends all that waits, has it confirmed, gives leases back, and closes the connection. Rejects with DisconnectedError when something
   * could not be sent.
   */
  close(): Promise<void> {
    return this.#driver.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #nextSubscription(): number {
    this.#subscriptions += 1;
    return this.#subscriptions;
  }

  #lane(queue: string, contract: Uint8Array): Lane {
    let lanes = this.#lanes.get(queue);
    if (lanes === undefined) {
      lanes = new Map();
      this.#lanes.set(queue, lanes);
    }
    let lane = lanes.get(contract);
    if (lane === undefined) {
      lane = new Lane(queue, contract);
      lanes.set(contract, lane);
    }
    return lane;
  }

  #list(lane: Lane): void {
    if (!lane.listed) {
      lane.listed = true;
      this.#driver.work.lanes.push(lane);
    }
    this.#driver.wake();
  }

  /** An item; in a cluster one without an idempotency key gets one of the client's own. */
  #encode(payload: Uint8Array, options: PublishOptions): Item {
    const wantsKey = this.#driver.agreed?.cluster === true && !hasKey(options);
    return encodeItem(payload, options, wantsKey ? this.#driver.work.retryKeys.take() : undefined);
  }

  /** The item will not be sent again. */
  #settle(item: Item): void {
    if (item.retry !== undefined) {
      this.#driver.work.retryKeys.settle(item.retry);
    }
  }

  /** To its caller a message that the client sent twice was published once. */
  #asAsked(item: Item, result: Published | QwerqError): Published | QwerqError {
    this.#settle(item);
    return item.retry === undefined || result instanceof Error || !result.duplicate ? result : { ...result, duplicate: false };
  }

  #enter(lane: Lane, item: Item, cost: number): Promise<Published> {
    return new Promise((resolve, reject) => {
      lane.push({
        item,
        done: (given) => {
          this.#window.give(1, cost);
          const result = this.#asAsked(item, given);
          if (result instanceof Error) {
            reject(result);
          } else {
            resolve(result);
          }
        },
      });
      this.#list(lane);
    });
  }

  /** Room was taken; a client that is closed gives it back. */
  #checkOpen(messages: number, cost: number): void {
    const closed = this.#driver.closed;
    if (closed !== undefined) {
      this.#window.give(messages, cost);
      throw closed;
    }
  }

  #ask(opcode: number, payload: Uint8Array, expect: number, options: AskOptions): Promise<Reply> {
    const { signal, timeout } = options;
    if (signal?.aborted === true) {
      return Promise.reject(signal.reason);
    }
    return new Promise((resolve, reject) => {
      const over = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", abort);
      };
      const request: Request = {
        opcode,
        payload,
        expect,
        safe: options.safe ?? false,
        mayWait: options.mayWait ?? false,
        refused: 0,
        cancelled: false,
        resolve(reply) {
          over();
          resolve(reply);
        },
        reject(error) {
          over();
          reject(error);
        },
      };
      const giveUp = (error: unknown): void => {
        this.#driver.cancel(request);
        request.reject(error);
      };
      const abort = (): void => giveUp(signal?.reason);
      const timer = timeout === undefined ? undefined : setTimeout(() => giveUp(timeout.error()), Math.min(timeout.ms, TIMER_MS_MAX));
      signal?.addEventListener("abort", abort, { once: true });
      this.#driver.request(request);
    });
  }
}

/** Answers one call. */
export type Handler<T> = (request: T, context: CallContext) => Uint8Array | Promise<Uint8Array>;

interface AskOptions {
  safe?: boolean;
  mayWait?: boolean;
  signal?: AbortSignal | undefined;
  timeout?: { ms: number; error: () => QwerqError };
}

function raw(payload: Uint8Array): Uint8Array {
  return payload;
}

/** The promise, or the signal's reason if that comes first. */
function aborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) {
    return promise;
  }
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) {
      abort();
    }
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

function sayOf(settlement: Settlement): Say {
  if ("nack" in settlement) {
    const { delayMs, reason } = settlement.nack;
    return { opcode: Opcode.Nack, delayMs: delayMs === undefined ? undefined : BigInt(Math.round(delayMs)), reason };
  }
  if ("reject" in settlement) {
    return { opcode: Opcode.Reject, reason: settlement.reject };
  }
  if ("extendMs" in settlement) {
    return { opcode: Opcode.ExtendVisibility, lengthMs: BigInt(Math.round(settlement.extendMs)) };
  }
  return { opcode: "ack" in settlement ? Opcode.Ack : Opcode.Release };
}

