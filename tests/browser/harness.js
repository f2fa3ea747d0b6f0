// A browser for tests: the system's Chromium, driven by playwright-core. Every page is watched: what its console, its scripts or its
// network complain about fails the test that opened it, so that a policy which blocks something never goes unseen.
//
// tests/support/browser.rs starts the broker and these tests, and says in the environment where things are.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after } from "node:test";

import { chromium } from "playwright-core";

const require = createRequire(import.meta.url);

/** Where the broker under test is. */
export const broker = {
  /** `host:port` of the protocol. */
  address: process.env.QWERQ_BROKER ?? "",
  /** `host:port` of HTTP. */
  http: process.env.QWERQ_HTTP ?? "",
  /** The broker's token; empty when it has none. */
  token: process.env.QWERQ_TOKEN ?? "",
  /** The page's origin. */
  get origin() {
    return `http://${this.http}`;
  },
};

/** How long anything is waited for, in milliseconds: an end to a test that would wait for ever, however busy the machine is. */
const PATIENCE_MS = 300_000;

let running;

/** The one browser of a test file. Its profile is new and empty; it goes with the file. */
async function browser() {
  running ??= chromium.launch({
    executablePath: process.env.QWERQ_CHROMIUM ?? "/usr/bin/chromium",
    headless: true,
    chromiumSandbox: false,
    timeout: PATIENCE_MS,
    args: [
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
  return running;
}

after(async () => {
  await (await running)?.close();
});

/**
 * Opens a page with an own set of cookies, and closes it with the test.
 *
 * `complaints` of the result holds what went wrong so far. The test fails if anything is left in it at its end, so one that provokes
 * a complaint takes it out. Refusals are said beforehand: the console may tell of one only after the page has shown it.
 *
 * @param t the test's context
 * @param options `width`, `height`, `scheme` ("light" or "dark"), `refusals` (the HTTP statuses that the test provokes), and
 *   whatever else playwright's newContext takes
 */
export async function newPage(t, options = {}) {
  const { width = 1280, height = 800, scheme = "light", refusals = [], ...others } = options;
  const context = await (await browser()).newContext({ viewport: { width, height }, colorScheme: scheme, baseURL: broker.origin, ...others });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => {
    // Leaving a page ends the connection that it was still making.
    if (message.text().endsWith("WebSocket is closed before the connection is established.")) return;
    if (refusals.some((status) => message.text().includes(`responded with a status of ${status} `))) return;
    if (message.type() === "error" || message.type() === "warning") {
      complaints.push(`console: ${message.text()}`);
    }
  });
  page.on("pageerror", (error) => complaints.push(`script: ${error.message}`));
  page.on("requestfailed", (request) => {
    // Leaving a page ends what it was still asking for.
    if (request.failure()?.errorText !== "net::ERR_ABORTED") {
      complaints.push(`network: ${request.url()} ${request.failure()?.errorText}`);
    }
  });
  t.after(async () => {
    await context.close();
    assert.deepEqual(complaints, [], "the page complained");
  });
  return { page, context, complaints };
}

/**
 * Does what leads to another page, and waits until that page is there: what comes next is read from it and not from the one before.
 *
 * @param act what is done, such as the click on a link
 */
export async function leads(page, act) {
  const loaded = page.waitForEvent("load");
  // If the act fails nobody waits for the page any more.
  loaded.catch(() => {});
  await act();
  await loaded;
}

/** What axe-core finds wrong with the page as it is now: one line for each place. */
export async function axeViolations(page) {
  const source = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
  // Colours that are on their way to others are nobody's.
  await page.evaluate(() => Promise.allSettled(document.getAnimations().map((animation) => animation.finished)));
  // By way of the debugger, which the page's content security policy does not concern.
  await page.evaluate(source);
  const { violations } = await page.evaluate(() => globalThis.axe.run());
  return violations.flatMap(({ id, help, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html} ${failureSummary}`));
}

/** How far the page can be scrolled sideways, in pixels; 0 is what one wants. */
export async function sidewaysScroll(page) {
  return page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
}
