// Back-pressure on publishers: so many messages and payload bytes may be unacknowledged; whoever wants more waits in line.

interface Waiter {
  messages: number;
  bytes: number;
  enter(): void;
  fail(error: unknown): void;
}

/** The room for publishes that have no answer yet. */
export class Window {
  readonly #messagesMax: number;
  readonly #bytesMax: number;
  #messages = 0;
  #bytes = 0;
  #waiting: Waiter[] = [];
  #closed: unknown;

  constructor(messagesMax: number, bytesMax: number) {
    this.#messagesMax = Math.max(1, messagesMax);
    this.#bytesMax = Math.max(1, bytesMax);
  }

  /** What a payload takes: one that is larger than the whole window takes all of it. */
  cost(payloadBytes: number): number {
    return Math.min(payloadBytes, this.#bytesMax);
  }

  /** The most messages that can be taken at once. */
  get messagesMax(): number {
    return this.#messagesMax;
  }

  /** Takes room if it is there and nobody waits for it. */
  tryTake(messages: number, bytes: number): boolean {
    if (this.#closed !== undefined) {
      throw this.#closed;
    }
    if (this.#waiting.length > 0 || !this.#fits(messages, bytes)) {
      return false;
    }
    this.#messages += messages;
    this.#bytes += bytes;
    return true;
  }

  /** Takes room, waiting for it in line. */
  take(messages: number, bytes: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (this.tryTake(messages, bytes)) {
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        this.#waiting = this.#waiting.filter((other) => other !== waiter);
        reject(signal?.reason);
        this.#admit();
      };
      const waiter: Waiter = {
        messages,
        bytes,
        enter: () => {
          signal?.removeEventListener("abort", abort);
          resolve();
        },
        fail: reject,
      };
      signal?.addEventListener("abort", abort, { once: true });
      this.#waiting.push(waiter);
    });
  }

  /** Gives room back. */
  give(messages: number, bytes: number): void {
    this.#messages -= messages;
    this.#bytes -= bytes;
    this.#admit();
  }

  /** From now on every taker gets the error. */
  close(error: unknown): void {
    this.#closed = error;
    for (const waiter of this.#waiting.splice(0)) {
      waiter.fail(error);
    }
  }

  #fits(messages: number, bytes: number): boolean {
    return this.#messages + messages <= this.#messagesMax && this.#bytes + bytes <= this.#bytesMax;
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined && this.#fits(next.messages, next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#messages += next.messages;
      this.#bytes += next.bytes;
      next.enter();
    }
  }
}
