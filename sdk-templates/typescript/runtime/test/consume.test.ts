// Consuming: deliveries and what is said about them, leases and their renewal, readers without leases, pulling.

import { fromBinary } from "@bufbuild/protobuf";
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";

import { DecodeError, RefusedError, makeQueue } from "../src/index.js";
import { Opcode } from "../src/opcode.js";
import {
  CancelSchema,
  CommitOffsetSchema,
  type Consume,
  ConsumeAckSchema,
  ConsumeSchema,
  CreditSchema,
  DeliverSchema,
  DoneSchema,
  ErrorSchema,
  FetchSchema,
  FetchedSchema,
  HeaderSchema,
  Role,
  SettleSchema,
  SettledSchema,
  SubscriptionEndedSchema,
  UnsubscribeSchema,
} from "../src/wire_pb.js";
import type { Peer } from "./support/broker.js";
import { leaseId, scene } from "./support/scene.js";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (payload: Uint8Array): string => new TextDecoder().decode(payload);

/** Agrees to the next CONSUME. */
async function agree(peer: Peer, group = "default"): Promise<Consume> {
  const { id, message } = await peer.expect(Opcode.Consume, ConsumeSchema);
  peer.send(Opcode.ConsumeAck, ConsumeAckSchema, { subscription: message.subscription, group, visibilityTimeoutMs: 30_000n }, id);
  return message;
}

/** Delivers messages with leases; their payloads are their numbers. */
function deliver(peer: Peer, subscription: number, numbers: readonly number[], leaseMs = 30_000): void {
  const messages = numbers.map((number) => ({
    leaseId: leaseId(number),
    seq: BigInt(number),
    attempt: 1,
    leaseMs: BigInt(leaseMs),
    id: new Uint8Array(16),
    payload: bytes(String(number)),
  }));
  peer.send(Opcode.Message, DeliverSchema, { subscription, messages });
}

const numbersOf = (leases: readonly Uint8Array[]): number[] => leases.map((lease) => lease[23] ?? -1);

test("options_reach_the_broker_and_a_delivery_has_all_that_was_published", async (t) => {
  const { client, peer } = await scene(t);
  const subscription = client.consume("orders", {
    group: "billing",
    prefetch: 64,
    prefetchBytes: 1000,
    concurrency: 8,
    visibilityTimeoutMs: 45_000,
    startAt: { offset: 7 },
  });
  const consume = await agree(peer, "billing");
  assert.deepEqual(
    [consume.queue, consume.group, consume.prefetch, consume.prefetchBytes, consume.concurrency, consume.visibilityTimeoutMs],
    ["orders", "billing", 64, 1000n, 8, 45_000n],
  );
  assert.deepEqual([consume.startAt?.at, consume.role], [{ case: "offset", value: 7n }, Role.CONSUME]);
  assert.deepEqual(await subscription.ready, { group: "billing", groupExisted: false, visibilityTimeoutMs: 30_000 });
  peer.send(Opcode.Message, DeliverSchema, {
    subscription: consume.subscription,
    messages: [
      {
        leaseId: leaseId(1),
        seq: 300n,
        attempt: 2,
        leaseMs: 30_000n,
        id: Uint8Array.from([1, 0x93, 0x80, 0x1f, 0x8a, 0x4c, 0x7d, 0x2e, 0x9f, 0x3b, 0x5a, 0x6c, 0x7d, 0x8e, 0x9f, 0]),
        publishedAtMs: 1_796_126_400_123n,
        schemaVersion: 2,
        headers: [{ name: "a", value: "b" }],
        orderingKey: "O-1",
        payload: bytes("x"),
        skipped: 3n,
      },
    ],
  });
  const { value } = await subscription.next();
  assert.ok(value);
  assert.deepEqual([value.seq, value.attempt, value.schemaVersion, value.orderingKey, value.skipped], [300n, 2, 2, "O-1", 3n]);
  assert.deepEqual([value.queue, value.id, [...value.headers], text(value.body)], ["orders", "01JE01Z2JCFMQ9YETTDHYRX7R0", [["a", "b"]], "x"]);
  assert.equal(value.publishedAt.getTime(), 1_796_126_400_123);
});

test("acks_share_frames_and_different_things_have_their_own", async (t) => {
  const { client, peer } = await scene(t);
  const subscription = client.consume("q");
  const { subscription: number } = await agree(peer);
  deliver(peer, number, [1, 2, 3, 4, 5, 6]);
  const messages = [];
  while (messages.length < 6) {
    messages.push((await subscription.next()).value);
  }
  const [a, b, c, d, e, f] = messages;
  a?.ack();
  c?.nack({ delayMs: 0, reason: "busy" });
  b?.ack();
  d?.reject("hopeless");
  e?.release();
  const ack = await peer.expect(Opcode.Ack, SettleSchema);
  assert.deepEqual([numbersOf(ack.message.leaseIds), ack.message.confirm, ack.id], [[1, 2], false, -1]);
  const nack = await peer.expect(Opcode.Nack, SettleSchema);
  assert.deepEqual([numbersOf(nack.message.leaseIds), nack.message.delayMs, nack.message.reason], [[3], 0n, "busy"]);
  const reject = await peer.expect(Opcode.Reject, SettleSchema);
  assert.deepEqual([numbersOf(reject.message.leaseIds), reject.message.reason], [[4], "hopeless"]);
  assert.deepEqual(numbersOf((await peer.expect(Opcode.Release, SettleSchema)).message.leaseIds), [5]);
  assert.throws(() => a?.ack(), (error) => error instanceof RefusedError && error.code === "stale-lease");
  const extended = f?.extend(60_000);
  const extend = await peer.expect(Opcode.ExtendVisibility, SettleSchema);
  assert.deepEqual([numbersOf(extend.message.leaseIds), extend.message.visibilityTimeoutMs], [[6], 60_000n]);
  peer.send(Opcode.ExtendVisibilityAck, SettledSchema, { settled: 1 }, extend.id);
  await extended;
});

test("a_confirmed_ack_resolves_with_the_brokers_word", async (t) => {
  const { client, peer } = await scene(t);
  const subscription = client.consume("q");
  const { subscription: number } = await agree(peer);
  deliver(peer, number, [1, 2]);
  const [first, second] = [(await subscription.next()).value, (await subscription.next()).value];
  const results = Promise.allSettled([first?.ackConfirmed(), second?.ackConfirmed()]);
  const { id, message } = await peer.expect(Opcode.Ack, SettleSchema);
  assert.deepEqual([numbersOf(message.leaseIds), message.confirm], [[1, 2], true]);
  const error = { code: 1012, name: "stale-lease", message: "expired" };
  peer.send(Opcode.Settled, SettledSchema, { settled: 1, refused: [{ index: 1, error }] }, id);
  const [good, bad] = await results;
  assert.equal(good.status, "fulfilled");
  assert.ok(bad.status === "rejected" && bad.reason.code === "stale-lease");
});

test("leases_are_renewed_in_batches_while_messages_wait_or_are_worked_on", async (t) => {
  const { client, peer } = await scene(t);
  const subscription = client.consume("q");
  const { subscription: number } = await agree(peer);
  deliver(peer, number, [1, 2, 3], 60);
  const working = (await subscription.next()).value;
  const { message } = await peer.expect(Opcode.ExtendVisibility, SettleSchema);
  assert.deepEqual([numbersOf(message.leaseIds), message.confirm, message.visibilityTimeoutMs], [[1, 2, 3], false, 60n]);
  working?.ack();
  for (;;) {
    const frame = await peer.frames.take();
    if (frame.opcode === Opcode.Ack) {
      break;
    }
    assert.equal(frame.opcode, Opcode.ExtendVisibility);
  }
  const again = await peer.expect(Opcode.ExtendVisibility, SettleSchema);
  assert.deepEqual(numbersOf(again.message.leaseIds), [2, 3]);
});

test("a_lease_is_renewed_no_longer_than_max_lease", async (t) => {
  const { client, peer } = await scene(t, { maxLeaseMs: 0, heartbeatMs: 50 });
  client.consume("q");
  const { subscription: number } = await agree(peer);
  deliver(peer, number, [1], 6);
  // Several sweeps would have come before the next heartbeat.
  assert.equal((await peer.frames.take()).opcode, Opcode.Heartbeat);
});

test("the_loop_ends_as_drain_does_and_gives_back_what_nobody_took", async (t) => {
  const { client, peer } = await scene(t);
  const loop = (async () => {
    for await (const message of client.consume("q")) {
      return message;
    }
    return undefined;
  })();
  const { subscription: number } = await agree(peer);
  deliver(peer, number, [1, 2]);
  const released = await peer.expect(Opcode.Release, SettleSchema);
  assert.deepEqual(numbersOf(released.message.leaseIds), [2]);
  const { id, message } = await peer.expect(Opcode.Unsubscribe, UnsubscribeSchema);
  assert.equal(message.keepLeases, true);
  peer.send(Opcode.SubscriptionEnded, SubscriptionEndedSchema, { subscription: number }, id);
  const kept = await loop;
  kept?.ack();
  assert.deepEqual(numbersOf((await peer.expect(Opcode.Ack, SettleSchema)).message.leaseIds), [1]);
});

test("a_signal_ends_the_loop", async (t) => {
  const { client, peer } = await scene(t);
  const abort = new AbortController();
  const loop = (async () => {
    for await (const _ of client.consume("q", { signal: abort.signal })) {
      assert.fail("nothing was delivered");
    }
  })();
  const { subscription: number } = await agree(peer);
  abort.abort();
  const { id } = await peer.expect(Opcode.Unsubscribe, UnsubscribeSchema);
  peer.send(Opcode.SubscriptionEnded, SubscriptionEndedSchema, { subscription: number }, id);
  await loop;
});

test("the_brokers_refusal_is_thrown_where_the_subscription_is_iterated", async (t) => {
  const { client, peer } = await scene(t);
  const subscription = client.consume("q");
  const { id } = await peer.expect(Opcode.Consume, ConsumeSchema);
  peer.send(Opcode.Error, ErrorSchema, { code: 1006, name: "group-required", message: "name it", subscription: 1 }, id);
  await assert.rejects(subscription.next(), { code: "group-required" });
  assert.equal((await subscription.next()).done, true);
  await assert.rejects(subscription.ready, { code: "group-required" });
});

test("a_deleted_queue_ends_the_subscription_with_its_reason", async (t) => {
  const { client, peer } = await scene(t);
  const subscription = client.consume("q");
  const { subscription: number } = await agree(peer);
  const reason = { code: 1003, name: "queue-not-found", message: "the queue was deleted" };
  peer.send(Opcode.SubscriptionEnded, SubscriptionEndedSchema, { subscription: number, reason });
  await assert.rejects(subscription.next(), { code: "queue-not-found" });
});

test("a_subscription_is_opened_again_and_leases_of_the_lost_connection_are_stale", async (t) => {
  const { broker, client, peer } = await scene(t);
  const subscription = client.consume("q", { group: "g" });
  const { subscription: number } = await agree(peer, "g");
  deliver(peer, number, [1, 2]);
  const taken = (await subscription.next()).value;
  peer.destroy();
  const again = await broker.accept();
  await agree(again, "g");
  assert.equal(taken?.stale, true);
  assert.throws(() => taken?.ack(), { code: "stale-lease" });
  deliver(again, number, [3]);
  assert.equal((await subscription.next()).value?.seq, 3n);
});

test("a_reader_without_leases_grants_credit_and_goes_on_where_it_was", async (t) => {
  const { broker, client, peer } = await scene(t);
  const reader = client.consume("stream", { prefetch: 4, startAt: "beginning" });
  const { subscription: number } = await agree(peer, "");
  const read = async (from: Peer, seqs: readonly number[]): Promise<void> => {
    from.send(Opcode.Message, DeliverSchema, { subscription: number, messages: seqs.map((seq) => ({ seq: BigInt(seq) })) });
    for (const seq of seqs) {
      const { value } = await reader.next();
      assert.equal(value?.seq, BigInt(seq));
      // Nothing happens, and nothing is sent.
      value?.ack();
    }
  };
  await read(peer, [0, 1, 2, 3]);
  for (const _ of [1, 2]) {
    const { message } = await peer.expect(Opcode.Credit, CreditSchema);
    assert.deepEqual([message.subscription, message.prefetch], [number, 4]);
  }
  peer.destroy();
  const again = await broker.accept();
  const consume = await agree(again, "");
  assert.deepEqual(consume.startAt?.at, { case: "offset", value: 4n });
  await read(again, [4]);
});

test("tail_says_its_role", async (t) => {
  const { client, peer } = await scene(t);
  client.consume("q", { tail: true });
  assert.equal((await agree(peer, "")).role, Role.TAIL);
});

test("for_each_acks_what_returns_nacks_what_throws_and_rejects_what_is_no_message", async (t) => {
  const { client, peer } = await scene(t);
  const queue = makeQueue(client, HeaderSchema, { queue: "q", version: 3, fingerprint: "00ff" });
  const subscription = queue.consume({ concurrency: 2 });
  const done = subscription.forEach(async (message) => {
    if (message.body.name === "bad") {
      throw new Error("broken");
    }
  });
  const consume = await agree(peer);
  assert.deepEqual([...consume.contract], [0, 255]);
  const payloads = [[0x0a, 4, ...bytes("good")], [0x0a, 3, ...bytes("bad")], [0x0a, 9]];
  const messages = payloads.map((payload, at) => ({ leaseId: leaseId(at), seq: BigInt(at), leaseMs: 30_000n, payload: Uint8Array.from(payload) }));
  peer.send(Opcode.Message, DeliverSchema, { subscription: consume.subscription, messages });
  const seen = new Map<number, { leases: number[]; reason: string }>();
  while (seen.size < 3) {
    const frame = await peer.frames.take();
    const settle = fromBinary(SettleSchema, frame.payload);
    seen.set(frame.opcode, { leases: numbersOf(settle.leaseIds), reason: settle.reason });
  }
  assert.deepEqual(seen.get(Opcode.Ack), { leases: [0], reason: "" });
  assert.deepEqual(seen.get(Opcode.Nack), { leases: [1], reason: "broken" });
  assert.match(seen.get(Opcode.Reject)?.reason ?? "", /the payload \(queue q, seq 2\) is not a qwerq.v1.Header/);
  peer.send(Opcode.SubscriptionEnded, SubscriptionEndedSchema, { subscription: consume.subscription });
  await done;
});

test("a_body_that_is_no_message_throws_where_it_is_read", async (t) => {
  const { client, peer } = await scene(t);
  const subscription = makeQueue(client, HeaderSchema, { queue: "q", version: 0, fingerprint: "" }).consume();
  const { subscription: number } = await agree(peer);
  deliver(peer, number, [1]);
  const { value } = await subscription.next();
  assert.throws(() => value?.body, DecodeError);
  value?.reject("no");
});

async function fetching(t: TestContext): Promise<{ peer: Peer; abort: AbortController; fetched: Promise<unknown>; id: number }> {
  const { client, peer } = await scene(t);
  const abort = new AbortController();
  const fetched = client.fetch("q", { group: "g", max: 10, waitMs: 5000, detached: true, startAt: "end", signal: abort.signal });
  const { id, message } = await peer.expect(Opcode.Fetch, FetchSchema);
  assert.deepEqual([message.queue, message.group, message.max, message.waitMs, message.detached], ["q", "g", 10, 5000n, true]);
  return { peer, abort, fetched, id };
}

test("fetch_pulls_and_detached_leases_are_not_renewed", async (t) => {
  const { peer, fetched, id } = await fetching(t);
  peer.send(Opcode.Fetched, FetchedSchema, { messages: [{ leaseId: leaseId(1), seq: 4n, leaseMs: 6n, payload: bytes("x") }] }, id);
  const [message] = (await fetched) as { seq: bigint; ack(): void }[];
  assert.equal(message?.seq, 4n);
  message?.ack();
  assert.deepEqual(numbersOf((await peer.expect(Opcode.Ack, SettleSchema)).message.leaseIds), [1]);
});

test("an_aborted_fetch_is_cancelled_and_what_it_got_goes_back", async (t) => {
  const { peer, abort, fetched, id } = await fetching(t);
  abort.abort(new Error("enough"));
  await assert.rejects(fetched, /enough/);
  assert.equal((await peer.expect(Opcode.Cancel, CancelSchema)).message.requestId, id);
  peer.send(Opcode.Fetched, FetchedSchema, { messages: [{ leaseId: leaseId(1), leaseMs: 30_000n }] }, id);
  assert.deepEqual(numbersOf((await peer.expect(Opcode.Release, SettleSchema)).message.leaseIds), [1]);
});

test("leases_can_be_settled_by_their_ids", async (t) => {
  const { client, peer } = await scene(t);
  const settled = client.settle([leaseId(1)], { reject: "no" });
  const { id, message } = await peer.expect(Opcode.Reject, SettleSchema);
  assert.deepEqual([message.confirm, message.reason], [true, "no"]);
  peer.send(Opcode.Settled, SettledSchema, { settled: 1 }, id);
  assert.equal((await settled).settled, 1);
});

test("a_stream_group_is_settled_by_offset", async (t) => {
  const { client, peer } = await scene(t);
  const committed = client.admin.commitOffset("s", "g", 41);
  const { id, message } = await peer.expect(Opcode.CommitOffset, CommitOffsetSchema);
  assert.deepEqual([message.queue, message.group, message.offset], ["s", "g", 41n]);
  peer.send(Opcode.Done, DoneSchema, {}, id);
  await committed;
});

test("close_gives_back_what_was_fetched_but_not_detached_leases", async (t) => {
  const { client, peer } = await scene(t);
  for (const detached of [true, false]) {
    const fetched = client.fetch("q", { detached });
    const { id } = await peer.expect(Opcode.Fetch, FetchSchema);
    peer.send(Opcode.Fetched, FetchedSchema, { messages: [{ leaseId: leaseId(detached ? 1 : 2), leaseMs: 30_000n }] }, id);
    held.push(await fetched);
  }
  void client.close();
  assert.deepEqual(numbersOf((await peer.expect(Opcode.Release, SettleSchema)).message.leaseIds), [2]);
});

/** Deliveries that must not be collected while a test runs. */
const held: unknown[] = [];

test("close_confirms_acks_and_gives_leases_back", async (t) => {
  const { client, peer } = await scene(t);
  const subscription = client.consume("q");
  const { subscription: number } = await agree(peer);
  deliver(peer, number, [1, 2]);
  (await subscription.next()).value?.ack();
  const closed = client.close();
  assert.equal((await peer.expect(Opcode.Ack, SettleSchema)).message.leaseIds.length, 1);
  const confirm = await peer.expect(Opcode.Ack, SettleSchema);
  assert.deepEqual([confirm.message.leaseIds.length, confirm.message.confirm], [0, true]);
  peer.send(Opcode.Settled, SettledSchema, {}, confirm.id);
  const { id, message } = await peer.expect(Opcode.Unsubscribe, UnsubscribeSchema);
  assert.equal(message.keepLeases, false);
  peer.send(Opcode.SubscriptionEnded, SubscriptionEndedSchema, { subscription: number }, id);
  await closed;
  assert.equal((await subscription.next()).done, true);
});
