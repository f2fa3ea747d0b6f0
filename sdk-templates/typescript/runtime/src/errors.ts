// What can go wrong, sorted by who must act: the caller changes the request (RefusedError), the caller tries again (UnavailableError), the
// connection comes back by itself (DisconnectedError), or somebody repairs something (FaultError, ProtocolError, ConnectError).
// Codes are the broker's; each has a page docs/errors/<code>.md.

import type { Error as WireError } from "./wire_pb.js";

/** The broker's codes, as far as this version knows them, and those that only a client has. */
export type ErrorCode =
  | "invalid-argument"
  | "invalid-name"
  | "queue-not-found"
  | "queue-exists"
  | "group-not-found"
  | "group-required"
  | "queue-full"
  | "message-too-large"
  | "dedup-full"
  | "reserved-queue"
  | "invalid-header"
  | "stale-lease"
  | "unknown-subscription"
  | "subscription-exists"
  | "unsupported"
  | "unauthorized"
  | "atomic-refused"
  | "wrong-mode"
  | "group-exists"
  | "origin-refused"
  | "schema-violation"
  | "contract-required"
  | "schema-not-found"
  | "schema-invalid"
  | "schema-incompatible"
  | "contract-unknown"
  | "version-retired"
  | "type-not-found"
  | "reply-type-missing"
  | "overloaded"
  | "not-leader"
  | "timeout"
  | "no-responders"
  | "responder-lost"
  | "storage-full"
  | "draining"
  | "cancelled"
  | "starting"
  | "frame-too-large"
  | "malformed-frame"
  | "malformed-message"
  | "hello-required"
  | "hello-timeout"
  | "version-unsupported"
  | "unnegotiated-flag"
  | "heartbeat-lost"
  | "correlation-required"
  | "internal"
  | "disconnected"
  | "connect-failed"
  | "closed"
  | "undecodable";

/** Any failure of this client. */
export abstract class QwerqError extends Error {
  override readonly name: string = "QwerqError";
  /** Stable, in kebab case. A broker that is newer than this client may send others. */
  readonly code: ErrorCode | (string & {});
  /** The code's number; 0 for those that only a client has. */
  readonly number: number;
  /** Facts for programs: `path`, `offset`, `type`, `version`, `limit`, `queue` and others. */
  readonly details: Readonly<Record<string, string>>;
  /** When trying again makes sense, from then on; `undefined`: not said. */
  readonly retryAfterMs: number | undefined;

  constructor(code: string, message: string, facts: ErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.code = code;
    this.number = facts.number ?? 0;
    this.details = facts.details ?? {};
    this.retryAfterMs = facts.retryAfterMs;
  }

  /** Whether the same request may succeed later. */
  get retryable(): boolean {
    return false;
  }
}

/** What an error knows beside its code and message. */
export interface ErrorFacts {
  number?: number | undefined;
  details?: Record<string, string> | undefined;
  retryAfterMs?: number | undefined;
  cause?: unknown;
}

/** The broker refused the request; change it before trying again. */
export class RefusedError extends QwerqError {
  override readonly name: string = "RefusedError";

  /** The path of the field that breaks the contract, such as `lines[3].price.units`. */
  get path(): string | undefined {
    return this.details["path"];
  }

  /** Where in the payload the contract breaks: bytes from its start. */
  get offset(): number | undefined {
    const offset = this.details["offset"];
    return offset === undefined ? undefined : Number(offset);
  }
}

/** The request is right but cannot be served now; try again, not before `retryAfterMs`. */
export class UnavailableError extends QwerqError {
  override readonly name: string = "UnavailableError";

  override get retryable(): boolean {
    return true;
  }
}

/** The broker failed; its log says why. */
export class FaultError extends QwerqError {
  override readonly name: string = "FaultError";
}

/** Client and broker do not understand each other; the connection was closed. */
export class ProtocolError extends QwerqError {
  override readonly name: string = "ProtocolError";
}

/** The connection was lost before the reply came. The client connects again by itself; only this request is lost. */
export class DisconnectedError extends QwerqError {
  override readonly name: string = "DisconnectedError";
  /** The request had been sent, so the broker may have carried it out. */
  readonly maybeStored: boolean;

  constructor(maybeStored: boolean) {
    super(
      "disconnected",
      maybeStored
        ? "the connection was lost before the broker replied; the request may have been carried out (publish with an idempotencyKey " +
            "and the client repeats it by itself)"
        : "the connection was lost before the request was sent; send it again",
    );
    this.maybeStored = maybeStored;
  }

  override get retryable(): boolean {
    return true;
  }
}

/** No broker could be reached. */
export class ConnectError extends QwerqError {
  override readonly name: string = "ConnectError";

  constructor(tried: readonly string[], cause: unknown) {
    super("connect-failed", `cannot reach a broker (tried: ${tried.join(", ")}); is it running, and is the address right?`, { cause });
  }

  override get retryable(): boolean {
    return true;
  }
}

/** The client was closed, by `close` or because it gave up on connecting again. */
export class ClosedError extends QwerqError {
  override readonly name: string = "ClosedError";

  constructor() {
    super("closed", "the client is closed; connect a new one");
  }
}

/** A payload is not the message that the contract says. */
export class DecodeError extends QwerqError {
  override readonly name: string = "DecodeError";

  constructor(what: string, messageType: string, cause: unknown) {
    super("undecodable", `${what} is not a ${messageType}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** The error that the broker's message says. */
export function fromWire(error: WireError): QwerqError {
  const facts: ErrorFacts = {
    number: error.code,
    details: { ...error.details },
    retryAfterMs: error.retryAfterMs > 0n ? Number(error.retryAfterMs) : undefined,
  };
  const message = error.message === "" ? error.name : error.message;
  switch (Math.floor(error.code / 1000)) {
    case 1:
      return new RefusedError(error.name, message, facts);
    case 2:
      return new UnavailableError(error.name, message, facts);
    case 3:
      return new ProtocolError(error.name, message, facts);
    default:
      return new FaultError(error.name, message, facts);
  }
}

/** The leader is gone with a call: nobody knows what became of it. */
export function callLost(): UnavailableError {
  const message = "the leader changed, or the connection to it was lost, while the call was under way; whether it ran is not known";
  return new UnavailableError("responder-lost", message, { number: 2005 });
}

/** The lease ended with its connection, its subscription or its time. */
export function staleLease(): RefusedError {
  const message = "the lease ended with its connection, its subscription or its time; the message is delivered again, settle that delivery";
  return new RefusedError("stale-lease", message, { number: 1012 });
}
