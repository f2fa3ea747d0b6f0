// A page that uses the generated client. Run by tests/browser/client.test.js, which bundles it and opens it in Chromium.

import { RefusedError, connect } from "./queues/index.js";

/** What the page has seen, as plain data. */
interface Seen {
  published: { seq: string | undefined; durability: string; version: number }[];
  consumed: { text: string; number: string; attempt: number }[];
  refused: { code: string; path: string | undefined };
  answer: string;
  tail: string;
}

/** Publishes, consumes, calls and serves at `address`. */
async function converse(address: string, token: string): Promise<Seen> {
  const q = await connect(address, { token });
  const published: Seen["published"] = [];
  for (const fString of ["one", "two", "three"]) {
    const result = await q.everything.publish({ fString, fInt64: 2n ** 63n - 1n });
    published.push({ seq: result.seq?.toString(), durability: result.durability, version: result.schemaVersion });
  }

  const consumed: Seen["consumed"] = [];
  const messages = q.everything.consume({ group: "page" });
  for await (const message of messages) {
    consumed.push({ text: message.body.fString, number: message.body.fInt64.toString(), attempt: message.attempt });
    if (message.body.fString === "two" && message.attempt === 1) {
      message.nack({ delayMs: 0, reason: "not yet" });
      continue;
    }
    await message.ackConfirmed();
    if (consumed.length === 4) {
      break;
    }
  }

  const [outcome] = await q.client.publishBatch("everything", [{ payload: Uint8Array.of(0x22, 1, 0) }]);
  const refused = outcome instanceof RefusedError ? { code: outcome.code, path: outcome.path } : { code: "", path: undefined };

  const cook = await connect(address, { token });
  const responder = cook.kitchen.askCook.serve(async (question) => ({ text: `${question.text}!`, calls: 1n }));
  await responder.ready;
  const { text: answer } = await q.kitchen.askCook({ text: "soup" });

  const tail = q.everything.consume({ tail: true });
  await tail.ready;
  // Larger than a WebSocket message of the broker, so that it has one of its own.
  const long = "x".repeat(900_000);
  await q.everything.publish({ fString: long });
  const { value: last } = await tail[Symbol.asyncIterator]().next();

  await cook.close();
  await q.close();
  return { published, consumed, refused, answer, tail: last?.body.fString === long ? "whole" : "broken" };
}

/** Whether a connection can be had at all. */
async function tryToConnect(address: string): Promise<boolean> {
  try {
    const q = await connect(address, { connectTimeoutMs: 300_000 });
    await q.close();
    return true;
  } catch {
    return false;
  }
}

Object.assign(globalThis, { converse, tryToConnect });
