// Live numbers: the events of /api/v1/ws (docs/events.md) into the elements that wait for them.
//
// An element with data-queue, and within it those with data-live, show that queue; data-group within data-queue a group of it; data-total
// what all queues have; data-troubles within a row what is wrong with its queue. Columns and lines are fixed, so nothing moves.

import { draw } from "./spark.js";

const RATES = ["published", "delivered", "acked"];
const HISTORY = 60;
const RETRY_MIN_MS = 1_000;
const RETRY_MAX_MS = 30_000;

export function startLive() {
  if (document.getElementById("live")) new Live().connect();
}

class Live {
  #socket = null;
  #retry = RETRY_MIN_MS;
  /** Counts of a second ago, and the steps since, by queue and count; "" stands for all queues. */
  #before = new Map();
  #steps = new Map();

  constructor() {
    document.addEventListener("qwerq:refreshed", () => this.#ask());
    // A page that nobody sees costs nothing.
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#socket?.close() : this.connect()));
  }

  connect() {
    if (this.#socket || document.hidden) return;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/api/v1/ws`);
    this.#socket = socket;
    socket.addEventListener("open", () => {
      this.#retry = RETRY_MIN_MS;
      this.#ask();
    });
    socket.addEventListener("message", ({ data }) => this.#event(JSON.parse(data)));
    socket.addEventListener("close", () => {
      this.#socket = null;
      this.#before.clear();
      if (document.hidden) return this.#say("off", "Not live");
      this.#say("lost", "Not live");
      setTimeout(() => this.connect(), this.#retry);
      this.#retry = Math.min(this.#retry * 2, RETRY_MAX_MS);
    });
  }

  /** Asks for the queues that the page shows. */
  #ask() {
    if (this.#socket?.readyState !== WebSocket.OPEN) return;
    const named = (selector, name) => [...new Set([...document.querySelectorAll(selector)].map((element) => element.dataset[name]))];
    const watch = { top: 0, queues: named("[data-queue]", "queue"), groups: named("[data-groups-of]", "groupsOf") };
    this.#socket.send(JSON.stringify({ watch }));
  }

  #say(state, text) {
    const element = document.getElementById("live");
    // Said only when it changes: a screen reader is not told every second.
    if (element.dataset.state === state) return;
    element.dataset.state = state;
    element.textContent = text;
  }

  #event(event) {
    if (event.type === "snapshot" || event.type === "tick") this.#show(event);
    else if (event.type === "schema") this.#schema(event);
  }

  #show({ at_ms, totals, queues }) {
    this.#say("live", "Live");
    for (const queue of queues) this.#keep(queue.name, at_ms, queue.counts);
    for (const element of document.querySelectorAll("[data-total]")) this.#total(element, totals, at_ms);
    const byName = new Map(queues.map((queue) => [queue.name, queue]));
    for (const element of document.querySelectorAll("[data-queue]")) {
      const queue = byName.get(element.dataset.queue);
      if (queue) this.#queue(element, queue);
    }
    for (const table of document.querySelectorAll("[data-groups-of]")) {
      for (const group of byName.get(table.dataset.groupsOf)?.groups ?? []) {
        const row = [...table.querySelectorAll("[data-group]")].find((one) => one.dataset.group === group.name);
        if (row) fill(row, (name) => count(group[name]));
      }
    }
  }

  /** What each count rose by, a second. */
  #keep(name, at_ms, counts) {
    const before = this.#before.get(name);
    this.#before.set(name, { at_ms, counts });
    if (!before || at_ms <= before.at_ms) return;
    const seconds = (at_ms - before.at_ms) / 1000;
    for (const key of RATES) this.#step(`${name} ${key}`, Math.max(0, counts[key] - before.counts[key]) / seconds);
  }

  #step(key, value) {
    const steps = this.#steps.get(key) ?? [];
    steps.push(value);
    this.#steps.set(key, steps.slice(-HISTORY));
  }

  #total(element, totals) {
    const key = element.dataset.total;
    if (RATES.includes(key)) {
      fill(element, () => rate(totals.rates[key]));
      this.#step(` ${key}`, totals.rates[key]);
      const spark = element.querySelector("[data-spark]");
      if (spark) draw(spark, this.#steps.get(` ${key}`));
    } else {
      fill(element, () => count(totals[key]));
    }
  }

  #queue(element, queue) {
    const troubles = element.querySelector("[data-troubles]");
    if (troubles) showTroubles(element, troubles, queue.troubles);
    fill(element, (name) => {
      if (name in queue.rates) return rate(queue.rates[name]);
      return name === "bytes" ? bytes(queue.bytes) : count(queue[name]);
    });
    element.toggleAttribute("data-grows", queue.rates.dead_lettered > 0);
    for (const spark of element.querySelectorAll("[data-spark]")) {
      draw(spark, this.#steps.get(`${queue.name} ${spark.dataset.spark || "published"}`) ?? []);
    }
  }

  #schema({ queue, version }) {
    for (const element of document.querySelectorAll("[data-version-of]")) {
      if (element.dataset.versionOf !== queue) continue;
      element.hidden = false;
      element.textContent = version === 0 ? "The contract was deleted meanwhile." : `Version ${version} became active meanwhile.`;
    }
  }
}

/** Writes into the elements within `root` that show something, and only where it differs. */
function fill(root, textOf) {
  const elements = root.hasAttribute("data-live") ? [root] : root.querySelectorAll("[data-live]");
  for (const element of elements) {
    const text = textOf(element.dataset.live);
    if (text !== undefined && element.textContent !== text) element.textContent = text;
  }
}

/** What is wrong with a row's queue, in one line as queue_table.html prints it: its height stays, whatever goes wrong. */
function showTroubles(row, place, [worst, ...others]) {
  if (worst) row.dataset.trouble = worst.severity;
  else delete row.dataset.trouble;
  const rest = others.map(({ text }) => text).join(", ");
  const shown = `${worst?.text ?? ""} | ${rest}`;
  if (place.dataset.troubles === shown) return;
  place.dataset.troubles = shown;
  place.replaceChildren(worst ? span(`tag ${worst.severity}`, worst.text) : span("calm", "none"));
  if (others.length === 0) return;
  const more = span("tag more", `+${others.length}`);
  more.title = rest;
  more.append(span("visually-hidden", ` more: ${rest}`));
  place.append(more);
}

function span(className, text) {
  const element = document.createElement("span");
  element.className = className;
  element.textContent = text;
  return element;
}

// The forms are those of quantity.rs.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function count(number) {
  return number === undefined ? undefined : whole.format(number);
}

function rate(number) {
  return number > 0 && number < 9.95 ? number.toFixed(1) : whole.format(number);
}

function bytes(number) {
  const units = ["KiB", "MiB", "GiB", "TiB", "PiB"];
  if (number < 1024) return `${number} B`;
  let [value, unit] = [number / 1024, 0];
  while (value >= 1024 && unit + 1 < units.length) [value, unit] = [value / 1024, unit + 1];
  return `${(Math.floor(value * 10) / 10).toFixed(1)} ${units[unit]}`;
}
