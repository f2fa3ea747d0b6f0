// Request and reply: both sides, deadlines, refusals.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import assert from "node:assert/strict";
import { test } from "node:test";

import { CallError, UnavailableError, makeService } from "../src/index.js";
import { Opcode } from "../src/opcode.js";
import {
  CallResponseSchema,
  CallSchema,
  CancelSchema,
  ConsumeAckSchema,
  ConsumeSchema,
  ErrorSchema,
  HeaderSchema,
  QueueNameSchema,
  Role,
  SubscriptionEndedSchema,
  UnsubscribeSchema,
} from "../src/wire_pb.js";
import type { Peer } from "./support/broker.js";
import { scene } from "./support/scene.js";

const contract = { queue: "pricing.get_quote", version: 1, fingerprint: "ff".repeat(32) };

test("a_call_is_a_function_and_resolves_with_the_typed_reply", async (t) => {
  const { client, peer } = await scene(t);
  const quote = makeService(client, HeaderSchema, QueueNameSchema, contract);
  const reply = quote({ name: "a", value: "b" }, { timeoutMs: 1500, headers: { trace: "1" } });
  const { id, message } = await peer.expect(Opcode.Call, CallSchema);
  assert.deepEqual([message.queue, message.timeoutMs, message.contract.length], ["pricing.get_quote", 1500n, 32]);
  assert.equal(fromBinary(HeaderSchema, message.payload).value, "b");
  assert.equal(message.headers[0]?.name, "trace");
  peer.send(Opcode.CallResponse, CallResponseSchema, { payload: toBinary(QueueNameSchema, create(QueueNameSchema, { name: "q" })) }, id);
  assert.equal((await reply).name, "q");
});

test("what_the_responder_refuses_reaches_the_caller", async (t) => {
  const { client, peer } = await scene(t);
  const reply = client.call("q", new Uint8Array(0));
  const { id } = await peer.expect(Opcode.Call, CallSchema);
  peer.send(Opcode.CallResponse, CallResponseSchema, { error: { code: 1001, name: "invalid-argument", message: "no such article" } }, id);
  await assert.rejects(reply, { name: "RefusedError", code: "invalid-argument", message: "no such article" });
});

test("no_responders_is_told_at_once_and_overloaded_is_not_repeated", async (t) => {
  const { client, peer } = await scene(t);
  for (const [code, name] of [[2004, "no-responders"], [2001, "overloaded"]] as const) {
    const reply = client.call("q", new Uint8Array(0));
    const { id } = await peer.expect(Opcode.Call, CallSchema);
    peer.send(Opcode.Error, ErrorSchema, { code, name, message: "no" }, id);
    await assert.rejects(reply, (error) => error instanceof UnavailableError && error.code === name && error.retryable);
  }
});

test("a_call_ends_at_its_deadline_and_when_it_is_aborted", async (t) => {
  const { client, peer } = await scene(t);
  const late = assert.rejects(client.call("q", new Uint8Array(0), { timeoutMs: 1 }), { code: "timeout" });
  const first = await peer.expect(Opcode.Call, CallSchema);
  await late;
  assert.equal((await peer.expect(Opcode.Cancel, CancelSchema)).message.requestId, first.id);
  const abort = new AbortController();
  const aborted = client.call("q", new Uint8Array(0), { signal: abort.signal });
  const second = await peer.expect(Opcode.Call, CallSchema);
  abort.abort(new Error("enough"));
  await assert.rejects(aborted, /enough/);
  assert.equal((await peer.expect(Opcode.Cancel, CancelSchema)).message.requestId, second.id);
  // Late replies are nothing to anybody.
  peer.send(Opcode.CallResponse, CallResponseSchema, {}, first.id);
  peer.send(Opcode.CallResponse, CallResponseSchema, {}, second.id);
});

async function agree(peer: Peer): Promise<number> {
  const { id, message } = await peer.expect(Opcode.Consume, ConsumeSchema);
  assert.equal(message.role, Role.SERVE);
  peer.send(Opcode.ConsumeAck, ConsumeAckSchema, { subscription: message.subscription }, id);
  return message.subscription;
}

test("serve_answers_calls_with_what_the_handler_returns_or_throws", async (t) => {
  const { client, peer } = await scene(t);
  const service = makeService(client, HeaderSchema, QueueNameSchema, contract);
  const responder = service.serve(
    (request, context) => {
      assert.equal(context.headers.get("trace"), "1");
      assert.ok(context.remainingMs > 0 && context.remainingMs <= 60_000);
      switch (request.name) {
        case "refused":
          throw CallError.invalidArgument("no such article");
        case "broken":
          throw new Error("a defect");
        default:
          context.replyHeaders = { served: "yes" };
          return { name: request.name };
      }
    },
    { concurrency: 4 },
  );
  const subscription = await agree(peer);
  await responder.ready;
  const ask = (name: string, at: number): void => {
    const payload = toBinary(HeaderSchema, create(HeaderSchema, { name }));
    const headers = [{ name: "trace", value: "1" }];
    peer.send(Opcode.Call, CallSchema, { queue: "q", payload, headers, timeoutMs: 60_000n, callId: Uint8Array.of(at), subscription });
  };
  ask("good", 1);
  ask("refused", 2);
  ask("broken", 3);
  const answers = new Map<number, { name: string | undefined; code: number | undefined; headers: number }>();
  while (answers.size < 3) {
    const { message } = await peer.expect(Opcode.CallResponse, CallResponseSchema);
    const name = message.error === undefined ? fromBinary(QueueNameSchema, message.payload).name : undefined;
    answers.set(message.callId[0] ?? 0, { name, code: message.error?.code, headers: message.headers.length });
  }
  assert.deepEqual(answers.get(1), { name: "good", code: undefined, headers: 1 });
  assert.deepEqual(answers.get(2), { name: undefined, code: 1001, headers: 0 });
  assert.deepEqual(answers.get(3), { name: undefined, code: 4001, headers: 0 });
  const closed = responder.close();
  const { id, message } = await peer.expect(Opcode.Unsubscribe, UnsubscribeSchema);
  assert.equal(message.keepLeases, true);
  // A call that crossed it is answered, so that its caller need not wait.
  ask("late", 4);
  assert.equal((await peer.expect(Opcode.CallResponse, CallResponseSchema)).message.error?.name, "responder-lost");
  peer.send(Opcode.SubscriptionEnded, SubscriptionEndedSchema, { subscription }, id);
  await closed;
  await responder.closed;
});

test("a_request_that_is_no_message_is_refused_and_a_handler_learns_that_nobody_waits", async (t) => {
  const { client, peer } = await scene(t);
  const service = makeService(client, HeaderSchema, QueueNameSchema, contract);
  let reason: unknown;
  service.serve(async (_request, { signal }) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    reason = signal.reason;
    return {};
  });
  const subscription = await agree(peer);
  peer.send(Opcode.Call, CallSchema, { payload: Uint8Array.of(0x0a, 9), timeoutMs: 60_000n, callId: Uint8Array.of(1), subscription });
  assert.equal((await peer.expect(Opcode.CallResponse, CallResponseSchema)).message.error?.name, "invalid-argument");
  peer.send(Opcode.Call, CallSchema, { timeoutMs: 1n, callId: Uint8Array.of(2), subscription });
  await peer.expect(Opcode.CallResponse, CallResponseSchema);
  assert.match(String(reason), /stopped waiting/);
});
