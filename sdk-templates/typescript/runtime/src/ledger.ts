// The leases that one connection holds: who still has them, when they must be renewed, and what is to be said about them.
//
// A lease ends with its connection, so every connection has a ledger of its own. Settling is a note in the ledger; `session` turns the
// notes into frames, many leases each.

import { create, toBinary } from "@bufbuild/protobuf";

import { DisconnectedError, staleLease } from "./errors.js";
import { Opcode } from "./opcode.js";
import { SettleSchema } from "./wire_pb.js";

/** Leases of one frame at most. */
const NOTE_LEASES_MAX = 4096;

/** A lease is renewed when this part of its length has passed, and looked at as often: no lease is older than a third of its length. */
const RENEW_PART = 6;

/** `Settle.lease_ids`: the field's number times eight, plus 2. */
const LEASE_IDS_FIELD_TAG = 0x0a;

/** What is said about leases: the opcode that says it, and its details. */
export interface Say {
  readonly opcode: number;
  readonly delayMs?: bigint | undefined;
  readonly reason?: string | undefined;
  readonly lengthMs?: bigint | undefined;
}

/** A hold on a message. */
export interface Lease {
  readonly id: Uint8Array;
  /** The subscription it came by; `undefined`: a fetch. */
  readonly subscription: number | undefined;
  readonly ledger: Ledger;
  readonly grantedAt: number;
  renewedAt: number;
  lengthMs: number;
  renew: boolean;
  /** It outlives the connection and ends by its time. */
  readonly detached: boolean;
  state: "held" | "lost" | "settled" | "dropped";
}

/** The same thing said about several leases: one frame. */
export interface Note {
  readonly say: Say;
  readonly leases: Uint8Array[];
  /** Who wants to know, one for each lease; none for a note without confirmation. */
  readonly waiters: Waiter[] | undefined;
}

interface Waiter {
  resolve(): void;
  reject(error: unknown): void;
}

/** Stops the renewal of leases whose deliveries nobody can settle any more. */
const forgotten = new FinalizationRegistry<Lease>((lease) => lease.ledger.drop(lease));

/** The leases of one connection. */
export class Ledger {
  readonly #held = new Set<Lease>();
  readonly #maxLeaseMs: number;
  readonly #changed: () => void;
  #notes: Note[] = [];
  #sweepDue: number | undefined;
  #closed = false;

  /** `changed` is called whenever there is something to say or to renew. */
  constructor(maxLeaseMs: number, changed: () => void) {
    this.#maxLeaseMs = maxLeaseMs;
    this.#changed = changed;
  }

  /** Takes down a lease that has just arrived. A detached one is not renewed. */
  hold(id: Uint8Array, subscription: number | undefined, lengthMs: number, detached: boolean, now: number): Lease {
    const lease: Lease = {
      id,
      subscription,
      ledger: this,
      grantedAt: now,
      renewedAt: now,
      lengthMs,
      renew: !detached && lengthMs > 0,
      detached,
      state: this.#closed ? "lost" : "held",
    };
    if (!this.#closed) {
      this.#held.add(lease);
      if (lease.renew) {
        this.#expectSweep(now + lengthMs / RENEW_PART);
      }
    }
    return lease;
  }

  /** Ties a lease to the object that its holder settles it by. */
  watch(holder: object, lease: Lease): void {
    forgotten.register(holder, lease, lease);
  }

  /** Leases that somebody still holds. */
  get held(): number {
    return this.#held.size;
  }

  /** When the next sweep is due; `undefined` without leases to renew. */
  get sweepDue(): number | undefined {
    return this.#sweepDue;
  }

  /** Nobody can settle it any more: it runs to its end. */
  drop(lease: Lease): void {
    if (this.#held.delete(lease)) {
      lease.state = "dropped";
    }
  }

  /** Settles without waiting. Throws `stale-lease` when the lease is known to have ended. */
  settle(lease: Lease, say: Say): void {
    this.#end(lease);
    this.#write(say, lease.id, undefined);
  }

  /** Settles, and resolves when that is durable. */
  settleConfirmed(lease: Lease, say: Say): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#end(lease);
      this.#write(say, lease.id, { resolve, reject });
    });
  }

  /** Makes the lease end so long from now, and resolves when the broker has agreed. */
  extend(lease: Lease, lengthMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      if (lease.state !== "held") {
        throw staleLease();
      }
      lease.lengthMs = lengthMs;
      lease.renewedAt = performance.now();
      if (lease.renew) {
        this.#expectSweep(lease.renewedAt + lengthMs / RENEW_PART);
      }
      this.#write({ opcode: Opcode.ExtendVisibility, lengthMs: BigInt(lengthMs) }, lease.id, { resolve, reject });
    });
  }

  /** A confirmation of nothing: it comes when all that was said before has been heard. */
  confirmAll(): Note {
    return { say: { opcode: Opcode.Ack }, leases: [], waiters: [] };
  }

  /** What has been written down since the last time. */
  takeNotes(): Note[] {
    const notes = this.#notes;
    this.#notes = [];
    return notes;
  }

  /** Writes down the renewals that are due, and gives up those that are too old. */
  sweep(now: number): void {
    if (this.#sweepDue === undefined || now < this.#sweepDue) {
      return;
    }
    this.#sweepDue = undefined;
    for (const lease of this.#held) {
      lease.renew &&= now - lease.grantedAt < this.#maxLeaseMs;
      if (!lease.renew) {
        continue;
      }
      const part = lease.lengthMs / RENEW_PART;
      if (now - lease.renewedAt >= part) {
        lease.renewedAt = now;
        this.#write({ opcode: Opcode.ExtendVisibility, lengthMs: BigInt(lease.lengthMs) }, lease.id, undefined);
      }
      this.#expectSweep(now + part);
    }
  }

  /** The broker has taken back the leases of a subscription. */
  loseSubscription(subscription: number): void {
    for (const lease of this.#held) {
      if (lease.subscription === subscription) {
        lease.state = "lost";
        this.#held.delete(lease);
      }
    }
  }

  /** The client closes: gives back uncounted what no open subscription holds, but for detached leases. */
  releaseOthers(isOpen: (subscription: number) => boolean): void {
    for (const lease of this.#held) {
      if (!lease.detached && (lease.subscription === undefined || !isOpen(lease.subscription))) {
        lease.state = "lost";
        this.#held.delete(lease);
        this.#write({ opcode: Opcode.Release }, lease.id, undefined);
      }
    }
  }

  /** The connection is gone, and all leases with it. */
  close(): void {
    this.#closed = true;
    for (const lease of this.#held) {
      lease.state = "lost";
    }
    this.#held.clear();
    for (const note of this.takeNotes()) {
      failNote(note, new DisconnectedError(false));
    }
  }

  #end(lease: Lease): void {
    if (lease.state !== "held") {
      throw staleLease();
    }
    this.#held.delete(lease);
    lease.state = "settled";
    forgotten.unregister(lease);
  }

  #write(say: Say, lease: Uint8Array, waiter: Waiter | undefined): void {
    const fits = (note: Note | undefined): note is Note =>
      note !== undefined && sameSay(note.say, say) && (note.waiters !== undefined) === (waiter !== undefined) && note.leases.length < NOTE_LEASES_MAX;
    // A confirmation also says that what was said before it has been heard, so it never joins an earlier note.
    const last = this.#notes.at(-1);
    const open = waiter === undefined ? this.#notes.find(fits) : fits(last) ? last : undefined;
    const note = open ?? { say, leases: [], waiters: waiter === undefined ? undefined : [] };
    if (open === undefined) {
      this.#notes.push(note);
    }
    note.leases.push(lease);
    if (waiter !== undefined) {
      note.waiters?.push(waiter);
    }
    this.#changed();
  }

  #expectSweep(at: number): void {
    if (this.#sweepDue === undefined || at < this.#sweepDue) {
      this.#sweepDue = at;
      this.#changed();
    }
  }
}

function sameSay(a: Say, b: Say): boolean {
  return a.opcode === b.opcode && a.delayMs === b.delayMs && a.reason === b.reason && a.lengthMs === b.lengthMs;
}

/** Tells all who wait for a note why it was not heard. */
export function failNote(note: Note, error: unknown): void {
  for (const waiter of note.waiters ?? []) {
    waiter.reject(error);
  }
}

/** The message of the frame that says it. The leases, which may be many, are written by hand. */
export function encodeNote(note: Note): Uint8Array {
  const { delayMs, reason, lengthMs } = note.say;
  const rest = toBinary(
    SettleSchema,
    create(SettleSchema, {
      confirm: note.waiters !== undefined,
      reason: reason ?? "",
      visibilityTimeoutMs: lengthMs ?? 0n,
      ...(delayMs === undefined ? {} : { delayMs }),
    }),
  );
  const bytes = new Uint8Array(note.leases.reduce((sum, lease) => sum + 2 + lease.length, rest.length));
  let at = 0;
  for (const lease of note.leases) {
    bytes[at] = LEASE_IDS_FIELD_TAG;
    bytes[at + 1] = lease.length;
    bytes.set(lease, at + 2);
    at += 2 + lease.length;
  }
  bytes.set(rest, at);
  return bytes;
}
