// Which address to dial next: the leader that was named, then the seeds in random order, each once. Knows no connection and no time.

/** Redirects that are followed in one round at most: nodes that name each other must not keep a client busy. */
const HOPS_MAX = 3;

/** One round through the addresses. */
export class Route {
  #waiting: string[];
  readonly #dialled: string[] = [];
  #hops = 0;

  /** A round that begins with the leader, if there is one. */
  constructor(leader: string | undefined, seeds: readonly string[]) {
    const order = [...(leader === undefined ? [] : [leader]), ...shuffled(seeds)];
    this.#waiting = [...new Set(order)];
  }

  /** The next address. */
  next(): string | undefined {
    const address = this.#waiting.shift();
    if (address !== undefined) {
      this.#dialled.push(address);
    }
    return address;
  }

  /** A node named the leader: it is next, unless it was dialled before or there were too many such hops. */
  redirect(leader: string): void {
    if (this.#hops < HOPS_MAX && !this.#dialled.includes(leader)) {
      this.#hops += 1;
      this.#waiting = [leader, ...this.#waiting.filter((address) => address !== leader)];
    }
  }
}

/** The addresses of a list such as `a:9876,b:9876`, or of several. */
export function addressesOf(address: string | readonly string[]): string[] {
  const lists = typeof address === "string" ? [address] : address;
  return lists.flatMap((list) => list.split(",")).map((one) => one.trim()).filter((one) => one !== "");
}

/** Where a node that was reached at `address` says that the leader is: browsers get the address of its HTTP port. */
export function leaderAddress(address: string, details: Readonly<Record<string, string>>): string | undefined {
  if (!/^wss?:/.test(address)) {
    return details["leader"];
  }
  const http = details["leader_http"];
  if (http === undefined) {
    return undefined;
  }
  const url = new URL(address);
  return `${url.protocol}//${http}${url.pathname === "/" ? "" : url.pathname}`;
}

function shuffled(addresses: readonly string[]): string[] {
  const order = [...addresses];
  for (let at = order.length - 1; at > 0; at -= 1) {
    const other = Math.floor(Math.random() * (at + 1));
    [order[at], order[other]] = [order[other] as string, order[at] as string];
  }
  return order;
}
