// The life of a connection: HELLO, heartbeats, GOAWAY, coming back, giving up; over TCP and over WebSocket.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Backoff } from "../src/backoff.js";
import { ClosedError, ConnectError, ProtocolError, RefusedError, connectClient } from "../src/index.js";
import { formatId, parseId } from "../src/message_id.js";
import { Opcode } from "../src/opcode.js";
import { parseAddress } from "../src/tcp.js";
import {
  ConsumeAckSchema,
  ConsumeSchema,
  ErrorSchema,
  GoAwaySchema,
  HeartbeatSchema,
  HelloSchema,
  QueueListResponseSchema,
  QueueListSchema,
} from "../src/wire_pb.js";
import { Mailbox, ScriptedBroker } from "./support/broker.js";
import { scene } from "./support/scene.js";
import { ScriptedWebSocket } from "./support/websocket.js";

test("hello_names_the_client_and_carries_the_token", async (t) => {
  const broker = await ScriptedBroker.listen();
  t.after(() => broker.close());
  const connecting = connectClient(broker.address, { token: "s3cret", clientName: "shop", clientVersion: "2" });
  const hello = await (await broker.peers.take()).hello();
  assert.deepEqual([hello.minProtocol, hello.maxProtocol, hello.token, hello.clientName, hello.clientVersion], [1, 1, "s3cret", "shop", "2"]);
  const client = await connecting;
  assert.equal(client.isConnected, true);
  assert.deepEqual(client.broker, { version: "0.0.0", session: "c-1", maxFrameBytes: 16 * 1024 * 1024 });
  await client.close();
  assert.equal(client.isConnected, false);
});

test("a_wrong_token_is_refused_and_not_tried_elsewhere", async (t) => {
  const broker = await ScriptedBroker.listen();
  t.after(() => broker.close());
  const connecting = connectClient([broker.address, broker.address]);
  const peer = await broker.peers.take();
  await peer.expect(Opcode.Hello, HelloSchema);
  peer.send(Opcode.Error, ErrorSchema, { code: 1016, name: "unauthorized", message: "the token is wrong" });
  await assert.rejects(connecting, (error) => error instanceof RefusedError && error.code === "unauthorized");
  assert.equal(broker.peers.size, 0);
});

test("every_address_is_tried_and_named", async (t) => {
  const broker = await ScriptedBroker.listen();
  const gone = broker.address;
  await broker.close();
  await assert.rejects(connectClient([gone, "[::1]:1"]), (error) => {
    assert.ok(error instanceof ConnectError && error.retryable);
    assert.ok(error.message.includes(gone) && error.message.includes("[::1]:1"));
    return true;
  });
  const other = await ScriptedBroker.listen();
  t.after(() => other.close());
  const connecting = connectClient([gone, other.address]);
  await other.accept();
  await (await connecting).close();
});

test("what_is_no_broker_is_told_so", async (t) => {
  const broker = await ScriptedBroker.listen();
  t.after(() => broker.close());
  const connecting = connectClient(broker.address);
  const peer = await broker.peers.take();
  peer.raw(new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n"));
  await assert.rejects(connecting, (error) => error instanceof ProtocolError && /not a QWER-Q broker/.test(error.message));
});

test("connecting_can_be_aborted_and_ends_in_time", async (t) => {
  const broker = await ScriptedBroker.listen();
  t.after(() => broker.close());
  const abort = new AbortController();
  const aborted = connectClient(broker.address, { signal: abort.signal });
  await broker.peers.take();
  abort.abort(new Error("enough"));
  await assert.rejects(aborted, /enough/);
  await assert.rejects(connectClient(broker.address, { connectTimeoutMs: 1 }), /no answer within 1 ms/);
});

test("both_sides_keep_the_connection_alive", async (t) => {
  const { peer } = await scene(t, {}, { heartbeatMs: 40 });
  await peer.expect(Opcode.Heartbeat, HeartbeatSchema);
  peer.send(Opcode.Heartbeat, HeartbeatSchema, {});
  await peer.expect(Opcode.Heartbeat, HeartbeatSchema);
});

test("a_broker_that_is_silent_for_two_heartbeats_is_left", async (t) => {
  const { broker, peer } = await scene(t, {}, { heartbeatMs: 30 });
  await peer.ended;
  await broker.accept();
});

test("states_of_the_connection_are_told", async (t) => {
  const states = new Mailbox<string>();
  const { broker, client, peer } = await scene(t, { onConnection: ({ state }) => states.put(state) });
  peer.destroy();
  await broker.accept();
  assert.deepEqual([await states.take(), await states.take(), await states.take()], ["connected", "lost", "connected"]);
  await client.close();
  assert.equal(await states.take(), "closed");
});

test("a_read_only_request_is_repeated_after_a_lost_connection", async (t) => {
  const { broker, client, peer } = await scene(t);
  const list = client.admin.listQueues();
  const purge = client.admin.purge("q");
  await peer.expect(Opcode.QueueList, QueueListSchema);
  peer.destroy();
  await assert.rejects(purge, { code: "disconnected", maybeStored: true });
  const again = await broker.accept();
  const { id } = await again.expect(Opcode.QueueList, QueueListSchema);
  again.send(Opcode.QueueListResponse, QueueListResponseSchema, { queues: [{ name: "a" }] }, id);
  assert.deepEqual((await list).map(({ name }) => name), ["a"]);
});

test("goaway_moves_to_the_leader_when_what_is_in_flight_is_done", async (t) => {
  const leader = await ScriptedBroker.listen();
  t.after(() => leader.close());
  const { client, peer } = await scene(t);
  const list = client.admin.listQueues();
  const { id } = await peer.expect(Opcode.QueueList, QueueListSchema);
  peer.send(Opcode.GoAway, GoAwaySchema, { reason: "another node leads", leader: leader.address });
  peer.send(Opcode.QueueListResponse, QueueListResponseSchema, {}, id);
  await list;
  const there = client.admin.listQueues();
  const next = await leader.accept();
  const again = await next.expect(Opcode.QueueList, QueueListSchema);
  next.send(Opcode.QueueListResponse, QueueListResponseSchema, {}, again.id);
  await there;
});

test("a_client_that_gives_up_tells_everybody", async (t) => {
  const { client, peer, broker } = await scene(t, { reconnect: { attempts: 0 } });
  const subscription = client.consume("q");
  const { id } = await peer.expect(Opcode.Consume, ConsumeSchema);
  peer.send(Opcode.ConsumeAck, ConsumeAckSchema, { subscription: 1, group: "default" }, id);
  await subscription.ready;
  peer.destroy();
  await assert.rejects(subscription.next(), { code: "disconnected" });
  await assert.rejects(client.publish("q", new Uint8Array(0)));
  assert.equal(broker.peers.size, 0);
});

test("a_closed_client_says_so_everywhere", async (t) => {
  const { client } = await scene(t);
  await client.close();
  const closed = (error: unknown): boolean => error instanceof ClosedError && error.code === "closed";
  await assert.rejects(client.publish("q", new Uint8Array(0)), closed);
  await assert.rejects(client.fetch("q"), closed);
  await assert.rejects(client.consume("q").next(), closed);
  await assert.rejects(client.serve("q", (request) => request).ready, closed);
  await client.close();
});

test("await_using_closes", async (t) => {
  const { client, peer } = await scene(t);
  {
    await using using = client;
    assert.equal(using.isConnected, true);
  }
  await peer.ended;
});

test("the_same_frames_run_over_websocket", async (t) => {
  const broker = await ScriptedWebSocket.listen();
  t.after(() => broker.close());
  const connecting = connectClient(broker.address, { token: "s3cret", reconnect: { firstMs: 0, maxMs: 0 } });
  const { peer, path, messages } = await broker.peers.take();
  assert.equal(path, "/ws");
  assert.equal((await peer.hello()).token, "s3cret");
  const client = await connecting;
  const published = [client.publish("q", new Uint8Array(70_000)), client.publish("r", new Uint8Array(1))];
  await peer.acceptPublish();
  await peer.acceptPublish();
  await Promise.all(published);
  // Each message held whole frames: HELLO, then both PUBLISH frames.
  assert.deepEqual(messages.map((message) => message[0]), [Opcode.Hello, Opcode.Publish]);
  peer.destroy();
  const again = await broker.peers.take();
  await again.peer.hello();
  // A text message is a protocol error.
  again.text("hello");
  await again.peer.ended;
  const last = await broker.peers.take();
  await last.peer.hello();
  await client.close();
});

test("addresses_are_read_as_people_write_them", () => {
  for (const [address, host, port] of [
    ["localhost", "localhost", 9876],
    ["localhost:1", "localhost", 1],
    ["tcp://broker:9876", "broker", 9876],
    ["[::1]:7", "::1", 7],
    ["[::1]", "::1", 9876],
  ] as const) {
    assert.deepEqual(parseAddress(address), { host, port });
  }
  for (const address of ["", "a:b", "a:99999", "a b:c:1"]) {
    assert.throws(() => parseAddress(address), TypeError, address);
  }
});

test("waits_double_up_to_the_limit_and_start_again_after_a_good_connection", () => {
  const backoff = new Backoff({ firstMs: 100, maxMs: 10_000 });
  for (const longest of [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]) {
    assert.equal(backoff.longestMs, longest);
    assert.ok((backoff.next() ?? Number.NaN) <= longest);
  }
  backoff.connected();
  backoff.lasted(1_000);
  assert.equal(backoff.longestMs, 10_000);
  backoff.lasted(6_000);
  assert.equal(backoff.longestMs, 100);
  const patient = new Backoff({ attempts: 1 });
  assert.notEqual(patient.next(), undefined);
  assert.equal(patient.next(), undefined);
  patient.connected();
  assert.notEqual(patient.next(), undefined);
});

test("message_ids_are_ulids", () => {
  const id = "01JE01Z2JCFMQ9YETTDHYRX7R0";
  assert.equal(formatId(parseId(id)), id);
  assert.equal(formatId(parseId(id.toLowerCase())), id);
  for (const wrong of ["", "8".repeat(26), "I".repeat(26), `${id}0`]) {
    assert.throws(() => parseId(wrong), TypeError);
  }
});
