// What a client does when brokers are nodes of a cluster: it finds the leader, follows it, and what it publishes is stored once.

import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";

import { type Client, ConnectError, DisconnectedError, UnavailableError, connectClient } from "../src/index.js";
import { Opcode } from "../src/opcode.js";
import { RetryKeys } from "../src/retry_key.js";
import { Route, addressesOf, leaderAddress } from "../src/route.js";
import {
  CallSchema,
  ConsumeAckSchema,
  ConsumeSchema,
  DeliverSchema,
  ErrorSchema,
  HelloSchema,
  PublishAckSchema,
  PublishSchema,
  type Publish,
} from "../src/wire_pb.js";
import { type Peer, ScriptedBroker } from "./support/broker.js";
import { leaseId, scene } from "./support/scene.js";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const NODE = { features: ["cluster"] };
const AT_ONCE = { reconnect: { firstMs: 0, maxMs: 0 } };

function notLeader(leader?: string): { code: number; name: string; message: string; details?: Record<string, string>; retryAfterMs?: bigint } {
  const error = { code: 2002, name: "not-leader", message: "this node does not lead" };
  return leader === undefined ? { ...error, retryAfterMs: 10n } : { ...error, details: { leader, leader_http: "" } };
}

/** A connection arrives, and hears that this node does not lead. */
async function redirect(node: ScriptedBroker, leader?: string): Promise<void> {
  const peer = await node.peers.take();
  await peer.expect(Opcode.Hello, HelloSchema);
  peer.send(Opcode.Error, ErrorSchema, notLeader(leader));
}

async function nodes(t: TestContext, count: number): Promise<ScriptedBroker[]> {
  const all = await Promise.all(Array.from({ length: count }, () => ScriptedBroker.listen()));
  t.after(() => Promise.all(all.map((node) => node.close())));
  return all;
}

/** The two nodes of a cluster, and a client that the first one has accepted. */
async function pair(t: TestContext): Promise<{ client: Client; peer: Peer; first: ScriptedBroker; second: ScriptedBroker }> {
  const { client, peer, broker } = await scene(t, {}, NODE);
  const [second] = await nodes(t, 1);
  return { client, peer, first: broker, second: second as ScriptedBroker };
}

const keys = (publish: Publish): string[] => publish.items.map(({ idempotencyKey }) => idempotencyKey);

test("a_node_that_does_not_lead_sends_the_client_to_the_one_that_does", async (t) => {
  const [follower, leader] = (await nodes(t, 2)) as [ScriptedBroker, ScriptedBroker];
  const connecting = connectClient(follower.address, AT_ONCE);
  await redirect(follower, leader.address);
  const peer = await leader.peers.take();
  assert.deepEqual((await peer.hello(NODE)).features, ["cluster"]);
  await (await connecting).close();
});

test("a_leader_that_is_gone_does_not_keep_the_client_from_the_other_nodes", async (t) => {
  const [one, other, gone] = (await nodes(t, 3)) as [ScriptedBroker, ScriptedBroker, ScriptedBroker];
  const address = gone.address;
  await gone.close();
  const connecting = connectClient(`${one.address}, ${other.address}`, AT_ONCE);
  // Both still believe in it, and then one of them leads.
  await Promise.all([redirect(one, address), redirect(other, address)]);
  await Promise.race([one.accept(NODE), other.accept(NODE)]);
  await (await connecting).close();
});

test("a_client_that_is_told_of_no_leader_asks_again", async (t) => {
  const [node] = (await nodes(t, 1)) as [ScriptedBroker];
  const connecting = connectClient(node.address, AT_ONCE);
  await redirect(node);
  await redirect(node);
  await node.accept(NODE);
  await (await connecting).close();
  assert.ok(new ConnectError(["a: not-leader"], undefined).retryable);
});

test("after_a_lost_connection_the_last_leader_is_asked_first", async (t) => {
  const [seed, last, next] = (await nodes(t, 3)) as [ScriptedBroker, ScriptedBroker, ScriptedBroker];
  const connecting = connectClient(seed.address, AT_ONCE);
  await redirect(seed, last.address);
  const peer = await last.accept(NODE);
  const client = await connecting;
  peer.destroy();
  await redirect(last, next.address);
  await next.accept(NODE);
  assert.equal(seed.peers.size, 0);
  await client.close();
});

test("a_publish_whose_leader_is_lost_is_sent_again_under_the_same_key", async (t) => {
  const { client, peer, first } = await pair(t);
  const published = [client.publish("q", bytes("plain")), client.publish("q", bytes("keyed"), { idempotencyKey: "k" })];
  const { message } = await peer.expect(Opcode.Publish, PublishSchema);
  assert.match(keys(message)[0] ?? "", /^\u0001[\w-]{8}1\.0$/);
  assert.equal(keys(message)[1], "k");
  peer.destroy();
  const again = await first.accept(NODE);
  const { id, message: repeated } = await again.expect(Opcode.Publish, PublishSchema);
  assert.deepEqual(repeated, message);
  const stored = (seq: bigint): { id: Uint8Array; seq: bigint; duplicate: boolean } => ({ id: new Uint8Array(16), seq, duplicate: true });
  again.send(Opcode.PublishAck, PublishAckSchema, { results: [stored(4n), stored(5n)] }, id);
  // The caller published it once; what its own key says is its own affair.
  assert.deepEqual((await Promise.all(published)).map(({ seq, duplicate }) => [seq, duplicate]), [[4n, false], [5n, true]]);
});

test("a_client_that_gives_up_says_of_what_it_has_sent_that_it_may_be_stored", async (t) => {
  const { client, peer } = await scene(t, { reconnect: { attempts: 0 } }, NODE);
  const published = client.publish("q", bytes("m"));
  await peer.expect(Opcode.Publish, PublishSchema);
  peer.destroy();
  await assert.rejects(published, (error) => error instanceof DisconnectedError && error.maybeStored);
});

test("a_refusal_by_a_node_that_leads_no_more_is_no_answer", async (t) => {
  for (const byItem of [false, true]) {
    const { client, peer, second } = await pair(t);
    const published = client.publish("q", bytes("m"));
    const { id, message } = await peer.expect(Opcode.Publish, PublishSchema);
    const error = notLeader(second.address);
    if (byItem) {
      peer.send(Opcode.PublishAck, PublishAckSchema, { results: [{ error }] }, id);
    } else {
      peer.send(Opcode.Error, ErrorSchema, error, id);
    }
    await peer.ended;
    const next = await second.accept(NODE);
    const repeated = await next.acceptPublish(7);
    assert.deepEqual(repeated, message);
    assert.equal((await published).seq, 7n);
  }
});

test("an_atomic_batch_is_sent_again_as_a_whole", async (t) => {
  const { client, peer, first } = await pair(t);
  const published = client.publishAtomic("q", [{ payload: bytes("1") }, { payload: bytes("2") }]);
  const { message } = await peer.expect(Opcode.Publish, PublishSchema);
  peer.destroy();
  const again = await (await first.accept(NODE)).acceptPublish();
  assert.deepEqual(again, message);
  assert.ok(again.atomic && keys(again)[0] !== keys(again)[1]);
  assert.equal((await published).length, 2);
});

test("a_broker_that_runs_alone_is_sent_no_keys_of_the_clients_own", async (t) => {
  const { client, peer } = await scene(t);
  const published = client.publish("q", bytes("m"));
  const { message } = await peer.expect(Opcode.Publish, PublishSchema);
  assert.deepEqual(keys(message), [""]);
  peer.destroy();
  await assert.rejects(published, (error) => error instanceof DisconnectedError && error.maybeStored);
});

test("a_call_whose_leader_is_lost_says_that_nobody_knows_whether_it_ran", async (t) => {
  const { client, peer, second } = await pair(t);
  const calling = client.call("q", bytes("m"));
  await peer.expect(Opcode.Call, CallSchema);
  peer.send(Opcode.Error, ErrorSchema, notLeader(second.address));
  await assert.rejects(calling, (error) => {
    assert.ok(error instanceof UnavailableError && error.code === "responder-lost" && error.retryable);
    assert.match(error.message, /whether it ran is not known/);
    return true;
  });
  await second.accept(NODE);
});

test("subscriptions_move_to_the_new_leader_and_old_leases_are_stale", async (t) => {
  const { client, peer, second } = await pair(t);
  const subscription = client.consume("q", { group: "g" });
  const { id, message: consume } = await peer.expect(Opcode.Consume, ConsumeSchema);
  peer.send(Opcode.ConsumeAck, ConsumeAckSchema, { subscription: 1, group: "g" }, id);
  const messages = [{ leaseId: leaseId(1), seq: 1n, attempt: 1, leaseMs: 30_000n, id: new Uint8Array(16) }];
  peer.send(Opcode.Message, DeliverSchema, { subscription: 1, messages });
  const { value: held } = await subscription.next();
  peer.send(Opcode.Error, ErrorSchema, notLeader(second.address));
  const next = await second.accept(NODE);
  assert.deepEqual((await next.expect(Opcode.Consume, ConsumeSchema)).message, consume);
  assert.ok(held !== undefined);
  assert.throws(() => held.ack(), { code: "stale-lease" });
});

test("a_round_has_the_leader_first_every_seed_once_and_few_hops", () => {
  const rest = (route: Route): string[] => {
    const addresses: string[] = [];
    for (let address = route.next(); address !== undefined; address = route.next()) {
      addresses.push(address);
    }
    return addresses;
  };
  const seeds = addressesOf(["a:1, b:1", "c:1,"]);
  assert.deepEqual(seeds, ["a:1", "b:1", "c:1"]);
  const round = rest(new Route("b:1", seeds));
  assert.equal(round[0], "b:1");
  assert.deepEqual([...round].sort(), seeds);
  const route = new Route("0:1", []);
  const dialled: (string | undefined)[] = [];
  for (let hop = 1; hop < 10; hop += 1) {
    dialled.push(route.next());
    route.redirect("0:1");
    route.redirect(`${hop}:1`);
  }
  assert.deepEqual(dialled.slice(0, 5), ["0:1", "1:1", "2:1", "3:1", undefined]);
});

test("browsers_are_led_to_the_leaders_http_port", () => {
  const details = { leader: "b:9876", leader_http: "b:9877" };
  for (const [address, leader] of [
    ["a:9876", "b:9876"],
    ["ws://a:9877", "ws://b:9877"],
    ["wss://a:9877/queue/ws", "wss://b:9877/queue/ws"],
  ] as const) {
    assert.equal(leaderAddress(address, details), leader);
  }
  assert.equal(leaderAddress("ws://a:9877", { leader: "b:9876" }), undefined);
});

test("a_key_names_its_client_its_number_and_how_far_back_the_oldest_open_one_is", () => {
  const keys = new RetryKeys();
  const next = (): string => keys.take().text.slice(9);
  assert.deepEqual([next(), next(), next()], ["1.0", "2.1", "3.2"]);
  keys.settle(2);
  assert.equal(next(), "4.3");
  keys.settle(1);
  assert.equal(next(), "5.2");
  [3, 5, 4].forEach((number) => keys.settle(number));
  assert.equal(next(), "6.0");
  assert.notEqual(keys.take().text.slice(0, 9), new RetryKeys().take().text.slice(0, 9));
  const many = new RetryKeys();
  for (let taken = 0; taken < 65_536; taken += 1) {
    many.take();
  }
  assert.ok(many.isKept(1));
  many.take();
  assert.ok(!many.isKept(1) && many.isKept(2));
});
