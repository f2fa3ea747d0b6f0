// The dead letter page: redrive and purge one, some or all, and redrive a letter with another payload.

import { send } from "./api.js";
import { confirmed } from "./confirm.js";
import { refresh, say } from "./page.js";

export function startLetters() {
  document.addEventListener("click", clicked);
  document.addEventListener("change", picked);
  document.addEventListener("qwerq:refreshed", picked);
  picked();
}

const page = () => document.getElementById("letters");
const boxes = () => [...page().querySelectorAll("input[name=letter]")];

/** How many are picked decides what the buttons say and whether they can be pressed. */
function picked(event) {
  if (!page()) return;
  if (event?.target?.id === "pick-all") boxes().forEach((box) => (box.checked = event.target.checked));
  const count = boxes().filter((box) => box.checked).length;
  const all = document.getElementById("pick-all");
  if (all) all.checked = count > 0 && count === boxes().length;
  for (const button of page().querySelectorAll("[data-some]")) {
    button.disabled = count === 0;
    button.textContent = `${button.dataset.some} ${count === 0 ? "selected" : `${count} selected`}`;
  }
}

async function clicked(event) {
  const button = event.target.closest("button[data-letters]");
  if (!button || !page()) return;
  const { letters: verb, scope } = button.dataset;
  const queue = page().dataset.queue;
  const entry = button.closest("[data-id]");
  const choices = chosen(scope, entry);
  if (verb === "purge" && !(await confirmed(queue, purgeWords(scope, choices)))) return;
  button.disabled = true;
  try {
    say(verb === "purge" ? await purge(queue, choices) : await redrive(queue, choices, target(), edited(scope, entry)));
    await refresh();
  } catch (problem) {
    const path = problem.body?.details?.path ?? problem.body?.path;
    const output = entry?.querySelector("output");
    const text = path ? `${path}: ${problem.message}` : problem.message;
    if (output) {
      output.dataset.kind = "bad";
      output.textContent = text;
      if (scope === "edited") entry.querySelector("textarea").focus();
    } else {
      say(text, "bad");
    }
  } finally {
    button.disabled = false;
  }
}

/** The filters that together name the letters that are meant. */
function chosen(scope, entry) {
  if (scope === "some") {
    return boxes()
      .filter((box) => box.checked)
      .map((box) => ({ id: box.value }));
  }
  if (scope === "all") return [{ ...JSON.parse(page().dataset.filter) }];
  return [{ id: entry.dataset.id }];
}

function purgeWords(scope, choices) {
  if (scope === "all") return "This removes every dead letter that the filter shows, on all pages. Type the queue's name to go on:";
  return `This removes ${choices.length === 1 ? "one dead letter" : `${choices.length} dead letters`} for good. Type the queue's name to go on:`;
}

/** The payload in place of the letter's own, as JSON or as text. */
function edited(scope, entry) {
  if (scope !== "edited") return {};
  const area = entry.querySelector("textarea");
  if (area.dataset.form === "base64") return { payload_base64: area.value.trim() };
  if (area.dataset.form === "text") {
    const bytes = new TextEncoder().encode(area.value);
    return { payload_base64: btoa(String.fromCharCode(...bytes)) };
  }
  try {
    return { body: JSON.parse(area.value) };
  } catch (error) {
    throw new Error(`this is not JSON: ${error.message}`);
  }
}

/** Where redriven letters go: back to their groups, to all groups, or to another queue. */
function target() {
  const to = page().querySelector("[name=to]")?.value.trim() ?? "";
  if (to !== "") return { to };
  return page().querySelector("[name=all_groups]")?.checked ? { all_groups: true } : {};
}

/** The broker looks at a bounded number of letters at a time and says where to go on. */
async function each(path, choices, further, take) {
  for (const choice of choices) {
    let next = 0;
    do {
      const answer = await send("POST", path, { ...choice, ...further, ...(next ? { from_seq: next } : {}) });
      take(answer);
      next = answer.next_seq;
    } while (next !== undefined && next !== null);
  }
}

async function redrive(queue, choices, where, payload) {
  let [done, refused, why] = [0, 0, ""];
  await each(`/api/v1/queues/${encodeURIComponent(queue)}/dlq/redrive`, choices, { ...where, ...payload }, (answer) => {
    done += Number(answer.redriven ?? 0);
    refused += Number(answer.refused ?? 0);
    why ||= answer.refusal?.detail ?? answer.refusal?.message ?? "";
  });
  if (refused > 0 && done === 0) throw new Error(why);
  return refused === 0 ? `Redriven: ${done}.` : `Redriven: ${done}. Refused and kept: ${refused}, the first because ${why}`;
}

async function purge(queue, choices) {
  let done = 0;
  await each(`/api/v1/queues/${encodeURIComponent(queue)}/dlq/purge`, choices, {}, (answer) => (done += Number(answer.messages ?? answer.purged ?? 0)));
  return `Purged: ${done}.`;
}
