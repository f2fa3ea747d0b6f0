// The generated TypeScript client in a page of another site, over WebSocket. Run by tests/browser.rs, which bundles the page and serves it
// under two origins, one of which the broker lets in.

import assert from "node:assert/strict";
import { test } from "node:test";

import { broker, newPage } from "./harness.js";

const address = `ws://${broker.http}`;

test("a_page_publishes_consumes_calls_and_serves_with_the_generated_client", async (t) => {
  const { page } = await newPage(t);
  await page.goto(process.env.QWERQ_PAGE_ALLOWED);
  const seen = await page.evaluate(([address, token]) => globalThis.converse(address, token), [address, broker.token]);
  const largest = "9223372036854775807";
  assert.deepEqual(seen.published, [0, 1, 2].map((seq) => ({ seq: `${seq}`, durability: "fsync", version: 1 })));
  const consumed = seen.consumed.map(({ text, number, attempt }) => [text, number, attempt]);
  assert.deepEqual(consumed.sort(), [["one", largest, 1], ["three", largest, 1], ["two", largest, 1], ["two", largest, 2]]);
  assert.deepEqual(seen.refused, { code: "schema-violation", path: "f_int64" });
  assert.equal(seen.answer, "soup!");
  assert.equal(seen.tail, "whole");
});

test("a_page_of_an_origin_that_is_not_allowed_gets_no_connection", async (t) => {
  const { page, complaints } = await newPage(t);
  await page.goto(process.env.QWERQ_PAGE_FOREIGN);
  assert.deepEqual(complaints, []);
  assert.equal(await page.evaluate((address) => globalThis.tryToConnect(address), address), false);
  // What the broker answers is told to people only.
  const [complaint, ...more] = complaints.splice(0);
  assert.match(complaint, /Unexpected response code: 403/);
  assert.deepEqual(more, []);
});
