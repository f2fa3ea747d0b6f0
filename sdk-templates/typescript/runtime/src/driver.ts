// Keeps one connection open: connects, hands the work to a session, and comes back when the session is lost.

import { Backoff, type ReconnectOptions } from "./backoff.js";
import { Electing, type HelloOptions, type Link, connectAny } from "./connect.js";
import { ClosedError, DisconnectedError, ProtocolError, QwerqError, RefusedError } from "./errors.js";
import type { Request, Work } from "./request.js";
import { RetryKeys } from "./retry_key.js";
import { leaderAddress } from "./route.js";
import { type Agreed, type Exit, Session } from "./session.js";

/** How long the first connection waits for a cluster that has no leader. */
const ELECTION_PATIENCE_MS = 10_000;

/** The longest wait between two rounds through a cluster that is there and has no leader. */
const ELECTION_PAUSE_MS_MAX = 2_000;

/** What the driver needs to know. */
export interface DriverOptions extends HelloOptions {
  readonly addresses: readonly string[];
  readonly maxLeaseMs: number;
  readonly reconnect: ReconnectOptions;
  /** Told when the connection is lost, with the reason, and when it is back. */
  readonly onConnection: ((state: ConnectionState) => void) | undefined;
}

/** What has become of the connection. */
export type ConnectionState =
  | { readonly state: "connected"; readonly session: string; readonly brokerVersion: string }
  | { readonly state: "lost"; readonly why: unknown }
  | { readonly state: "closed"; readonly why: unknown };

/** The connection of one client, through all its sessions. */
export class Driver {
  readonly work: Work = { requests: [], lanes: [], feeds: new Map(), closing: false, retryKeys: new RetryKeys() };
  readonly #options: DriverOptions;
  readonly #backoff: Backoff;
  readonly #stop = new AbortController();
  readonly #onClosed: (error: QwerqError) => void;
  #session: Session | undefined;
  #agreed: Agreed | undefined;
  #closed: QwerqError | undefined;
  #closing: Promise<void> | undefined;
  #closeDone: ((error: QwerqError | undefined) => void) | undefined;

  constructor(options: DriverOptions, onClosed: (error: QwerqError) => void) {
    this.#options = options;
    this.#onClosed = onClosed;
    this.#backoff = new Backoff(options.reconnect);
  }

  /** Connects for the first time. */
  async connect(signal: AbortSignal | undefined): Promise<void> {
    const either = signal === undefined ? this.#stop.signal : anyOf([signal, this.#stop.signal]);
    const until = performance.now() + ELECTION_PATIENCE_MS;
    for (;;) {
      try {
        this.#begin(await connectAny(undefined, this.#options.addresses, this.#options, either));
        return;
      } catch (error) {
        if (!(error instanceof Electing)) {
          throw error;
        }
        const pauseMs = error.pauseMs * (1 + Math.random());
        if (performance.now() + pauseMs > until) {
          throw error;
        }
        await sleep(pauseMs, either);
      }
    }
  }

  /** The session, while there is one. */
  get session(): Session | undefined {
    return this.#session;
  }

  /** What the last session agreed on. */
  get agreed(): Agreed | undefined {
    return this.#agreed;
  }

  /** Why nothing more is taken on; `undefined` while the client is open. */
  get closed(): QwerqError | undefined {
    return this.#closed ?? (this.work.closing ? new ClosedError() : undefined);
  }

  /** There is work. */
  wake(): void {
    this.#session?.wake();
  }

  /** Sends a request as soon as there is a connection. */
  request(request: Request): void {
    const closed = this.closed;
    if (closed !== undefined) {
      request.reject(closed);
      return;
    }
    this.work.requests.push(request);
    this.wake();
  }

  /** Nobody waits for the request any more. */
  cancel(request: Request): void {
    request.cancelled = true;
    this.work.requests = this.work.requests.filter((other) => other !== request);
    this.#session?.cancel(request);
  }

  /** Sends all that waits, has it confirmed, gives leases back, and closes. */
  close(): Promise<void> {
    if (this.#closed !== undefined) {
      return this.#closing ?? Promise.resolve();
    }
    this.#closing ??= new Promise((resolve, reject) => {
      this.#closeDone = (error) => (error === undefined ? resolve() : reject(error));
      this.work.closing = true;
      for (const feed of this.work.feeds.values()) {
        feed.ended(undefined);
      }
      if (this.#session !== undefined) {
        this.#session.wake();
      } else {
        this.#stop.abort(new ClosedError());
        this.#end(new ClosedError());
      }
    });
    return this.#closing;
  }

  #begin(link: Link): void {
    const began = performance.now();
    const session = new Session(this.work, link.transport, link.decoder, link.agreed, this.#options.maxLeaseMs, (exit) => {
      this.#session = undefined;
      this.#backoff.lasted(performance.now() - began);
      // Whoever led last is the likeliest to lead again.
      const named = exit.how === "goaway" ? leaderAddress(link.address, exit.details) : undefined;
      this.#over(exit, named ?? link.address);
    });
    this.#session = session;
    this.#agreed = link.agreed;
    this.#options.onConnection?.({ state: "connected", session: link.agreed.session, brokerVersion: link.agreed.brokerVersion });
    session.start();
    link.attach({
      received: (bytes) => session.received(bytes),
      drained: () => session.drained(),
      ended: (why) => session.lost(why),
    });
  }

  #over(exit: Exit, leader: string): void {
    if (exit.how === "closed") {
      this.#end(new ClosedError());
      return;
    }
    if (this.work.closing) {
      // Everything that was said is answered, or its callers know; what never left is lost.
      this.#end(new ClosedError());
      return;
    }
    this.#options.onConnection?.({ state: "lost", why: exit.how === "lost" ? exit.why : new Error("the broker is going away") });
    void this.#reconnect(leader);
  }

  /** Comes back, or says why not. */
  async #reconnect(leader: string): Promise<void> {
    let last: QwerqError = new DisconnectedError(false);
    for (let pause = this.#backoff.next(); pause !== undefined; pause = this.#backoff.next()) {
      try {
        await sleep(last instanceof Electing ? electionPause(pause, last) : pause, this.#stop.signal);
        const link = await connectAny(leader, this.#options.addresses, this.#options, this.#stop.signal);
        this.#backoff.connected();
        this.#begin(link);
        return;
      } catch (error) {
        if (this.#stop.signal.aborted) {
          return;
        }
        last = error instanceof QwerqError ? error : new ProtocolError("internal", String(error), { cause: error });
        // Trying again would not change the broker's mind.
        if (error instanceof RefusedError) {
          break;
        }
      }
    }
    this.#end(last);
  }

  /** There will be no further connection: tells everybody why. */
  #end(error: QwerqError): void {
    if (this.#closed !== undefined) {
      return;
    }
    this.#closed = error;
    let unsent = this.work.lanes.length > 0;
    for (const lane of this.work.lanes.splice(0)) {
      for (let batch = lane.take(); batch !== undefined; batch = lane.take()) {
        // What had been sent on an earlier connection may be stored, whatever became of the later ones.
        const why = batch.lostAt === undefined ? error : new DisconnectedError(true);
        batch.entries.forEach((entry) => entry.done(why));
      }
    }
    for (const request of this.work.requests.splice(0).filter((request) => !request.cancelled)) {
      unsent = true;
      request.reject(error);
    }
    for (const feed of this.work.feeds.values()) {
      feed.ended(error instanceof ClosedError ? undefined : error);
    }
    this.work.feeds.clear();
    this.#onClosed(error);
    this.#options.onConnection?.({ state: "closed", why: error });
    this.#closeDone?.(unsent ? new DisconnectedError(false) : undefined);
  }
}

/** The cluster is there, and an election takes a moment only. */
function electionPause(pause: number, { pauseMs }: Electing): number {
  return Math.max(pauseMs, Math.min(pause, ELECTION_PAUSE_MS_MAX)) + Math.random() * pauseMs;
}

/** A pause that a signal ends. */
function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal.addEventListener("abort", abort, { once: true });
    if (signal.aborted) {
      abort();
    }
  });
}

/** A signal that is aborted when one of several is. `AbortSignal.any` is too new to rely on. */
function anyOf(signals: readonly AbortSignal[]): AbortSignal {
  const any = new AbortController();
  for (const signal of signals) {
    if (signal.aborted) {
      any.abort(signal.reason);
    }
    signal.addEventListener("abort", () => any.abort(signal.reason), { once: true });
  }
  return any.signal;
}
