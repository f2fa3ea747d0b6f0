// Publishing: results, batches, windows, and what becomes of a publish when the connection is lost.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ClosedError, DisconnectedError, RefusedError } from "../src/index.js";
import { Opcode } from "../src/opcode.js";
import { ErrorSchema, PublishAckSchema, PublishSchema } from "../src/wire_pb.js";
import { scene } from "./support/scene.js";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (payload: Uint8Array): string => new TextDecoder().decode(payload);

test("a_publish_says_all_that_the_protocol_has", async (t) => {
  const { client, peer } = await scene(t);
  const deliverAt = new Date(1_796_126_400_000);
  const published = client.publish(
    "orders",
    bytes("a"),
    { headers: { traceparent: "00-1" }, orderingKey: "O-1", idempotencyKey: "k-1", deliverAt, ttlMs: 5, id: "01JE00F2JC9SZ9Z7TVBCCQRZKG" },
    new Uint8Array(32).fill(7),
  );
  const { id, message } = await peer.expect(Opcode.Publish, PublishSchema);
  const [item] = message.items;
  assert.equal(message.queue, "orders");
  assert.equal(message.contract.length, 32);
  assert.deepEqual(item?.headers.map(({ name, value }) => [name, value]), [["traceparent", "00-1"]]);
  assert.deepEqual([item?.orderingKey, item?.idempotencyKey, item?.deliverAtMs, item?.ttlMs], ["O-1", "k-1", 1_796_126_400_000n, 5n]);
  assert.equal(item?.id.length, 16);
  const results = [{ id: item?.id ?? new Uint8Array(16), seq: 9n, schemaVersion: 2 }];
  peer.send(Opcode.PublishAck, PublishAckSchema, { results, durability: 1 }, id);
  assert.deepEqual(await published, {
    id: "01JE00F2JC9SZ9Z7TVBCCQRZKG",
    seq: 9n,
    schemaVersion: 2,
    duplicate: false,
    contractUnknown: false,
    durability: "fsync",
    deadLettered: undefined,
  });
});

test("publishes_that_wait_together_share_a_frame_and_keep_their_order", async (t) => {
  const { client, peer } = await scene(t);
  const results = ["a", "b", "c"].map((payload) => client.publish("q", bytes(payload)));
  const publish = await peer.acceptPublish();
  assert.deepEqual(publish.items.map((item) => text(item.payload)), ["a", "b", "c"]);
  assert.deepEqual((await Promise.all(results)).map(({ seq }) => seq), [0n, 1n, 2n]);
});

test("one_bad_message_does_not_fail_its_neighbours", async (t) => {
  const { client, peer } = await scene(t);
  const batch = client.publishBatch("q", [{ payload: bytes("good") }, { payload: bytes("bad") }]);
  const { id } = await peer.expect(Opcode.Publish, PublishSchema);
  const error = { code: 1101, name: "schema-violation", message: "no", details: { path: "lines[3].price", offset: "17" } };
  peer.send(Opcode.PublishAck, PublishAckSchema, { results: [{ seq: 0n }, { error }] }, id);
  const [good, bad] = await batch;
  assert.ok(good !== undefined && !(good instanceof Error));
  assert.ok(bad instanceof RefusedError);
  assert.deepEqual([bad.code, bad.number, bad.path, bad.offset, bad.retryable], ["schema-violation", 1101, "lines[3].price", 17, false]);
});

test("a_violation_that_was_dead_lettered_is_published", async (t) => {
  const { client, peer } = await scene(t);
  const published = client.publish("q", bytes("bad"));
  const { id } = await peer.expect(Opcode.Publish, PublishSchema);
  const error = { code: 1101, name: "schema-violation", message: "no" };
  peer.send(Opcode.PublishAck, PublishAckSchema, { results: [{ error, deadLettered: true }] }, id);
  assert.equal((await published).deadLettered?.code, "schema-violation");
});

test("an_atomic_publish_is_one_frame_and_fails_with_its_cause", async (t) => {
  const { client, peer } = await scene(t);
  const before = client.publish("q", bytes("before"));
  const atomic = client.publishAtomic("q", ["a", "b"].map((payload) => ({ payload: bytes(payload) })));
  assert.equal((await peer.acceptPublish()).atomic, false);
  const { id, message } = await peer.expect(Opcode.Publish, PublishSchema);
  assert.deepEqual([message.atomic, message.items.length], [true, 2]);
  const errors = [
    { code: 1017, name: "atomic-refused", message: "another one" },
    { code: 1007, name: "queue-full", message: "full" },
  ];
  peer.send(Opcode.PublishAck, PublishAckSchema, { results: errors.map((error) => ({ error })) }, id);
  await assert.rejects(atomic, { code: "queue-full" });
  await before;
});

test("publishers_wait_when_the_window_is_full", async (t) => {
  const { client, peer } = await scene(t, { publishWindow: 2 });
  const receipts = [await client.submit("q", bytes("1")), await client.submit("q", bytes("2"))];
  let third = false;
  const waiting = client.submit("q", bytes("3")).then((receipt) => {
    third = true;
    return receipt;
  });
  assert.equal((await peer.acceptPublish()).items.length, 2);
  assert.equal(third, false);
  await Promise.all(receipts.map(({ result }) => result));
  const receipt = await waiting;
  await peer.acceptPublish();
  await receipt.result;
});

test("waiting_for_the_window_can_be_aborted", async (t) => {
  const { client } = await scene(t, { publishWindow: 1 });
  await client.submit("q", bytes("1"));
  const abort = new AbortController();
  const waiting = client.submit("q", bytes("2"), { signal: abort.signal });
  abort.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
});

test("the_brokers_window_bounds_frames", async (t) => {
  const { client, peer } = await scene(t, {}, { publishWindowRequests: 1 });
  const first = client.publish("q", bytes("1"));
  const { id } = await peer.expect(Opcode.Publish, PublishSchema);
  const second = client.publish("q", bytes("2"));
  // A request that is not a publish overtakes what waits for the window.
  const cancelled = client.admin.listQueues();
  assert.equal((await peer.frames.take()).opcode, Opcode.QueueList);
  cancelled.catch(() => {});
  peer.send(Opcode.PublishAck, PublishAckSchema, { results: [{ seq: 0n }] }, id);
  await peer.acceptPublish(1);
  await Promise.all([first, second]);
});

test("overloaded_is_tried_again", async (t) => {
  const { client, peer } = await scene(t);
  const published = client.publish("q", bytes("1"));
  const { id } = await peer.expect(Opcode.Publish, PublishSchema);
  peer.send(Opcode.Error, ErrorSchema, { code: 2001, name: "overloaded", retryAfterMs: 1n }, id);
  await peer.acceptPublish();
  await published;
});

test("a_lost_connection_repeats_keyed_publishes_and_reports_the_others", async (t) => {
  const { broker, client, peer } = await scene(t);
  const plain = client.publish("q", bytes("plain"));
  const keyed = client.publish("q", bytes("keyed"), { idempotencyKey: "k" });
  await peer.expect(Opcode.Publish, PublishSchema);
  peer.destroy();
  await assert.rejects(plain, (error) => error instanceof DisconnectedError && error.maybeStored && error.retryable);
  const again = await broker.accept();
  assert.deepEqual((await again.acceptPublish()).items.map((item) => text(item.payload)), ["keyed"]);
  await keyed;
});

test("what_is_published_while_disconnected_waits_for_the_connection", async (t) => {
  const { broker, client, peer } = await scene(t);
  peer.destroy();
  const next = await broker.peers.take();
  const published = client.publish("q", bytes("1"));
  await next.hello();
  await next.acceptPublish();
  await published;
});

test("close_sends_what_waits_and_refuses_what_comes_later", async (t) => {
  const { client, peer } = await scene(t);
  const published = client.publish("q", bytes("1"));
  const closed = client.close();
  await assert.rejects(client.publish("q", bytes("2")), (error) => error instanceof ClosedError);
  await peer.acceptPublish();
  await published;
  await closed;
  await peer.ended;
});
