// The generated TypeScript client in a browser, over WebSocket. Run by tests/browser.rs, which generates it for the broker's contracts.

import assert from "node:assert/strict";
import { before, test } from "node:test";

import { broker, bundle, newPage, openModule } from "./harness.js";

let script;
before(async () => {
  script = await bundle(process.env.QWERQ_PAGE);
});

test("a_page_publishes_consumes_calls_and_serves_with_the_generated_client", async (t) => {
  const { page } = await newPage(t);
  await openModule(page, "/a-page", script);
  const seen = await page.evaluate(([address, token]) => globalThis.converse(address, token), [`ws://${broker.http}`, broker.token]);
  const largest = "9223372036854775807";
  assert.deepEqual(seen.published, [0, 1, 2].map((seq) => ({ seq: `${seq}`, durability: "fsync", version: 1 })));
  const consumed = seen.consumed.map(({ text, number, attempt }) => [text, number, attempt]);
  assert.deepEqual(consumed.sort(), [["one", largest, 1], ["three", largest, 1], ["two", largest, 1], ["two", largest, 2]]);
  assert.deepEqual(seen.refused, { code: "schema-violation", path: "f_int64" });
  assert.equal(seen.answer, "soup!");
  assert.equal(seen.tail, "whole");
});

test("a_page_of_another_site_is_refused_unless_it_is_allowed", async (t) => {
  const { page, complaints } = await newPage(t);
  const address = `ws://${broker.http}`;
  await openModule(page, "/allowed", script, process.env.QWERQ_ALLOWED_ORIGIN);
  assert.equal(await page.evaluate((address) => globalThis.tryToConnect(address), address), true);
  await openModule(page, "/foreign", script, "http://localhost:4322");
  assert.deepEqual(complaints, []);
  assert.equal(await page.evaluate((address) => globalThis.tryToConnect(address), address), false);
  // The browser says so too, and gives the reason to people only.
  assert.ok(complaints.splice(0).every((complaint) => complaint.includes("WebSocket")));
});
