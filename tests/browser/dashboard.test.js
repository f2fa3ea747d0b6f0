// The dashboard against a real broker with a token: every page, every action, hostile content, live numbers.
//
// tests/dashboard.rs starts the broker and a consumer of the queue `attended`. What the pages show is made here, over REST.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { before, test } from "node:test";

import { axeViolations, broker, leads, newPage, sidewaysScroll } from "./harness.js";

const PROTO = `syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";

// <script>document.title = "hacked"</script>
message Order {
  // "><img src=x onerror="document.title='hacked'">
  string id = 1;
  int64 total_cents = 2;
  Status status = 3;
  repeated Line lines = 4;
  map<string, string> labels = 5;
  oneof payment {
    Card card = 6;
    bool cash = 7;
  }
  google.protobuf.Timestamp placed_at = 8;
  optional uint32 priority = 9;
}
message Line { string sku = 1; Price price = 2; }
message Price { int32 units = 1; string currency = 2; }
message Card { string token = 1; }
enum Status { STATUS_UNSPECIFIED = 0; STATUS_NEW = 1; STATUS_PAID = 2; }
`;

const SCRIPT = `<script>document.title = "hacked"</script>`;
const IMAGE = `"><img src=x onerror="document.title='hacked'">`;

/** A request of the API with the token; its JSON answer. */
async function api(method, path, body) {
  const response = await fetch(`${broker.origin}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${broker.token}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text === "" ? null : JSON.parse(text);
}

const publish = (queue, message) => api("POST", `/queues/${queue}/messages`, message);

/** Leases `count` messages for a group and rejects them. */
async function reject(queue, group, count, reason) {
  const { messages } = await api("POST", `/queues/${queue}/fetch`, { group, max: count });
  assert.equal(messages.length, count);
  await api("POST", `/queues/${queue}/reject`, { lease_ids: messages.map((message) => message.lease_id), reason });
}

/** A queue with a contract. */
async function typed(queue) {
  await api("POST", `/schemas/${queue}`, { files: { "order.proto": PROTO }, message_type: "shop.v1.Order" });
}

/** A page of a visitor who has signed in. */
async function visit(t, path, options = {}) {
  const opened = await newPage(t, options);
  const response = await fetch(`${broker.origin}/api/v1/login`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token: broker.token }),
  });
  const [name, value] = response.headers.getSetCookie()[0].split(";")[0].split("=");
  await opened.context.addCookies([{ name, value, url: broker.origin }]);
  // A message box would be the work of somebody's message.
  opened.page.on("dialog", (dialog) => opened.complaints.push(`dialog: ${dialog.message()}`));
  await opened.page.goto(path);
  return opened;
}

/** Types the name into the question whether one is sure. */
async function confirm(page, name) {
  const dialog = page.getByRole("dialog");
  assert.ok(await dialog.getByRole("button", { name: "Do it" }).isDisabled(), "nothing goes without the name");
  await dialog.getByRole("textbox").fill(name);
  await dialog.getByRole("button", { name: "Do it" }).click();
}

const notice = (page, text) => page.locator("#notices").getByText(text).waitFor();

before(async () => {
  await typed("orders");
  const order = (number) => ({
    body: { id: `A-${number}`, totalCents: String(number), lines: [{ sku: "s", price: { units: 12, currency: "EUR" } }], cash: true },
    ordering_key: `customer-${number % 7}`,
    headers: { source: "shop" },
  });
  await publish("orders", Array.from({ length: 60 }, (_, number) => order(number)));
  await publish("orders", {
    body: { id: SCRIPT, labels: { [IMAGE]: `</pre></textarea>${SCRIPT}` } },
    headers: { [`x-${SCRIPT}`]: IMAGE, source: SCRIPT },
    ordering_key: IMAGE,
  });
  await api("PUT", "/queues/orders/groups/billing", {});
  await api("PUT", "/queues/orders/groups/shipping", {});
  await reject("orders", "billing", 5, `no such customer ${SCRIPT}${IMAGE}`);
  await api("PUT", "/queues/events", { mode: "stream" });
  await publish("events", Array.from({ length: 120 }, (_, number) => ({ payload_text: `event ${number} ${SCRIPT}` })));
  await api("PUT", "/queues/events/groups/indexer", {});
  await api("PUT", "/queues/bytes", {});
  await publish("bytes", [{ payload_base64: "AP8QoLDA" }, { payload_text: IMAGE }]);
});

const PAGES = {
  queues: "/",
  search: "/?q=ord&sort=name",
  "nothing-found": "/?q=%3Cscript%3Ealert(1)%3C/script%3E",
  streams: "/streams",
  contracts: "/contracts",
  connections: "/connections",
  settings: "/settings",
  new: "/new",
  queue: "/queues/orders",
  explained: `/queues/orders?about=key&which=${encodeURIComponent(IMAGE)}`,
  messages: "/queues/orders/messages?from=12",
  hostile: "/queues/orders/messages?from=58",
  bytes: "/queues/bytes/messages",
  publish: "/queues/orders/publish",
  "publish-bytes": "/queues/bytes/publish",
  "dead-letters": "/queues/orders/dead-letters",
  "no-dead-letters": "/queues/bytes/dead-letters",
  contract: "/queues/orders/contract",
  "no-contract": "/queues/bytes/contract",
  diff: "/queues/orders/contract/diff?from=1&to=1",
  options: "/queues/orders/options",
  stream: "/queues/events",
  "stream-messages": "/queues/events/messages",
  "dlq-messages": "/queues/orders.dlq/messages",
  "not-here": "/queues/nothing",
  login: "/login",
};

for (const scheme of ["light", "dark"]) {
  for (const width of [1280, 360]) {
    test(`every page is accessible and fits, ${scheme}, ${width} px`, async (t) => {
      // The page that is not there is a 404 to the browser as well.
      const { page } = await visit(t, "/", { scheme, width, height: 800, refusals: [404] });
      for (const [name, path] of Object.entries(PAGES)) {
        await page.goto(path);
        // A few of a kind are enough.
        await page.evaluate(() => [...document.querySelectorAll("main details")].slice(0, 3).forEach((details) => (details.open = true)));
        // axe is slow; what it finds depends on the colours and on the width, but hardly on both at once.
        if ((scheme === "light") === (width === 1280)) assert.deepEqual(await axeViolations(page), [], name);
        assert.ok((await sidewaysScroll(page)) <= 0, `${name} scrolls sideways`);
        assert.ok(!(await page.title()).startsWith("hacked"), name);
        const folder = process.env.QWERQ_SCREENSHOTS;
        if (folder) {
          await mkdir(folder, { recursive: true });
          await page.screenshot({ path: `${folder}/${name}-${scheme}-${width}.png` });
        }
      }
    });
  }
}

test("pages fit whatever the width is", async (t) => {
  const { page } = await visit(t, "/");
  // On both sides of every width at which the style sheet changes, and in between.
  for (const width of [800, 801, 1000, 1180, 1181]) {
    await page.setViewportSize({ width, height: 800 });
    for (const name of ["queues", "streams", "contracts", "connections", "queue", "messages", "dead-letters", "contract", "stream"]) {
      await page.goto(PAGES[name]);
      assert.ok((await sidewaysScroll(page)) <= 0, `${name} scrolls sideways at ${width} px`);
    }
  }
});

test("who has no login gets the login page, and goes on from there", async (t) => {
  const { page } = await newPage(t, { refusals: [401] });
  const refused = await page.goto("/queues/orders/messages?from=3");
  assert.equal(refused.status(), 401);
  assert.equal(await page.getByRole("heading").innerText(), "Sign in");
  assert.deepEqual(await axeViolations(page), []);
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("the token is not the broker's").waitFor();
  await page.getByLabel("Token").fill(broker.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.waitForURL("**/queues/orders/messages?from=3");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.waitForURL("**/login");
  assert.equal((await page.goto("/")).status(), 401);
});

test("pages can be read without scripts", async (t) => {
  const { page } = await visit(t, "/", { javaScriptEnabled: false });
  await leads(page, () => page.getByRole("link", { name: "orders", exact: true }).click());
  assert.match(await page.locator("main").innerText(), /billing/);
  await leads(page, () => page.getByRole("link", { name: "Messages", exact: true }).click());
  assert.match(await page.locator("main").innerText(), /A-5/);
});

test("queues in trouble come first, and a search finds by a part of the name", async (t) => {
  await Promise.all(Array.from({ length: 110 }, (_, number) => api("PUT", `/queues/idle.${number}`, {})));
  // As it was sent: what is in trouble may change while the page is looked at, and the order stays.
  const { page } = await visit(t, "/", { javaScriptEnabled: false });
  const rows = await page.locator("tbody tr").evaluateAll((rows) => rows.map((row) => [row.dataset.queue, row.dataset.trouble ?? "none"]));
  const severities = rows.map(([, severity]) => ["bad", "warn", "none"].indexOf(severity));
  assert.deepEqual(severities, severities.toSorted(), "no calm queue stands above one in trouble");
  assert.ok(rows.slice(0, 5).some(([name, severity]) => name === "orders" && severity === "bad"), `${rows.slice(0, 5)}`);
  await leads(page, () => page.getByRole("link", { name: "Next" }).click());
  assert.match(page.url(), /page=2/);
  await page.getByLabel("Find a queue").fill("idle.10");
  await leads(page, () => page.getByRole("button", { name: "Show" }).click());
  const names = await page.locator("tbody .name a").allInnerTexts();
  assert.deepEqual(names, ["idle.10", "idle.100", "idle.101", "idle.102", "idle.103", "idle.104", "idle.105", "idle.106", "idle.107", "idle.108", "idle.109"]);
});

/** Notes from now on what moves on the page without the visitor's doing. */
async function watchShifts(page) {
  await page.evaluate(() => {
    globalThis.shifted = [];
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) {
        globalThis.shifted.push(`${entry.value}: ${entry.sources.map((source) => source.node?.outerHTML ?? source.node?.textContent).join(" ")}`);
      }
    }).observe({ type: "layout-shift", buffered: false });
  });
}

const shifted = (page) => page.evaluate(() => globalThis.shifted);

test("numbers are live, and nothing moves with them", async (t) => {
  const { page } = await visit(t, "/?q=attended");
  await watchShifts(page);
  let stop = false;
  const traffic = (async () => {
    while (!stop) await publish("attended", Array.from({ length: 20 }, () => ({ payload_text: "x" })));
  })();
  try {
    await page.waitForFunction(() => document.getElementById("live").dataset.state === "live");
    await page.waitForFunction(() => {
      const number = (name) => Number(document.querySelector(`[data-queue="attended"] [data-live=${name}]`).textContent.replaceAll(",", ""));
      return number("published") > 1 && number("delivered") > 1 && number("consumers") === 1;
    });
    await page.waitForFunction(() => document.querySelector('[data-queue="attended"] polyline').getAttribute("points").split(" ").length > 3);
    assert.deepEqual(await shifted(page), []);
    await page.goto("/queues/attended");
    await watchShifts(page);
    const floor = () => document.querySelector("[data-group=workers] [data-live=ack_floor]").textContent;
    const before = await page.evaluate(floor);
    await page.waitForFunction((text) => document.querySelector("[data-group=workers] [data-live=ack_floor]").textContent !== text, before);
    await page.waitForFunction(() => document.querySelector("[data-spark=acked] polyline").getAttribute("points").split(" ").length > 3);
    assert.deepEqual(await shifted(page), []);
    assert.match(await page.locator("main").innerText(), /consume/);
  } finally {
    stop = true;
    await traffic;
  }
});

test("trouble that comes and goes while one looks on is said, and nothing moves with it", async (t) => {
  await api("PUT", "/queues/unlucky", { max_messages: 10 });
  await api("PUT", "/queues/unlucky/groups/late", {});
  const { page } = await visit(t, "/?q=unlucky");
  await watchShifts(page);
  const row = page.locator("[data-queue=unlucky]");
  const said = (text) => row.locator("[data-troubles]").getByText(text).waitFor();
  assert.equal(await row.locator("[data-troubles]").innerText(), "none");
  await publish("unlucky", Array.from({ length: 8 }, () => ({ payload_text: "x" })));
  await said("no consumer, 8 waiting");
  assert.equal(await row.getAttribute("data-trouble"), "bad");
  assert.match(await row.locator(".more").getAttribute("title"), /80% full/);
  await reject("unlucky", "late", 3, "no");
  await said("3 dead letters, 3 in 10 s");
  await api("POST", "/queues/unlucky/purge", {});
  await api("POST", "/queues/unlucky/dlq/purge", {});
  await said("none");
  assert.equal(await row.getAttribute("data-trouble"), null);
  assert.deepEqual(await shifted(page), []);
});

test("a message is written in typed inputs, and what cannot be sent is said at its field", async (t) => {
  await typed("form");
  const { page } = await visit(t, "/queues/form/publish", { refusals: [422] });
  await page.getByLabel(/^id/).fill("A-1");
  await page.getByLabel(/^total_cents/).fill("12.5");
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.getByText('"12.5" is not a whole number').waitFor();
  assert.equal(await page.getByLabel(/^total_cents/).getAttribute("aria-invalid"), "true");
  await page.getByLabel(/^total_cents/).fill("9007199254740993");
  await page.getByLabel(/^status/).selectOption("STATUS_PAID");
  await page.getByRole("button", { name: "Add to lines" }).click();
  await page.getByLabel(/^sku/).fill("sku-1");
  await page.getByRole("button", { name: "Set price" }).click();
  await page.getByLabel(/^units/).fill("3000000000");
  await page.getByRole("button", { name: "Check only" }).click();
  await page.getByText("3000000000 is not between").waitFor();
  await page.getByLabel(/^units/).fill("3");
  await page.getByRole("button", { name: "Add to labels" }).click();
  await page.getByLabel("Key in labels").fill("colour");
  await page.getByLabel("Value in labels").fill(SCRIPT);
  await page.getByLabel("Which field of payment").selectOption("cash");
  await page.getByLabel(/^cash/).selectOption("true");
  // Only the broker knows what a timestamp is: its answer is shown at the field.
  await page.getByLabel(/^placed_at/).fill("yesterday");
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.locator("[data-name=placed_at] .field-error").waitFor();
  assert.equal((await api("GET", "/queues/form")).depth, 0, "what was refused was not sent");
  await page.getByLabel(/^placed_at/).fill("2026-01-31T12:00:00Z");
  await page.getByLabel("Ordering key").fill("customer-1");
  await page.getByRole("button", { name: "Add a header" }).click();
  await page.getByLabel("Header name").fill("source");
  await page.getByLabel("Header value").fill("dashboard");
  assert.deepEqual(await axeViolations(page), []);
  await page.getByRole("button", { name: "Check only" }).click();
  await page.getByText("The contract accepts it. Nothing was sent.").waitFor();
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.getByText(/Published as 0, id \w{26}, durable by fsync/).waitFor();
  const [message] = (await api("GET", "/queues/form/messages")).messages;
  assert.deepEqual(message.body, {
    id: "A-1",
    totalCents: "9007199254740993",
    status: "STATUS_PAID",
    lines: [{ sku: "sku-1", price: { units: 3 } }],
    labels: { colour: SCRIPT },
    cash: true,
    placedAt: "2026-01-31T12:00:00Z",
  });
  assert.deepEqual([message.ordering_key, message.headers], ["customer-1", { source: "dashboard" }]);
});

test("the form and the JSON are two views of one message", async (t) => {
  const { page } = await visit(t, "/queues/orders/publish", { refusals: [422] });
  await page.getByLabel(/^id/).fill("A-2");
  await page.getByText("JSON", { exact: true }).click();
  const json = page.getByLabel("Message as JSON");
  assert.deepEqual(JSON.parse(await json.inputValue()), { id: "A-2" });
  const written = { id: "A-3", lines: [{ sku: "a" }, { price: { units: 5 } }], card: { token: "t" }, priority: 0, labels: { k: "v" } };
  await json.fill(JSON.stringify(written));
  await page.getByText("Form", { exact: true }).click();
  assert.equal(await page.getByLabel(/^token/).inputValue(), "t");
  await page.getByText("JSON", { exact: true }).click();
  assert.deepEqual(JSON.parse(await json.inputValue()), written);
  await json.fill('{"id": 1, "nothing": 2}');
  await page.getByText("Form", { exact: true }).click();
  await page.getByText("the contract has no field nothing").waitFor();
  await page.getByRole("button", { name: "Check only" }).click();
  await page.locator("output[data-kind=bad]").waitFor();
});

test("a queue without a contract takes text", async (t) => {
  await api("PUT", "/queues/text", {});
  const { page } = await visit(t, "/queues/text/publish");
  await page.getByLabel("Payload as text").fill("hellö");
  await page.getByLabel("Delay").fill("1h");
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.getByText(/Published \w{26}, delayed/).waitFor();
  await page.getByLabel("Delay").fill("soon");
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.getByText("is written as 500ms").waitFor();
});

test("messages are found by position, key and text, and shown by their contract", async (t) => {
  const { page } = await visit(t, "/queues/orders/messages");
  assert.equal(await page.locator(".entry").count(), 50);
  await leads(page, () => page.getByRole("link", { name: "Later" }).click());
  const hostile = page.locator("#message-60");
  await hostile.locator("summary").click();
  const text = await hostile.innerText();
  for (const part of [SCRIPT, IMAGE, "</pre></textarea>", "shop.v1.Order, version 1"]) assert.ok(text.includes(part), `${part} in ${text}`);
  await page.getByLabel("From position").fill("");
  await page.getByLabel("Ordering key").fill("customer-3");
  await leads(page, () => page.getByRole("button", { name: "Show" }).click());
  assert.match(await page.locator(".pager").innerText(), /9 of \d+ messages found/);
  await page.getByLabel("Ordering key").fill("");
  await page.getByLabel("Text in payload or headers").fill("A-57");
  await leads(page, () => page.getByRole("button", { name: "Show" }).click());
  assert.equal(await page.locator(".entry").count(), 1);
  await page.goto("/queues/bytes/messages");
  await page.locator("details").first().locator("summary").click();
  assert.match(await page.locator("details pre").first().innerText(), /00 ff 10 a0 b0 c0/);
});

test("a payload that breaks its contract is shown with the field", async (t) => {
  await api("PUT", "/queues/broken", { on_invalid: "dlq" });
  await typed("broken");
  // Field 4, lines, holds a price whose units are cut.
  const answer = await publish("broken", { payload_base64: "IgYSBAj/////" });
  assert.ok(answer.dead_lettered);
  const { page } = await visit(t, "/queues/broken/dead-letters");
  await page.locator("summary .seq").click();
  const shown = await page.locator(".violation").innerText();
  assert.match(shown, /^lines\[0\]/);
  assert.ok(shown.includes("version 1"), shown);
  await page.getByLabel("Written as").selectOption("json");
  await page.getByLabel("Payload, in base64").fill('{"id": "repaired"}');
  await page.getByRole("button", { name: "Redrive as edited" }).click();
  await notice(page, "Redriven: 1.");
  assert.equal((await api("GET", "/queues/broken/messages")).messages[0].body.id, "repaired");
});

test("dead letters are redriven edited, one, some and all, and purged by name", async (t) => {
  await typed("letters");
  await api("PUT", "/queues/letters/groups/one", {});
  await api("PUT", "/queues/letters/groups/other", {});
  await publish("letters", Array.from({ length: 8 }, (_, number) => ({ body: { id: `L-${number}` } })));
  await reject("letters", "one", 8, `bad ${SCRIPT}`);
  const { page } = await visit(t, "/queues/letters/dead-letters", { refusals: [403, 422] });
  assert.equal(await page.locator(".entry").count(), 8);
  const first = page.locator(".entry").first();
  await first.locator("summary").click();
  assert.ok((await first.innerText()).includes(`bad ${SCRIPT}`));
  await first.getByLabel("Payload, as JSON").fill('{"id": "L-0", "totalCents": "many"}');
  await first.getByRole("button", { name: "Redrive as edited" }).click();
  await first.locator("output[data-kind=bad]").waitFor();
  assert.match(await first.locator("output").innerText(), /^total_?[cC]ents/);
  await first.getByLabel("Payload, as JSON").fill('{"id": "edited", "totalCents": "5"}');
  await first.getByRole("button", { name: "Redrive as edited" }).click();
  await notice(page, "Redriven: 1.");
  const { messages } = await api("POST", "/queues/letters/fetch", { group: "one", max: 10 });
  assert.deepEqual(messages.map((message) => message.body), [{ id: "edited", totalCents: "5" }], "it went to its group");
  const groups = (await api("GET", "/queues/letters/groups")).groups;
  assert.equal(groups.find((group) => group.name === "other").lag, 8, "and to no other");

  const boxes = page.getByRole("checkbox", { name: /Select dead letter/ });
  await boxes.nth(0).check();
  await boxes.nth(1).check();
  await page.getByRole("button", { name: "Redrive 2 selected" }).click();
  await notice(page, "Redriven: 2.");
  await page.locator(".entry").first().locator("summary").click();
  await page.locator(".entry").first().getByRole("button", { name: "Redrive as it is" }).click();
  await notice(page, "Redriven: 1.");
  await boxes.nth(0).check();
  await page.getByRole("button", { name: "Purge 1 selected" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
  assert.equal(await page.locator(".entry").count(), 4, "a purge that was not meant did nothing");
  await page.getByRole("button", { name: "Purge 1 selected" }).click();
  await confirm(page, "letters");
  await notice(page, "Purged: 1.");
  await page.getByText("Where to").click();
  await page.getByLabel("To another queue").fill("orders.dlq");
  await page.getByRole("button", { name: "Redrive all of them" }).click();
  await page.locator("#notices [data-kind=bad]").waitFor();
  await page.getByLabel("To another queue").fill("");
  await page.getByRole("button", { name: "Redrive all of them" }).click();
  await notice(page, "Redriven: 3.");
  await page.getByText("No dead letters.").waitFor();
  await reject("letters", "one", 2, "again");
  await page.reload();
  await page.getByRole("button", { name: "Purge all of them" }).click();
  await confirm(page, "letters");
  await notice(page, "Purged: 2.");
});

test("a contract is checked by pasting it, registered, compared, rolled back and retired", async (t) => {
  await typed("contract");
  const { page } = await visit(t, "/queues/contract/contract", { refusals: [409] });
  assert.ok((await page.locator("pre").first().innerText()).includes(SCRIPT));
  const text = page.getByLabel(/^Text of the .proto/);
  await text.fill(PROTO.replace("int64 total_cents = 2;", ""));
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await page.getByText("A registration would be refused").waitFor();
  assert.match(await page.locator("#candidate output").innerText(), /field-number-not-reserved/);
  await text.fill(PROTO.replace("string id = 1;", "string id = 1; string note = 20;"));
  await page.getByRole("button", { name: "Check", exact: true }).click();
  await page.getByText("It would be version 2, a new one.").waitFor();
  await page.getByRole("button", { name: "Register" }).click();
  await confirm(page, "contract");
  await notice(page, "Version 2 is active.");
  await page.getByRole("button", { name: "Show the difference" }).click();
  await page.waitForURL("**/contract/diff?from=1&to=2");
  assert.match(await page.locator(".diff .added").innerText(), /note = 20/);
  await page.getByRole("link", { name: "All versions" }).click();
  await page.getByRole("button", { name: "Roll back to v1" }).click();
  await confirm(page, "contract");
  // Version 1 lacks a field that version 2 has, and the rule wants it reserved.
  await page.locator("output[data-kind=bad]").getByText("breaks the rule").waitFor();
  await page.getByRole("button", { name: "Copy" }).first().click();
  await page.getByRole("button", { name: /Copied|Selected/ }).waitFor();
  await page.goto("/queues/contract/contract");
  await page.getByRole("button", { name: /^Retire/ }).click();
  await confirm(page, "contract");
  await notice(page, "is retired.");
  await page.getByRole("button", { name: "Delete the contract" }).click();
  await confirm(page, "contract");
  await notice(page, "The contract is gone.");
});

test("a queue is made, changed, emptied and deleted", async (t) => {
  const { page } = await visit(t, "/new", { refusals: [400, 404] });
  await page.getByLabel("Name").fill("made.here");
  await page.getByText(/^Options;/).click();
  await page.getByLabel("visibility_timeout_ms").fill("a while");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByText('"a while" is written as').waitFor();
  await page.getByLabel("visibility_timeout_ms").fill("90s");
  await page.getByRole("button", { name: "Create" }).click();
  await page.waitForURL("**/queues/made.here");
  assert.equal((await api("GET", "/queues/made.here")).options.visibility_timeout_ms, 90_000);
  await page.getByRole("link", { name: "Options" }).click();
  await page.getByLabel("max_deliveries").fill("0");
  await page.getByRole("button", { name: "Save changes" }).click();
  await page.getByText("visibility_timeout and max_deliveries are at least 1").waitFor();
  await page.getByLabel("max_deliveries").fill("9");
  await page.getByLabel("max_bytes").fill("64MiB");
  await page.getByRole("button", { name: "Save changes" }).click();
  await notice(page, "The options are changed.");
  const { options } = await api("GET", "/queues/made.here");
  assert.deepEqual([options.max_deliveries, options.max_bytes, options.visibility_timeout_ms], [9, 64 * 1024 * 1024, 90_000]);
  await publish("made.here", [{ payload_text: "1" }, { payload_text: "2" }]);
  await page.getByRole("button", { name: "Purge" }).click();
  await confirm(page, "made.here");
  await notice(page, "Purged: 2.");
  await page.getByRole("button", { name: "Delete" }).click();
  await confirm(page, "made.here");
  await page.waitForURL(`${broker.origin}/`);
  const gone = await page.goto("/queues/made.here");
  assert.equal(gone.status(), 404);
});

test("a group of a stream is moved and removed", async (t) => {
  await api("PUT", "/queues/log", { mode: "stream" });
  await publish("log", Array.from({ length: 9 }, () => ({ payload_text: "x" })));
  await api("PUT", "/queues/log/groups/readers", {});
  const { page } = await visit(t, "/queues/log");
  await page.getByLabel(/^to: beginning/).fill("offset=7");
  await page.getByRole("button", { name: "Move", exact: true }).click();
  await notice(page, "The group was moved.");
  // A tick from before the move may still be on its way; the next one is from after it.
  await page.waitForFunction(() => document.querySelector("[data-group=readers] [data-live=ack_floor]").textContent === "7");
  await page.getByRole("button", { name: "Remove the group readers" }).click();
  await confirm(page, "readers");
  await notice(page, "The group is gone.");
  await page.goto("/queues/log/messages?from=7");
  assert.equal(await page.locator(".entry").count(), 2);
});

test("what does not move is explained", async (t) => {
  const { page } = await visit(t, "/queues/orders");
  await page.getByLabel("Ask about a").selectOption("key");
  await page.getByLabel("Which", { exact: true }).fill("customer-6");
  await leads(page, () => page.getByRole("button", { name: "Explain" }).click());
  assert.match(await page.locator("main").innerText(), /key `customer-6`/);
  await page.getByLabel("Ask about a").selectOption("id");
  await page.getByLabel("Which", { exact: true }).fill(SCRIPT);
  await leads(page, () => page.getByRole("button", { name: "Explain" }).click());
  assert.ok((await page.locator(".violation").innerText()).includes(SCRIPT));
});

test("the theme is the visitor's, before and after a reload", async (t) => {
  const { page } = await visit(t, "/settings");
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.getByRole("button", { name: "Theme: auto" }).click();
  await page.getByRole("button", { name: "Theme: light" }).click();
  const dark = await ground();
  assert.notEqual(dark, light);
  await page.reload();
  assert.equal(await ground(), dark);
  assert.equal(await page.getByRole("button", { name: "Theme: dark" }).count(), 1);
});

test("everything can be reached by keyboard, and where one is can be seen", async (t) => {
  const { page } = await visit(t, "/queues/orders/dead-letters");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
  const reached = new Set();
  for (let presses = 0; presses < 40; presses++) {
    await page.keyboard.press("Tab");
    const { name, outline } = await page.evaluate(() => {
      const element = document.activeElement;
      return { name: `${element.tagName} ${element.textContent.trim().slice(0, 20)}`, outline: getComputedStyle(element).outlineStyle };
    });
    if (name.startsWith("BODY")) break;
    assert.notEqual(outline, "none", `${name} shows that it has the focus`);
    reached.add(name);
  }
  for (const name of ["A Queues", "BUTTON Redrive all of them", "BUTTON Purge all of them"]) assert.ok(reached.has(name), `${name} in ${[...reached]}`);
  await page.locator(".entry summary").first().focus();
  await page.keyboard.press("Enter");
  await page.locator(".entry textarea").first().waitFor();
  await page.getByRole("button", { name: "Purge all of them" }).focus();
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.closest("dialog")?.id), "confirm");
  await page.keyboard.press("Escape");
  assert.equal(await page.evaluate(() => document.activeElement.textContent.trim()), "Purge all of them", "focus goes back");
});
