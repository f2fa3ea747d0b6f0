// From an address to a session's makings: dials, says HELLO, hears HELLO_ACK. Goes where nodes say that the leader is.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";

import { ConnectError, FaultError, ProtocolError, QwerqError, UnavailableError, fromWire } from "./errors.js";
import { FRAME_BYTES_BEFORE_HELLO, type Frame, FrameDecoder, encodeFrame } from "./frame.js";
import { Opcode } from "./opcode.js";
import { Route, leaderAddress } from "./route.js";
import type { Agreed } from "./session.js";
import type { Dial, Transport, TransportEvents } from "./transport.js";
import { ErrorSchema, HelloAckSchema, HelloSchema } from "./wire_pb.js";

/** The only version that this client speaks. */
const PROTOCOL_VERSION = 1;

/** What a broker means that does not say its heartbeat. */
const HEARTBEAT_DEFAULT_MS = 10_000;

/** What a broker means that does not say its frame limit. */
const FRAME_BYTES_DEFAULT = 16 * 1024 * 1024;

/** How long to wait when a node that knows no leader does not say. */
const ELECTION_PAUSE_MS = 250;

/** What this client would like of the broker: to know whether it is a node of a cluster. */
const CLUSTER = "cluster";

/** What one attempt needs to know. */
export interface HelloOptions {
  readonly token: string;
  readonly clientName: string;
  readonly clientVersion: string;
  readonly connectTimeoutMs: number;
  /** How often this side says something at least; never less often than the broker wants. */
  readonly heartbeatMs: number | undefined;
  readonly dial: Dial;
}

/** A connection that has been agreed on. Its events go to whatever `attach` names. */
export interface Link {
  readonly address: string;
  readonly transport: Transport;
  readonly decoder: FrameDecoder;
  readonly agreed: Agreed;
  attach(events: TransportEvents): void;
}

/** Why a round through the addresses of a cluster gave no connection: nobody who leads was found, so another round makes sense. */
export class Electing extends ConnectError {
  /** How long to wait before that. */
  readonly pauseMs: number;

  constructor(tried: readonly string[], cause: unknown, pauseMs: number) {
    super(tried, cause);
    this.pauseMs = pauseMs;
  }
}

/**
 * Tries the leader, if one is known, and then every address once, and goes where nodes say that the leader is. A broker that answers and
 * says no is believed.
 */
export async function connectAny(
  leader: string | undefined,
  addresses: readonly string[],
  options: HelloOptions,
  signal: AbortSignal,
): Promise<Link> {
  const route = new Route(leader, addresses);
  const tried: string[] = [];
  let last: unknown;
  let pauseMs: number | undefined;
  for (let address = route.next(); address !== undefined; address = route.next()) {
    signal.throwIfAborted();
    try {
      return await connectOne(address, options, signal);
    } catch (error) {
      signal.throwIfAborted();
      // A broker that is going down is as good as one that is not there.
      if (error instanceof QwerqError && !(error instanceof UnavailableError || error instanceof FaultError)) {
        throw error;
      }
      if (error instanceof QwerqError && error.code === "not-leader") {
        pauseMs = Math.max(pauseMs ?? 0, error.retryAfterMs ?? ELECTION_PAUSE_MS);
        const named = leaderAddress(address, error.details);
        if (named !== undefined) {
          route.redirect(named);
        }
      }
      last = error;
      tried.push(`${address}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throw pauseMs === undefined ? new ConnectError(tried, last) : new Electing(tried, last, pauseMs);
}

async function connectOne(address: string, options: HelloOptions, signal: AbortSignal): Promise<Link> {
  const attempt = new AbortController();
  const abort = (): void => attempt.abort(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  const timer = setTimeout(() => attempt.abort(new Error(`no answer within ${options.connectTimeoutMs} ms`)), options.connectTimeoutMs);
  try {
    return await sayHello(address, options, attempt.signal);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

async function sayHello(address: string, options: HelloOptions, signal: AbortSignal): Promise<Link> {
  const decoder = new FrameDecoder(FRAME_BYTES_BEFORE_HELLO);
  let attached: TransportEvents | undefined;
  let missed: { why: unknown } | undefined;
  let heard: (frame: Frame) => void = () => {};
  let failed: (error: unknown) => void = () => {};
  const answer = new Promise<Frame>((resolve, reject) => {
    heard = resolve;
    failed = reject;
  });
  answer.catch(() => {});
  let answered = false;
  const events: TransportEvents = {
    received(bytes) {
      if (attached !== undefined) {
        attached.received(bytes);
        return;
      }
      decoder.push(bytes);
      if (!answered) {
        try {
          const frame = decoder.next();
          answered = frame !== undefined;
          if (frame !== undefined) {
            heard(frame);
          }
        } catch (error) {
          failed(notABroker(error));
        }
      }
    },
    drained: () => attached?.drained(),
    ended(why) {
      missed = { why };
      failed(why);
      attached?.ended(why);
    },
  };
  const transport = await options.dial(address, events, signal);
  const abort = (): void => failed(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    const hello = create(HelloSchema, {
      minProtocol: PROTOCOL_VERSION,
      maxProtocol: PROTOCOL_VERSION,
      clientName: options.clientName,
      clientVersion: options.clientVersion,
      token: options.token,
      features: [CLUSTER],
    });
    transport.write(encodeFrame(Opcode.Hello, undefined, toBinary(HelloSchema, hello)));
    const agreed = agree(await answer, options.heartbeatMs);
    return {
      address,
      transport,
      decoder,
      agreed,
      attach(to) {
        attached = to;
        if (missed !== undefined) {
          to.ended(missed.why);
        }
      },
    };
  } catch (error) {
    transport.destroy();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

function agree(frame: Frame, wantedHeartbeatMs: number | undefined): Agreed {
  if (frame.opcode === Opcode.Error) {
    throw fromWire(fromBinary(ErrorSchema, frame.payload));
  }
  if (frame.opcode !== Opcode.HelloAck) {
    throw notABroker(`opcode ${frame.opcode} instead of HELLO_ACK`);
  }
  const ack = fromBinary(HelloAckSchema, frame.payload);
  if (ack.protocol !== PROTOCOL_VERSION) {
    throw new ProtocolError("version-unsupported", `the broker chose protocol ${ack.protocol}, this client speaks ${PROTOCOL_VERSION}`);
  }
  const heartbeatMs = ack.heartbeatMs === 0 ? HEARTBEAT_DEFAULT_MS : ack.heartbeatMs;
  return {
    maxFrameBytes: ack.maxFrameBytes === 0 ? FRAME_BYTES_DEFAULT : ack.maxFrameBytes,
    windowRequests: ack.publishWindowRequests === 0 ? Number.POSITIVE_INFINITY : ack.publishWindowRequests,
    windowBytes: ack.publishWindowBytes === 0 ? Number.POSITIVE_INFINITY : ack.publishWindowBytes,
    heartbeatMs: Math.min(wantedHeartbeatMs ?? heartbeatMs, heartbeatMs),
    silenceMs: heartbeatMs * 2,
    session: ack.session,
    brokerVersion: ack.brokerVersion,
    cluster: ack.features.includes(CLUSTER),
  };
}

function notABroker(what: unknown): ProtocolError {
  const text = what instanceof Error ? what.message : String(what);
  return new ProtocolError("malformed-frame", `what answered is not a QWER-Q broker: ${text}`, { cause: what });
}
