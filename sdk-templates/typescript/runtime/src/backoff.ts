// How long to wait before connecting again: exponential with full jitter, so that many clients do not come back at once.

/** A connection that lasted so long was a good one; the waits start small again after it. */
const GOOD_CONNECTION_MS = 5_000;

/** What a client does when its connection is lost. */
export interface ReconnectOptions {
  /** The first wait is between 0 and this. Default: 100 ms. */
  firstMs?: number;
  /** Later waits are between 0 and at most this. Default: 10 s. */
  maxMs?: number;
  /** Consecutive attempts before the client closes; 0: a lost connection closes it. Default: no limit. */
  attempts?: number;
}

/** The waits of one client. */
export class Backoff {
  readonly #firstMs: number;
  readonly #maxMs: number;
  readonly #attempts: number;
  #doublings = 0;
  #failures = 0;

  constructor(options: ReconnectOptions = {}) {
    this.#firstMs = options.firstMs ?? 100;
    this.#maxMs = options.maxMs ?? 10_000;
    this.#attempts = options.attempts ?? Number.POSITIVE_INFINITY;
  }

  /** The wait before the next attempt; `undefined` when there have been enough. */
  next(): number | undefined {
    if (this.#failures >= this.#attempts) {
      return undefined;
    }
    this.#failures += 1;
    const longest = this.longestMs;
    this.#doublings += 1;
    return Math.random() * longest;
  }

  /** An attempt succeeded. The waits stay long until the connection has proved good. */
  connected(): void {
    this.#failures = 0;
  }

  /** A connection ended after so long. */
  lasted(ms: number): void {
    if (ms >= GOOD_CONNECTION_MS) {
      this.#doublings = 0;
    }
  }

  /** The longest that the next wait can be. */
  get longestMs(): number {
    return Math.min(this.#firstMs * 2 ** this.#doublings, this.#maxMs);
  }
}
