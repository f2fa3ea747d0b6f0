// Keys of a client's own, for publishes that may have to go out twice: in a cluster the leader may be gone with the answer on its way.
//
// The broker tells such keys from the users' and keeps them in another memory: a few for each client instead of one for each message.
// docs/protocol.md has their form. The caller's own idempotency keys are not this file's.

/** What such a key begins with. */
const MARK = "\u0001";

/** Characters that name a client; as many are random. */
const CLIENT_CHARS = 8;

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** The broker keeps so many of a client's latest numbers at most; what is older may be stored twice. */
const NUMBERS_KEPT = 65_536;

/** How long a publish whose connection was lost is retried. The broker remembers its key for longer. */
export const RETRY_BUDGET_MS = 120_000;

/** The key of one publish. */
export interface RetryKey {
  readonly number: number;
  readonly text: string;
}

/** Numbers a client's publishes. */
export class RetryKeys {
  readonly #client: string;
  /** The first number that is not settled, and for each from there on whether it is. */
  #first = 1;
  #settled: boolean[] = [];
  /** Entries of `#settled` before the first number: they are taken out now and then. */
  #gone = 0;

  constructor() {
    const random = new Uint8Array(CLIENT_CHARS);
    const crypto = (globalThis as { crypto?: { getRandomValues(into: Uint8Array): unknown } }).crypto;
    if (crypto === undefined) {
      random.forEach((_, at) => {
        random[at] = Math.floor(Math.random() * 256);
      });
    } else {
      crypto.getRandomValues(random);
    }
    this.#client = [...random].map((byte) => ALPHABET[byte % ALPHABET.length]).join("");
  }

  /** The next key. It says how far back the oldest publish is whose outcome is open, so that the broker can forget those before it. */
  take(): RetryKey {
    const back = this.#settled.length - this.#gone;
    const number = this.#first + back;
    this.#settled.push(false);
    return { number, text: `${MARK}${this.#client}${number}.${back}` };
  }

  /** Its outcome is known: it will never be sent again. */
  settle(number: number): void {
    this.#settled[number - this.#first + this.#gone] = true;
    while (this.#settled[this.#gone] === true) {
      this.#gone += 1;
      this.#first += 1;
    }
    if (this.#gone * 2 > this.#settled.length) {
      this.#settled.splice(0, this.#gone);
      this.#gone = 0;
    }
  }

  /** Whether the broker still knows that number, if it ever saw it. */
  isKept(number: number): boolean {
    return this.#first + this.#settled.length - this.#gone - number <= NUMBERS_KEPT;
  }
}
