// What generated TypeScript and a real broker say to each other. Run by tests/typescript.rs, which generates `./queues` from the broker's
// contracts and says where the broker is.

import { create, equals, toBinary } from "@bufbuild/protobuf";
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { CallError, type Delivery, RefusedError, UnavailableError, connect } from "./queues/index.js";
import { type Everything, EverythingSchema, Everything_Kind } from "./queues/kitchen_pb.js";

const address = process.env["QWERQ_BROKER"] ?? "";
const token = process.env["QWERQ_TOKEN"] ?? "";
const q = await connect(address, { token });
after(() => q.close());

const extremes = create(EverythingSchema, {
  fDouble: Number.MIN_VALUE,
  fFloat: Math.fround(3.4e38),
  fInt32: -(2 ** 31),
  fInt64: -(2n ** 63n),
  fUint32: 2 ** 32 - 1,
  fUint64: 2n ** 64n - 1n,
  fSint32: -(2 ** 31),
  fSint64: 2n ** 63n - 1n,
  fFixed32: 2 ** 32 - 1,
  fFixed64: 2n ** 64n - 1n,
  fSfixed32: 2 ** 31 - 1,
  fSfixed64: -(2n ** 63n),
  fBool: true,
  fString: "héllo \u{1f600}",
  fBytes: Uint8Array.of(0, 255),
  list: [0n, -1n],
  children: { [-7]: { fString: "child" } },
  choice: { case: "kind", value: Everything_Kind.GOOD },
  maybe: "",
  at: { seconds: 1n, nanos: 2 },
  any: { a: [1, null, { b: true }] },
  wrapped: 5n,
});

async function take<T>(iterator: AsyncIterator<Delivery<T>, undefined>): Promise<Delivery<T>> {
  const { value } = await iterator.next();
  assert.ok(value !== undefined);
  return value;
}

test("every_scalar_survives_at_its_extremes_and_every_option_arrives", async () => {
  const published = await q.everything.publish(extremes, { headers: { trace: "1" }, orderingKey: "k", idempotencyKey: "once" });
  assert.deepEqual([published.seq, published.durability, published.duplicate, published.schemaVersion], [0n, "fsync", false, 1]);
  assert.equal((await q.everything.publish(extremes, { idempotencyKey: "once" })).duplicate, true);
  const messages = q.everything.consume({ group: "all" });
  const message = await take(messages);
  assert.ok(equals(EverythingSchema, message.body, extremes));
  assert.deepEqual([message.seq, message.attempt, message.orderingKey, message.headers.get("trace")], [0n, 1, "k", "1"]);
  assert.equal(message.id, published.id);
  await message.ackConfirmed();
  await messages.close();
});

test("a_payload_that_breaks_the_contract_names_its_field", async () => {
  const batch = await q.client.publishBatch("everything", [
    { payload: toBinary(EverythingSchema, extremes) },
    { payload: Uint8Array.of(0x18, 1, 0x22, 1, 0) },
  ]);
  assert.ok(!(batch[0] instanceof Error));
  const refused = batch[1];
  assert.ok(refused instanceof RefusedError);
  assert.deepEqual([refused.code, refused.path, refused.offset], ["schema-violation", "f_int64", 2]);
});

test("nack_comes_again_and_release_does_not_count", async () => {
  const messages = q.everything.consume({ group: "again", startAt: { offset: 1 } });
  const first = await take(messages);
  first.release();
  const second = await take(messages);
  assert.deepEqual([second.seq, second.attempt], [first.seq, 1]);
  second.nack({ delayMs: 0, reason: "busy" });
  const third = await take(messages);
  assert.deepEqual([third.seq, third.attempt], [first.seq, 2]);
  await third.extend(60_000);
  await third.ackConfirmed();
  await assert.rejects(async () => third.ack(), { code: "stale-lease" });
  await messages.drain();
});

test("a_rejected_message_is_a_dead_letter_with_its_reason", async () => {
  const [message] = await q.everything.fetch({ group: "hopeless", waitMs: 10_000 });
  assert.ok(message !== undefined);
  await message.rejectConfirmed("no such customer");
  const { letters } = await q.client.admin.deadLetters({ queue: "everything", group: "hopeless" });
  assert.equal(letters.length, 1);
  assert.deepEqual([letters[0]?.headers.get("qwerq-reason"), letters[0]?.headers.get("qwerq-error")], ["rejected", "no such customer"]);
  assert.equal((await q.client.admin.redrive({ letters: { queue: "everything", group: "hopeless" } })).redriven, 1n);
});

test("fetch_waits_and_detached_leases_are_settled_by_anybody", async () => {
  assert.deepEqual(await q.everything.fetch({ group: "pull", startAt: "end", waitMs: 1 }), []);
  const waiting = q.everything.fetch({ group: "pull", waitMs: 60_000, detached: true });
  await q.everything.publish({ fString: "pulled" });
  const [message] = await waiting;
  assert.equal(message?.body.fString, "pulled");
  const other = await connect(address, { token });
  const settled = await other.client.settle([message?.leaseId ?? new Uint8Array(0)], { ack: true });
  assert.deepEqual([settled.settled, settled.refused.length], [1, 0]);
  await other.close();
});

test("a_stream_is_read_without_leases_and_by_groups", async () => {
  const { admin } = q.client;
  await admin.createQueue("log", { mode: "stream" });
  const payloads = Array.from({ length: 100 }, (_, at) => ({ payload: Uint8Array.of(at) }));
  const results = await q.client.publishBatch("log", payloads);
  assert.ok(results.every((result) => !(result instanceof Error)));
  const reader = q.client.consume("log", { startAt: "beginning", prefetch: 4 });
  for (let at = 0; at < 100; at += 1) {
    const message = await take(reader);
    assert.deepEqual([message.seq, message.payload[0], message.leaseId], [BigInt(at), at, undefined]);
    message.ack();
  }
  await reader.close();
  await admin.createGroup("log", "g");
  await admin.commitOffset("log", "g", 97);
  const group = q.client.consume("log", { group: "g" });
  const next = await take(group);
  assert.equal(next.seq, 98n);
  await next.ackConfirmed();
  await group.close();
  await admin.seek("log", "g", "beginning");
  const [again] = await q.client.fetch("log", { group: "g", waitMs: 10_000 });
  assert.equal(again?.seq, 0n);
});

test("tail_follows_the_end", async () => {
  const tail = q.everything.consume({ tail: true });
  await tail.ready;
  await q.everything.publish({ fString: "new" });
  assert.equal((await take(tail)).body.fString, "new");
  await tail.drain();
});

test("a_call_is_answered_by_whoever_serves", async () => {
  await assert.rejects(q.kitchen.askCook({ text: "?" }), (error) => error instanceof UnavailableError && error.code === "no-responders");
  let calls = 0n;
  const cook = await connect(address, { token });
  const responder = cook.kitchen.askCook.serve(async (question, context) => {
    assert.ok(context.remainingMs > 0);
    if (question.text === "") {
      throw CallError.invalidArgument("ask something");
    }
    calls += 1n;
    return { text: `${question.text}!`, calls };
  });
  await responder.ready;
  const answers = await Promise.all(["a", "b", "c"].map((text) => q.kitchen.askCook({ text })));
  assert.deepEqual(answers.map(({ text }) => text), ["a!", "b!", "c!"]);
  assert.equal(answers.length, Number(calls));
  await assert.rejects(q.kitchen.askCook({}), { code: "invalid-argument", message: "ask something" });
  await responder.close();
  await cook.close();
  await assert.rejects(q.kitchen.askCook({ text: "?" }), { code: "no-responders" });
});

test("many_messages_flow_in_order_under_the_window", async () => {
  const count = 5_000;
  const producer = (async () => {
    const receipts = [];
    for (let at = 0; at < count; at += 1) {
      receipts.push((await q.bulk.submit({ fInt32: at })).result);
    }
    return Promise.all(receipts);
  })();
  const messages = q.bulk.consume({ prefetch: 256 });
  for (let at = 0; at < count; at += 1) {
    const message = await take(messages);
    assert.equal(message.body.fInt32, at);
    message.ack();
  }
  assert.equal((await producer).length, count);
  await messages.drain();
});

test("the_largest_message_arrives", async () => {
  const largest: Everything = create(EverythingSchema, { fBytes: new Uint8Array(1024 * 1024 - 64).fill(7) });
  await q.bulk.publish(largest);
  const [message] = await q.bulk.fetch({ waitMs: 60_000 });
  assert.equal(message?.body.fBytes.length, largest.fBytes.length);
  message?.ack();
  await assert.rejects(q.bulk.publish({ fBytes: new Uint8Array(2 * 1024 * 1024) }), { code: "message-too-large" });
});

test("a_wrong_token_is_refused", { skip: token === "" }, async () => {
  await assert.rejects(connect(address, { token: "wrong" }), { code: "unauthorized" });
});
