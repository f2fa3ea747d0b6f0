// One connection, from HELLO_ACK to its end: turns work into frames and frames into results.
//
// What outlives a connection (open subscriptions, work that was never sent) is in `Work`, which the next session takes over.
// Frames collect until the event loop has run what is ready, and leave in one write.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";

import { decodeDeliver, decodeFetched } from "./arrival.js";
import { DisconnectedError, ProtocolError, type QwerqError, RefusedError, callLost, fromWire, staleLease } from "./errors.js";
import { type Frame, FrameDecoder, encodeFrame } from "./frame.js";
import { BATCH_BYTES_MAX, type Batch, type Entry, type Lane, batchOf } from "./lane.js";
import { Ledger, type Note, encodeNote, failNote } from "./ledger.js";
import { Opcode, opcodeName } from "./opcode.js";
import { type Item, decodePublishAck, encodePublish } from "./publish.js";
import type { Feed, Request, Work } from "./request.js";
import { RETRY_BUDGET_MS } from "./retry_key.js";
import type { Transport } from "./transport.js";
import {
  CallResponseSchema,
  CallSchema,
  CancelSchema,
  ConsumeAckSchema,
  CreditSchema,
  ErrorSchema,
  GoAwaySchema,
  SettleSchema,
  SettledSchema,
  SubscriptionEndedSchema,
  UnsubscribeSchema,
  type Error as WireError,
} from "./wire_pb.js";

/** Bytes that may wait for the transport before publishes are left in their lanes. */
const OUT_BYTES_MAX = 1024 * 1024;

/** How often a publish or request is sent again after `overloaded` before the caller gets to know. */
const OVERLOADED_RETRIES_MAX = 10;

/** How long to wait after `overloaded` when the broker does not say. */
const OVERLOADED_PAUSE_MS = 50;

/** How long a subscription waits before it tries again what the broker could not do just then. */
const RESUBSCRIBE_PAUSE_MS = 1_000;

/** How long after GOAWAY what is in flight may take. */
const DRAIN_LIMIT_MS = 5_000;

/** Refused leases and finished requests name this. */
const REQUEST_ID_MAX = 0xffff_ffff;

/** What HELLO_ACK settled. */
export interface Agreed {
  readonly maxFrameBytes: number;
  /** PUBLISH frames that may be unanswered, and their bytes. */
  readonly windowRequests: number;
  readonly windowBytes: number;
  /** After so long without a word this side sends a heartbeat. */
  readonly heartbeatMs: number;
  /** After so long without a word from the broker it counts as dead. */
  readonly silenceMs: number;
  readonly session: string;
  readonly brokerVersion: string;
  /** The broker is a node of a cluster, so that another one may take over. */
  readonly cluster: boolean;
}

/** How a session ended: closed by this side, sent away by the broker (perhaps to a leader, as the details say), or lost. */
export type Exit = { how: "closed" } | { how: "goaway"; details: Readonly<Record<string, string>> } | { how: "lost"; why: unknown };

type What =
  | { kind: "publish"; lane: Lane; batch: Batch }
  | { kind: "request"; request: Request }
  | { kind: "consume"; feed: Feed }
  | { kind: "unsubscribe"; number: number; done: (error?: QwerqError) => void }
  | { kind: "note"; note: Note };

/** A correlated frame without an answer; `end` is where it ends in the stream of bytes. */
interface Sent {
  readonly end: number;
  readonly what: What;
}

/** One connection. */
export class Session {
  readonly agreed: Agreed;
  readonly ledger: Ledger;
  readonly #work: Work;
  readonly #transport: Transport;
  readonly #decoder: FrameDecoder;
  readonly #exit: (exit: Exit) => void;
  readonly #sent = new Map<number, Sent>();
  readonly #pauses = new Set<ReturnType<typeof setTimeout>>();
  #out: Uint8Array[] = [];
  #outBytes = 0;
  #queued = 0;
  #written = 0;
  #blocked = false;
  #publishing = 0;
  #publishingBytes = 0;
  #lastId = 0;
  #unconfirmed = false;
  #scheduled = false;
  #heardAt: number;
  #saidAt: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #timerAt = Number.POSITIVE_INFINITY;
  #draining: { until: number; leader: string | undefined } | undefined;
  #unsubscribed = false;
  #over = false;

  constructor(work: Work, transport: Transport, decoder: FrameDecoder, agreed: Agreed, maxLeaseMs: number, exit: (exit: Exit) => void) {
    this.#work = work;
    this.#transport = transport;
    this.#decoder = decoder;
    this.#exit = exit;
    this.agreed = agreed;
    this.ledger = new Ledger(maxLeaseMs, () => this.wake());
    decoder.limit = agreed.maxFrameBytes;
    this.#heardAt = performance.now();
    this.#saidAt = this.#heardAt;
  }

  /** Opens the subscriptions again, takes in what has been read already, and sends what waits. */
  start(): void {
    for (const feed of this.#work.feeds.values()) {
      this.#sendConsume(feed);
    }
    this.#arm();
    this.received(new Uint8Array(0));
    this.wake();
  }

  /** There is work. It is done when the event loop has run what is ready, so that it shares a write. */
  wake(): void {
    if (!this.#scheduled && !this.#over) {
      this.#scheduled = true;
      defer(() => {
        this.#scheduled = false;
        this.#pump();
      });
    }
  }

  /** Bytes have arrived. */
  received(bytes: Uint8Array): void {
    if (this.#over) {
      return;
    }
    this.#heardAt = performance.now();
    try {
      this.#decoder.push(bytes);
      for (let frame = this.#decoder.next(); frame !== undefined && !this.#over; frame = this.#decoder.next()) {
        this.#receive(frame);
      }
    } catch (error) {
      this.#lose(error);
      return;
    }
    this.wake();
  }

  /** The transport takes bytes again. */
  drained(): void {
    this.#blocked = false;
    this.wake();
  }

  /** The transport is closed. */
  lost(why: unknown): void {
    this.#lose(why);
  }

  /** Opens a subscription. */
  open(feed: Feed): void {
    this.#sendConsume(feed);
    this.wake();
  }

  /** Ends a subscription; calls back when the broker has agreed. */
  unsubscribe(number: number, keepLeases: boolean, done: (error?: QwerqError) => void): void {
    if (!keepLeases) {
      // What was settled before goes out before.
      this.#sayNotes();
      this.ledger.loseSubscription(number);
    }
    this.#sayNotes();
    const message = create(UnsubscribeSchema, { subscription: number, keepLeases });
    this.#send(Opcode.Unsubscribe, toBinary(UnsubscribeSchema, message), { kind: "unsubscribe", number, done });
    this.wake();
  }

  /** Grants a subscription credit. */
  credit(subscription: number, prefetch: number, prefetchBytes: number): void {
    const message = create(CreditSchema, { subscription, prefetch, prefetchBytes: BigInt(prefetchBytes) });
    this.#put(encodeFrame(Opcode.Credit, undefined, toBinary(CreditSchema, message)));
    this.wake();
  }

  /** Nobody waits for the request any more. */
  cancel(request: Request): void {
    for (const [id, sent] of this.#sent) {
      if (sent.what.kind === "request" && sent.what.request === request) {
        this.#put(encodeFrame(Opcode.Cancel, undefined, toBinary(CancelSchema, create(CancelSchema, { requestId: id }))));
        this.wake();
        return;
      }
    }
  }

  /** Closes at once. */
  destroy(): void {
    this.#finish({ how: "lost", why: new Error("destroyed") }, () => this.#transport.destroy());
  }

  #pump(): void {
    if (this.#over) {
      return;
    }
    this.#sayNotes();
    this.#sendRequests();
    this.#publishLanes();
    this.#finishClosing();
    this.#flush();
    this.#leaveWhenDone();
    this.#arm();
  }

  #sayNotes(): void {
    for (const note of this.ledger.takeNotes()) {
      this.#say(note);
    }
  }

  #say(note: Note): void {
    const payload = encodeNote(note);
    if (note.waiters === undefined) {
      this.#put(encodeFrame(note.say.opcode, undefined, payload));
      this.#unconfirmed ||= note.say.opcode !== Opcode.ExtendVisibility;
    } else {
      this.#send(note.say.opcode, payload, { kind: "note", note });
      this.#unconfirmed = false;
    }
  }

  #sendRequests(): void {
    if (this.#draining !== undefined) {
      return;
    }
    const requests = this.#work.requests;
    this.#work.requests = [];
    for (const request of requests) {
      this.#sendRequest(request);
    }
  }

  #sendRequest(request: Request): void {
    if (request.cancelled) {
      return;
    }
    if (request.payload.length + 4 > this.agreed.maxFrameBytes) {
      request.reject(tooLarge(request.payload.length));
      return;
    }
    this.#send(request.opcode, request.payload, { kind: "request", request });
  }

  #sendConsume(feed: Feed): void {
    this.#send(Opcode.Consume, feed.consume(), { kind: "consume", feed });
  }

  /** Turns waiting batches into PUBLISH frames, lane after lane, as far as window and transport allow. */
  #publishLanes(): void {
    while (this.#draining === undefined && this.#mayPublish()) {
      const lane = this.#work.lanes.shift();
      if (lane === undefined) {
        return;
      }
      const taken = lane.take();
      const batch = taken === undefined ? undefined : inTime(taken);
      lane.listed = !lane.empty;
      if (lane.listed) {
        this.#work.lanes.push(lane);
      }
      if (batch !== undefined) {
        this.#sendPublish(lane, batch);
      }
    }
  }

  #mayPublish(): boolean {
    const room =
      this.#publishing < this.agreed.windowRequests && this.#publishingBytes + BATCH_BYTES_MAX < this.agreed.windowBytes;
    return !this.#blocked && this.#outBytes < OUT_BYTES_MAX && (this.#publishing === 0 || room);
  }

  #sendPublish(lane: Lane, batch: Batch): void {
    const items = batch.entries.map((entry) => entry.item);
    const payload = encodePublish(lane.queue, lane.contract, items, batch.atomic);
    if (payload.length + 4 > this.agreed.maxFrameBytes) {
      resolveAll(batch, tooLarge(payload.length));
      return;
    }
    this.#publishing += 1;
    this.#publishingBytes += batch.bytes;
    this.#send(Opcode.Publish, payload, { kind: "publish", lane, batch });
  }

  /** When all that a closing client had to say is answered: ends its subscriptions, which releases their leases. */
  #finishClosing(): void {
    const { closing, requests, lanes, feeds } = this.#work;
    if (!closing || this.#unsubscribed) {
      return;
    }
    this.ledger.releaseOthers((subscription) => feeds.has(subscription));
    this.#sayNotes();
    for (const { what } of this.#sent.values()) {
      // What may wait for others is not waited for.
      if (what.kind === "request" && what.request.mayWait && !what.request.cancelled) {
        what.request.cancelled = true;
        what.request.reject(new DisconnectedError(true));
        this.cancel(what.request);
      }
    }
    if (this.#sent.size > 0 || requests.length > 0 || lanes.length > 0 || this.#pauses.size > 0) {
      return;
    }
    if (this.#unconfirmed) {
      this.#say(this.ledger.confirmAll());
      return;
    }
    this.#unsubscribed = true;
    for (const number of feeds.keys()) {
      this.unsubscribe(number, false, () => {});
    }
  }

  #leaveWhenDone(): void {
    const quiet = this.#sent.size === 0 && this.#outBytes === 0;
    if (this.#draining !== undefined) {
      if ((quiet && this.ledger.held === 0) || performance.now() >= this.#draining.until) {
        const { leader } = this.#draining;
        this.#finish({ how: "goaway", details: leader === undefined ? {} : { leader } }, () => this.#transport.close());
      }
    } else if (this.#unsubscribed && quiet) {
      this.#finish({ how: "closed" }, () => this.#transport.close());
    }
  }

  #send(opcode: number, payload: Uint8Array, what: What): void {
    const id = this.#nextId();
    this.#put(encodeFrame(opcode, id, payload));
    this.#sent.set(id, { end: this.#queued, what });
  }

  #nextId(): number {
    do {
      this.#lastId = this.#lastId >= REQUEST_ID_MAX ? 1 : this.#lastId + 1;
    } while (this.#sent.has(this.#lastId));
    return this.#lastId;
  }

  #put(frame: Uint8Array): void {
    this.#out.push(frame);
    this.#outBytes += frame.length;
    this.#queued += frame.length;
  }

  #flush(): void {
    if (this.#outBytes === 0 || this.#over) {
      return;
    }
    const [only, ...others] = this.#out;
    const bytes = only !== undefined && others.length === 0 ? only : joined(this.#out, this.#outBytes);
    this.#written += this.#outBytes;
    this.#out = [];
    this.#outBytes = 0;
    this.#saidAt = performance.now();
    this.#blocked = !this.#transport.write(bytes);
  }

  #receive(frame: Frame): void {
    switch (frame.opcode) {
      case Opcode.Message:
        return this.#onMessage(frame);
      case Opcode.Call:
        return this.#onCall(frame);
      case Opcode.Heartbeat:
      case Opcode.SchemaChanged:
        return;
      case Opcode.GoAway:
        return this.#onGoAway(frame);
      case Opcode.Error:
        return frame.requestId === undefined
          ? this.#onStatement(decode(ErrorSchema, frame))
          : this.#onError(frame.requestId, decode(ErrorSchema, frame));
      case Opcode.SubscriptionEnded:
        if (frame.requestId === undefined) {
          const ended = decode(SubscriptionEndedSchema, frame);
          return this.#endSubscription(ended.subscription, ended.reason);
        }
        return this.#onReply(frame.requestId, frame);
      default:
        // Frames of opcodes that are newer than this client are nothing to it.
        return frame.requestId === undefined ? undefined : this.#onReply(frame.requestId, frame);
    }
  }

  #onMessage(frame: Frame): void {
    const deliver = decodeDeliver(frame.payload);
    const feed = this.#work.feeds.get(deliver.subscription);
    if (feed === undefined) {
      // They crossed an UNSUBSCRIBE.
      this.#release(deliver.messages.map((message) => message.leaseId));
    } else {
      feed.delivered(deliver.messages, this.ledger);
    }
  }

  #onCall(frame: Frame): void {
    const call = decode(CallSchema, frame);
    const answer = (response: Uint8Array): void => {
      if (!this.#over) {
        this.#put(encodeFrame(Opcode.CallResponse, undefined, response));
        this.wake();
      }
    };
    const feed = this.#work.feeds.get(call.subscription);
    if (feed === undefined) {
      // It crossed an UNSUBSCRIBE; its caller must not wait for nothing.
      const error = { code: 2005, name: "responder-lost", message: "the responder has stopped serving" };
      answer(toBinary(CallResponseSchema, create(CallResponseSchema, { callId: call.callId, error })));
    } else {
      feed.called(call, answer);
    }
  }

  #onGoAway(frame: Frame): void {
    const { leader } = decode(GoAwaySchema, frame);
    if (!this.#work.closing) {
      this.#draining ??= { until: performance.now() + DRAIN_LIMIT_MS, leader: leader === "" ? undefined : leader };
    }
  }

  /** The broker does not lead any more: whatever it had been asked may be done or not, and another connection is to be asked. */
  #depose(said: QwerqError): void {
    this.#finish({ how: "goaway", details: said.details }, () => this.#transport.destroy());
  }

  #onReply(id: number, frame: Frame): void {
    const what = this.#forget(id);
    switch (what?.kind) {
      case undefined:
        return this.#onOrphan(frame);
      case "publish":
        expect(frame, Opcode.PublishAck);
        return this.#onPublishAck(what.lane, what.batch, decodePublishAck(frame.payload));
      case "request":
        expect(frame, what.request.expect);
        return what.request.cancelled ? this.#onOrphan(frame) : what.request.resolve({ payload: frame.payload, ledger: this.ledger });
      case "consume":
        expect(frame, Opcode.ConsumeAck);
        return what.feed.opened(decode(ConsumeAckSchema, frame));
      case "unsubscribe":
        expect(frame, Opcode.SubscriptionEnded);
        return what.done();
      case "note": {
        const settled = decode(SettledSchema, frame);
        const refused = new Map(settled.refused.map((lease) => [lease.index, lease.error]));
        what.note.waiters?.forEach((waiter, index) => {
          if (refused.has(index)) {
            const error = refused.get(index);
            waiter.reject(error === undefined ? staleLease() : fromWire(error));
          } else {
            waiter.resolve();
          }
        });
      }
    }
  }

  /** Messages that nobody fetches any more go back uncounted. */
  #onOrphan(frame: Frame): void {
    if (frame.opcode === Opcode.Fetched) {
      this.#release(decodeFetched(frame.payload).map((message) => message.leaseId));
    }
  }

  #release(leases: readonly Uint8Array[]): void {
    const leaseIds = leases.filter((lease) => lease.length > 0);
    if (leaseIds.length > 0) {
      this.#put(encodeFrame(Opcode.Release, undefined, toBinary(SettleSchema, create(SettleSchema, { leaseIds }))));
    }
  }

  #onPublishAck(lane: Lane, batch: Batch, results: ReturnType<typeof decodePublishAck>): void {
    const { entries } = batch;
    if (results.length !== entries.length) {
      resolveAll(batch, new DisconnectedError(true));
      throw new ProtocolError("malformed-message", `PUBLISH_ACK has ${results.length} results for ${entries.length} messages`);
    }
    const deposed = results.find((result): result is QwerqError => result instanceof Error && result.code === "not-leader");
    if (deposed !== undefined) {
      const rest = this.#survivors(batch, new DisconnectedError(true));
      if (rest !== undefined) {
        this.#putBack([{ lane, batch: rest }]);
      }
      return this.#depose(deposed);
    }
    const again = batch.refused < OVERLOADED_RETRIES_MAX && !batch.atomic;
    const overloaded: number[] = [];
    let pauseMs: number | undefined;
    results.forEach((result, at) => {
      if (again && result instanceof Error && result.code === "overloaded") {
        overloaded.push(at);
        pauseMs = Math.max(pauseMs ?? 0, result.retryAfterMs ?? OVERLOADED_PAUSE_MS);
      } else {
        entries[at]?.done(result);
      }
    });
    if (pauseMs !== undefined) {
      const part = batchOf(
        entries.filter((_, at) => overloaded.includes(at)),
        false,
        batch.refused + 1,
        batch.lostAt,
      );
      this.#later(pauseMs, () => this.#putBack([{ lane, batch: part }]));
    }
  }

  #onError(id: number, wire: WireError): void {
    const error = fromWire(wire);
    if (error.code === "not-leader") {
      // The request stays among those that wait for an answer, as on a lost connection.
      return this.#depose(error);
    }
    const what = this.#forget(id);
    const overloaded = error.code === "overloaded";
    const pauseMs = error.retryAfterMs ?? OVERLOADED_PAUSE_MS;
    switch (what?.kind) {
      case undefined:
        return;
      case "publish":
        if (overloaded && what.batch.refused < OVERLOADED_RETRIES_MAX) {
          const batch = { ...what.batch, refused: what.batch.refused + 1 };
          return this.#later(pauseMs, () => this.#putBack([{ lane: what.lane, batch }]));
        }
        return resolveAll(what.batch, error);
      case "request":
        if (overloaded && !what.request.mayWait && what.request.refused < OVERLOADED_RETRIES_MAX) {
          what.request.refused += 1;
          return this.#later(pauseMs, () => this.#work.requests.push(what.request));
        }
        return what.request.reject(error);
      case "consume":
        return this.#onConsumeRefused(what.feed, error);
      case "unsubscribe":
        return what.done(error.code === "unknown-subscription" ? undefined : error);
      case "note":
        return failNote(what.note, error);
    }
  }

  /** A caller is told; a subscription that was open before tries again what the broker cannot do just now, and else ends. */
  #onConsumeRefused(feed: Feed, error: QwerqError): void {
    if (feed.wasOpen && error.retryable && this.#work.feeds.has(feed.number)) {
      this.#later(error.retryAfterMs ?? RESUBSCRIBE_PAUSE_MS, () => {
        if (this.#work.feeds.has(feed.number)) {
          this.#sendConsume(feed);
        }
      });
    } else {
      this.#work.feeds.delete(feed.number);
      feed.ended(error);
    }
  }

  /** An ERROR that answers no request: about a subscription, about the connection, or about a frame that has no answer. */
  #onStatement(error: WireError): void {
    if (error.subscription !== undefined) {
      this.#endSubscription(error.subscription, error);
      return;
    }
    const stated = fromWire(error);
    if (stated instanceof ProtocolError) {
      throw stated;
    }
    if (stated.code === "not-leader") {
      this.#depose(stated);
    }
  }

  #endSubscription(number: number, reason: WireError | undefined): void {
    this.ledger.loseSubscription(number);
    const feed = this.#work.feeds.get(number);
    this.#work.feeds.delete(number);
    feed?.ended(reason === undefined ? undefined : fromWire(reason));
  }

  #forget(id: number): What | undefined {
    const what = this.#sent.get(id)?.what;
    this.#sent.delete(id);
    if (what?.kind === "publish") {
      this.#publishing -= 1;
      this.#publishingBytes -= what.batch.bytes;
    }
    return what;
  }

  /** Does something after a pause, unless the connection is gone by then: then it is done at once, for the next one. */
  #later(ms: number, act: () => void): void {
    const pause = setTimeout(() => {
      this.#pauses.delete(pause);
      this.#acts.delete(pause);
      act();
      this.wake();
    }, ms);
    this.#pauses.add(pause);
    this.#acts.set(pause, act);
  }

  readonly #acts = new Map<ReturnType<typeof setTimeout>, () => void>();

  #putBack(batches: readonly { lane: Lane; batch: Batch }[]): void {
    for (const { lane, batch } of [...batches].reverse()) {
      lane.putBack([batch]);
      if (!lane.listed) {
        lane.listed = true;
        this.#work.lanes.unshift(lane);
      }
    }
  }

  /** Sets the timer to the next thing that time demands. */
  #arm(): void {
    if (this.#over) {
      return;
    }
    const due = Math.min(
      this.#saidAt + this.agreed.heartbeatMs,
      this.#heardAt + this.agreed.silenceMs,
      this.ledger.sweepDue ?? Number.POSITIVE_INFINITY,
      this.#draining?.until ?? Number.POSITIVE_INFINITY,
    );
    if (due < this.#timerAt) {
      clearTimeout(this.#timer);
      this.#timerAt = due;
      this.#timer = setTimeout(() => this.#tick(), Math.max(0, Math.ceil(due - performance.now())));
    }
  }

  #tick(): void {
    this.#timerAt = Number.POSITIVE_INFINITY;
    const now = performance.now();
    if (now >= this.#heardAt + this.agreed.silenceMs) {
      this.#lose(new Error(`the broker was silent for ${this.agreed.silenceMs} ms`));
      return;
    }
    this.ledger.sweep(now);
    if (now >= this.#saidAt + this.agreed.heartbeatMs && this.#outBytes === 0) {
      if (this.#blocked) {
        // A transport that takes nothing is not helped by more.
        this.#saidAt = now;
      } else {
        this.#put(encodeFrame(Opcode.Heartbeat, undefined, new Uint8Array(0)));
      }
    }
    this.#pump();
  }

  #lose(why: unknown): void {
    this.#finish({ how: "lost", why }, () => this.#transport.destroy());
  }

  #finish(exit: Exit, close: () => void): void {
    if (this.#over) {
      return;
    }
    this.#over = true;
    clearTimeout(this.#timer);
    const pending = [...this.#acts.values()];
    this.#pauses.forEach(clearTimeout);
    close();
    this.ledger.close();
    this.#carryOver();
    pending.forEach((act) => act());
    for (const feed of this.#work.feeds.values()) {
      feed.lost();
    }
    this.#exit(exit);
  }

  /** What was never sent, and what may be sent twice, goes back to the work; the others are told. */
  #carryOver(): void {
    const batches: { lane: Lane; batch: Batch }[] = [];
    const requests: Request[] = [];
    for (const { end, what } of this.#sent.values()) {
      const maybe = end <= this.#written;
      const error = new DisconnectedError(maybe);
      switch (what.kind) {
        case "publish": {
          const batch = maybe ? this.#survivors(what.batch, error) : what.batch;
          if (batch !== undefined) {
            batches.push({ lane: what.lane, batch });
          }
          break;
        }
        case "request":
          if (what.request.cancelled) {
            break;
          }
          if (!maybe || what.request.safe) {
            requests.push(what.request);
          } else {
            what.request.reject(this.agreed.cluster && what.request.opcode === Opcode.Call ? callLost() : error);
          }
          break;
        case "unsubscribe":
          // The connection took the subscription with it.
          what.done();
          break;
        case "note":
          failNote(what.note, error);
          break;
        case "consume":
          break;
      }
    }
    this.#sent.clear();
    this.#work.requests.unshift(...requests);
    this.#putBack(batches);
  }

  /** What of a batch may go out again after its connection was lost; the rest is told. */
  #survivors(batch: Batch, error: QwerqError): Batch | undefined {
    const { retryKeys } = this.#work;
    const kept = ({ keyed, retry }: Item): boolean => keyed && (retry === undefined || retryKeys.isKept(retry));
    return keep({ ...batch, lostAt: batch.lostAt ?? performance.now() }, kept, error);
  }
}

/** What of a batch that is about to go out again the broker will still know; the rest is told. */
function inTime(batch: Batch): Batch | undefined {
  const late = batch.lostAt !== undefined && performance.now() - batch.lostAt > RETRY_BUDGET_MS;
  return late ? keep(batch, (item) => item.retry === undefined, new DisconnectedError(true)) : batch;
}

/**
 * Those that may be sent twice; the rest may have been stored. A part of an atomic batch would break it, so it is kept as a whole or not at
 * all.
 */
function keep(batch: Batch, may: (item: Item) => boolean, error: QwerqError): Batch | undefined {
  if (batch.entries.every((entry) => may(entry.item))) {
    return batch;
  }
  const keeps = ({ item }: Entry): boolean => !batch.atomic && may(item);
  const entries = batch.entries.filter(keeps);
  batch.entries.filter((entry) => !keeps(entry)).forEach((entry) => entry.done(error));
  return entries.length === 0 ? undefined : batchOf(entries, batch.atomic, batch.refused, batch.lostAt);
}

function resolveAll(batch: Batch, error: QwerqError): void {
  for (const entry of batch.entries) {
    entry.done(error);
  }
}

function tooLarge(bytes: number): QwerqError {
  const message = `a request of ${bytes} bytes is over the broker's frame limit; send less at once`;
  return new RefusedError("message-too-large", message, { number: 1008 });
}

function joined(parts: readonly Uint8Array[], size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

function expect(frame: Frame, opcode: number): void {
  if (frame.opcode !== opcode) {
    const got = opcodeName(frame.opcode) ?? `opcode ${frame.opcode}`;
    throw new ProtocolError("malformed-message", `the broker answered ${got} instead of ${opcodeName(opcode) ?? opcode}`);
  }
}

function decode<D extends DescMessage>(schema: D, frame: Frame): MessageShape<D> {
  try {
    return fromBinary(schema, frame.payload);
  } catch (cause) {
    throw new ProtocolError("malformed-message", `${opcodeName(frame.opcode) ?? frame.opcode} does not decode`, { cause });
  }
}

const immediate = (globalThis as { setImmediate?: (act: () => void) => unknown }).setImmediate;

/** Runs something when what is ready has run. */
function defer(act: () => void): void {
  if (immediate === undefined) {
    queueMicrotask(act);
  } else {
    immediate(act);
  }
}
