// The dead letter page: redrive and purge one, some or all, and redrive a letter with another payload.

import { Problem, send } from "./api.js";
import { confirmed } from "./confirm.js";
import { done, say } from "./page.js";

export function startLetters() {
  document.addEventListener("click", clicked);
  document.addEventListener("change", picked);
  document.addEventListener("qwerq:refreshed", picked);
  picked();
}

const page = () => document.getElementById("letters");
const boxes = () => [...page().querySelectorAll("input[name=letter]")];
const picks = () => boxes().filter((box) => box.checked);

/** How many are picked decides what the buttons say and whether they can be pressed. */
function picked(event) {
  if (!page()) return;
  if (event?.target?.name === "form") written(event.target);
  if (event?.target?.id === "pick-all") boxes().forEach((box) => (box.checked = event.target.checked));
  const count = picks().length;
  const all = document.getElementById("pick-all");
  if (all) all.checked = count > 0 && count === boxes().length;
  for (const button of page().querySelectorAll("[data-some]")) {
    button.disabled = count === 0;
    button.textContent = `${button.dataset.some} ${count === 0 ? "selected" : `${count} selected`}`;
  }
}

/** A payload that its contract cannot read may be written anew as JSON. */
function written(select) {
  const area = select.closest("[data-id]").querySelector("textarea");
  area.dataset.form = select.value;
  area.value = select.value === "json" ? "{}" : area.defaultValue;
}

async function clicked(event) {
  const button = event.target.closest("button[data-letters]");
  if (!button || !page()) return;
  const { letters: verb, scope } = button.dataset;
  const queue = page().dataset.queue;
  const entry = button.closest("[data-id]");
  if (verb === "purge" && !(await confirmed(queue, purgeWords(scope)))) return;
  button.disabled = true;
  try {
    const choices = chosen(scope, entry);
    await done(verb === "purge" ? await purge(queue, choices) : await redrive(queue, choices, target(), edited(scope, entry)));
  } catch (problem) {
    const path = problem.body?.details?.path;
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

/** The choices as the API takes them. A message is one dead letter in each group that gave it up, so letters go group by group. */
function chosen(scope, entry) {
  if (scope === "all") return [JSON.parse(page().dataset.filter)];
  const entries = scope === "some" ? picks().map((box) => box.closest("[data-id]")) : [entry];
  const groups = Map.groupBy(entries, (one) => one.dataset.group);
  return [...groups].map(([group, letters]) => ({ ids: letters.map((one) => one.dataset.id), ...(group === "" ? {} : { group }) }));
}

function purgeWords(scope) {
  if (scope === "all") return "This removes every dead letter that the filter shows, on all pages. Type the queue's name to go on:";
  const count = scope === "some" ? picks().length : 1;
  return `This removes ${count === 1 ? "one dead letter" : `${count} dead letters`} for good. Type the queue's name to go on:`;
}

/** The payload in place of the letter's own, as JSON or as text. */
function edited(scope, entry) {
  if (scope !== "edited") return {};
  const area = entry.querySelector("textarea");
  if (area.dataset.form === "base64") return { payload_base64: area.value.trim() };
  if (area.dataset.form === "text") return { payload_text: area.value };
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

async function redrive(queue, choices, where, payload) {
  let [redriven, refused, refusal] = [0, 0, null];
  for (const choice of choices) {
    const answer = await send("POST", `/api/v1/queues/${encodeURIComponent(queue)}/dlq/redrive`, { ...choice, ...where, ...payload });
    redriven += answer.redriven;
    refused += answer.refused;
    refusal ??= answer.refusal;
  }
  if (refused > 0 && redriven === 0) throw new Problem(422, refusal);
  return refused === 0 ? `Redriven: ${redriven}.` : `Redriven: ${redriven}. Refused and kept: ${refused}, the first because ${refusal?.detail}`;
}

async function purge(queue, choices) {
  let purged = 0;
  for (const choice of choices) purged += (await send("POST", `/api/v1/queues/${encodeURIComponent(queue)}/dlq/purge`, choice)).purged;
  return `Purged: ${purged}.`;
}
