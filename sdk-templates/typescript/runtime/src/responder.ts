// Answering calls: a handler for each, deadlines that end them. Nothing is stored.

import { create, toBinary } from "@bufbuild/protobuf";

import { type Decode, headerMap } from "./delivery.js";
import type { Driver } from "./driver.js";
import { ClosedError, DecodeError, QwerqError } from "./errors.js";
import { type HeadersInit, wireHeaders } from "./publish.js";
import type { Feed } from "./request.js";
import { type Call, CallResponseSchema, ConsumeSchema, ErrorSchema, Role } from "./wire_pb.js";

/** The longest that setTimeout waits. */
const TIMER_MS_MAX = 0x7fff_ffff;

/** How to serve calls. */
export interface ServeOptions {
  /** Calls that are worked on at once. Default: 32. */
  concurrency?: number;
  /** Ends the serving; calls that are being worked on are still answered. */
  signal?: AbortSignal;
}

/** What a handler knows about a call beside its request. */
export interface CallContext {
  /** The request's headers. */
  readonly headers: ReadonlyMap<string, string>;
  /** The version of the contract that the request was accepted under; 0 on a queue without one. */
  readonly schemaVersion: number;
  /** Time until the caller stops waiting. */
  readonly remainingMs: number;
  /** Aborted when the caller has stopped waiting, or is gone. */
  readonly signal: AbortSignal;
  /** Headers of the reply. */
  replyHeaders: HeadersInit;
}

/** A handler's refusal, with one of the protocol's codes. Anything else that a handler throws is `internal` to the caller. */
export class CallError extends QwerqError {
  override readonly name: string = "CallError";

  constructor(code: string, number: number, message: string, details: Record<string, string> = {}) {
    super(code, message, { number, details });
  }

  /** `invalid-argument`: the request has a value that it cannot have. */
  static invalidArgument(message: string): CallError {
    return new CallError("invalid-argument", 1001, message);
  }
}

/** Serves the calls of one queue until it is closed. It is opened again after every reconnect. */
export class Responder<I> implements AsyncDisposable {
  /** The queue that it serves. */
  readonly queue: string;
  /** Resolves when the broker has agreed for the first time. */
  readonly ready: Promise<void>;
  /** Resolves when serving has ended; rejects with what ended it, if it was an error. */
  readonly closed: Promise<void>;
  readonly #driver: Driver;
  readonly #number: number;
  readonly #contract: Uint8Array;
  readonly #options: ServeOptions;
  readonly #decode: Decode<I>;
  readonly #handler: (request: I, context: CallContext) => Uint8Array | Promise<Uint8Array>;
  readonly #onAbort: () => void;
  readonly #running = new Set<AbortController>();
  #wasOpen = false;
  #over = false;
  #readyDone: { resolve(): void; reject(error: unknown): void } | undefined;
  #closedDone: { resolve(): void; reject(error: unknown): void } | undefined;

  /** @internal */
  constructor(
    driver: Driver,
    number: number,
    queue: string,
    contract: Uint8Array,
    options: ServeOptions,
    decode: Decode<I>,
    handler: (request: I, context: CallContext) => Uint8Array | Promise<Uint8Array>,
  ) {
    this.queue = queue;
    this.#driver = driver;
    this.#number = number;
    this.#contract = contract;
    this.#options = options;
    this.#decode = decode;
    this.#handler = handler;
    this.ready = new Promise((resolve, reject) => {
      this.#readyDone = { resolve, reject };
    });
    this.closed = new Promise((resolve, reject) => {
      this.#closedDone = { resolve, reject };
    });
    this.ready.catch(() => {});
    this.closed.catch(() => {});
    this.#onAbort = () => void this.close().catch(() => {});
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

  /** Stops serving; calls that are being worked on are still answered. */
  close(): Promise<void> {
    if (this.#over) {
      return Promise.resolve();
    }
    const { session, work } = this.#driver;
    work.feeds.delete(this.#number);
    this.#end(undefined);
    if (session === undefined) {
      return Promise.resolve();
    }
    return new Promise((resolve, reject) =>
      session.unsubscribe(this.#number, true, (error) => (error === undefined ? resolve() : reject(error))),
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #feed(): Feed {
    const responder = this;
    return {
      number: this.#number,
      get wasOpen() {
        return responder.#wasOpen;
      },
      consume: () =>
        toBinary(
          ConsumeSchema,
          create(ConsumeSchema, {
            subscription: this.#number,
            queue: this.queue,
            prefetch: this.#options.concurrency ?? 0,
            concurrency: this.#options.concurrency ?? 0,
            role: Role.SERVE,
            contract: this.#contract,
          }),
        ),
      opened: () => {
        this.#wasOpen = true;
        this.#readyDone?.resolve();
      },
      delivered: () => {},
      called: (call, answer) => void this.#called(call, answer),
      lost: () => this.#running.forEach((running) => running.abort(new Error("the connection was lost, and the caller told so"))),
      ended: (error) => this.#end(error),
    };
  }

  async #called(call: Call, answer: (response: Uint8Array) => void): Promise<void> {
    const deadline = performance.now() + Number(call.timeoutMs);
    const running = new AbortController();
    this.#running.add(running);
    const expire = (): void => running.abort(new Error("the caller has stopped waiting"));
    const timer = setTimeout(expire, Math.min(Number(call.timeoutMs), TIMER_MS_MAX));
    const context: CallContext = {
      headers: headerMap(call.headers),
      schemaVersion: call.schemaVersion,
      get remainingMs() {
        return Math.max(0, deadline - performance.now());
      },
      signal: running.signal,
      replyHeaders: {},
    };
    const response = create(CallResponseSchema, { callId: call.callId });
    try {
      response.payload = await this.#handler(this.#decode(call.payload, `the request (queue ${this.queue})`), context);
      response.headers = wireHeaders(context.replyHeaders);
    } catch (error) {
      response.error = wireError(error);
    }
    clearTimeout(timer);
    this.#running.delete(running);
    answer(toBinary(CallResponseSchema, response));
  }

  #end(error: QwerqError | undefined): void {
    if (this.#over) {
      return;
    }
    this.#over = true;
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    this.#readyDone?.reject(error ?? new ClosedError());
    if (error === undefined) {
      this.#closedDone?.resolve();
    } else {
      this.#closedDone?.reject(error);
    }
  }
}

function wireError(error: unknown): ReturnType<typeof create<typeof ErrorSchema>> {
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof DecodeError) {
    return create(ErrorSchema, { code: 1001, name: "invalid-argument", message });
  }
  if (error instanceof QwerqError && error.number > 0) {
    return create(ErrorSchema, { code: error.number, name: error.code, message, details: { ...error.details } });
  }
  return create(ErrorSchema, { code: 4001, name: "internal", message });
}
