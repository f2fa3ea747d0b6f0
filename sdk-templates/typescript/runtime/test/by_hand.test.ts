// What is read and written by hand against what the descriptors say, at the extremes of every field.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import assert from "node:assert/strict";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

import { decodeDeliver, decodeFetched } from "../src/arrival.js";
import { ProtocolError, QwerqError } from "../src/errors.js";
import { Ledger, encodeNote } from "../src/ledger.js";
import { parseId } from "../src/message_id.js";
import { Opcode } from "../src/opcode.js";
import { decodePublishAck, encodeItem, encodePublish } from "../src/publish.js";
import { DeliverSchema, FetchedSchema, PublishAckSchema, PublishSchema, SettleSchema, type Delivered } from "../src/wire_pb.js";
import { leaseId } from "./support/scene.js";

const id = parseId("7ZZZZZZZZZZZZZZZZZZZZZZZZZ");

const arrivals = [
  {},
  {
    leaseId: leaseId(7),
    seq: 2n ** 64n - 1n,
    attempt: 2 ** 32 - 1,
    skipped: 2n ** 53n + 1n,
    leaseMs: 2n ** 53n - 1n,
    id,
    publishedAtMs: 1_796_126_400_123n,
    schemaVersion: 300,
    headers: [{ name: "a", value: "é" }, { name: "", value: "" }],
    orderingKey: "O-1",
    payload: new Uint8Array(300).fill(1),
  },
];

function plain(delivered: Delivered): object {
  const { leaseId, seq, attempt, skipped, id, schemaVersion, orderingKey, payload } = delivered;
  const headers = delivered.headers.map(({ name, value }) => ({ name, value }));
  const [leaseMs, publishedAtMs] = [Number(delivered.leaseMs), Number(delivered.publishedAtMs)];
  return { leaseId, seq, attempt, skipped, leaseMs, id, publishedAtMs, schemaVersion, headers, orderingKey, payload };
}

test("deliveries_are_read_as_their_descriptors_say", () => {
  const deliver = toBinary(DeliverSchema, create(DeliverSchema, { subscription: 2 ** 32 - 1, messages: arrivals }));
  const fetched = toBinary(FetchedSchema, create(FetchedSchema, { messages: arrivals, nextSeq: 9n }));
  const expected = fromBinary(DeliverSchema, deliver).messages.map(plain);
  assert.deepEqual(decodeDeliver(deliver), { subscription: 2 ** 32 - 1, messages: expected });
  assert.deepEqual(decodeFetched(fetched), expected);
});

test("unknown_fields_are_passed_over_and_broken_bytes_are_a_protocol_error", () => {
  // Fields 100 to 103 of each wire type.
  const unknown = [0xa0, 6, 1, 0xa9, 6, 1, 2, 3, 4, 5, 6, 7, 8, 0xb2, 6, 1, 9, 0xbd, 6, 1, 2, 3, 4];
  assert.deepEqual(decodeDeliver(Uint8Array.from([...unknown, 8, 5])), { subscription: 5, messages: [] });
  assert.deepEqual(decodeFetched(Uint8Array.from(unknown)), []);
  assert.deepEqual(decodePublishAck(Uint8Array.from(unknown)), []);
  const whole = toBinary(DeliverSchema, create(DeliverSchema, { messages: arrivals }));
  const bad = [[0x12, 0x7f], [0x12, 0xff, 0xff, 0xff, 0xff, 0x7f], new Array<number>(11).fill(0xff), [0x0b], [0x0f], [...whole.slice(0, -1)]];
  for (const bytes of bad) {
    assert.throws(() => decodeDeliver(Uint8Array.from(bytes)), ProtocolError, String(bytes));
  }
  for (let length = 0; length < whole.length; length += 1) {
    try {
      decodeDeliver(whole.slice(0, length));
    } catch (error) {
      assert.ok(error instanceof QwerqError);
    }
  }
});

test("publish_results_are_read_as_their_descriptors_say", () => {
  const error = { code: 2001, name: "overloaded", message: "full", details: { limit: "requests" }, retryAfterMs: 50n };
  const results = [{ id, seq: 2n ** 63n, schemaVersion: 2, duplicate: true }, { error }, { id, error, deadLettered: true }];
  const decoded = decodePublishAck(toBinary(PublishAckSchema, create(PublishAckSchema, { results, durability: 4, contractUnknown: true })));
  assert.deepEqual(decoded[0], {
    id: "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
    seq: 2n ** 63n,
    schemaVersion: 2,
    duplicate: true,
    contractUnknown: true,
    durability: "quorum",
    deadLettered: undefined,
  });
  const refused = decoded[1];
  assert.ok(refused instanceof QwerqError);
  assert.deepEqual([refused.code, refused.details, refused.retryAfterMs, refused.retryable], ["overloaded", { limit: "requests" }, 50, true]);
  assert.ok(decoded[2] !== undefined && !(decoded[2] instanceof Error) && decoded[2].deadLettered?.code === "overloaded");
});

test("publishes_are_written_as_their_descriptors_say", () => {
  const contract = new Uint8Array(32).fill(9);
  for (const size of [0, 1, 127, 128, 300, 70_000]) {
    const payload = new Uint8Array(size).fill(3);
    const items = [encodeItem(payload, {}), encodeItem(payload, { orderingKey: "k", delayMs: 0, headers: new Map([["a", "b"]]) })];
    const publish = fromBinary(PublishSchema, encodePublish("q", contract, items, true));
    assert.deepEqual([publish.queue, publish.contract, publish.atomic, publish.items.length], ["q", contract, true, 2]);
    assert.ok(publish.items.every((item) => item.payload.length === size && item.payload.every((byte) => byte === 3)));
    assert.deepEqual([publish.items[0]?.delayMs, publish.items[1]?.delayMs, publish.items[1]?.headers[0]?.value], [undefined, 0n, "b"]);
  }
});

test("settlements_are_written_as_their_descriptors_say", () => {
  const leases = [leaseId(1), leaseId(2)];
  const bytes = encodeNote({ say: { opcode: Opcode.Nack, delayMs: 0n, reason: "busy", lengthMs: 5n }, leases, waiters: [] });
  const { leaseIds, confirm, delayMs, reason, visibilityTimeoutMs } = fromBinary(SettleSchema, bytes);
  assert.deepEqual({ leaseIds, confirm, delayMs, reason, visibilityTimeoutMs }, { leaseIds: leases, confirm: true, delayMs: 0n, reason: "busy", visibilityTimeoutMs: 5n });
});

test("a_lease_that_nobody_can_settle_any_more_is_not_renewed", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const ledger = new Ledger(60_000, () => {});
  const kept = { holder: true };
  ledger.watch(kept, ledger.hold(leaseId(1), 1, 30_000, false, 0));
  ledger.watch({ holder: false }, ledger.hold(leaseId(2), 1, 30_000, false, 0));
  while (ledger.held > 1) {
    collect();
    await new Promise((resolve) => setImmediate(resolve));
  }
  ledger.sweep(performance.now() + 30_000);
  assert.deepEqual(ledger.takeNotes().map((note) => note.leases.map((lease) => lease[23])), [[1]]);
  assert.ok(kept.holder);
});
