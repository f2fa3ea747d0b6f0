// The contract page's form: a .proto that was pasted is checked against the queue's rule, or registered.

import { send } from "./api.js";
import { confirmed } from "./confirm.js";
import { refresh, say } from "./page.js";

export function startCandidates() {
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "candidate") return;
    event.preventDefault();
    judge(event.target, event.submitter?.value ?? "check");
  });
}

async function judge(form, verb) {
  const queue = form.dataset.queue;
  const { message_type, reply_type, path, text } = Object.fromEntries(new FormData(form));
  const body = { message_type, files: [{ path, text }] };
  if (reply_type !== "") body.reply_type = reply_type;
  const output = form.querySelector("output");
  const buttons = [...form.querySelectorAll("button")];
  if (verb === "register" && !(await confirmed(queue, "This becomes the queue's active contract, if it keeps the rule. Type the queue's name to go on:"))) return;
  buttons.forEach((button) => (button.disabled = true));
  try {
    const suffix = verb === "check" ? "/check" : "";
    const answer = await send("POST", `/api/v1/schemas/${encodeURIComponent(queue)}${suffix}`, body);
    if (verb === "register") {
      say(`Version ${answer.version?.version ?? answer.version} is active.`);
      await refresh();
    } else {
      show(output, answer);
    }
  } catch (problem) {
    show(output, { refused: true, findings: problem.body?.findings ?? [] }, problem.message);
  } finally {
    buttons.forEach((button) => (button.disabled = false));
  }
}

/** A verdict with what it found, one line each. */
function show(output, verdict, sentence) {
  output.dataset.kind = verdict.refused ? "bad" : "good";
  const rule = verdict.compatibility ? ` ${verdict.compatibility}` : "";
  const text = sentence ?? (verdict.refused ? `A registration would be refused: it breaks the rule${rule}.` : `It keeps the rule${rule}.`);
  const head = document.createElement("p");
  head.textContent = text;
  const list = document.createElement("ul");
  for (const finding of verdict.findings ?? []) list.append(item(finding));
  output.replaceChildren(head, list);
}

function item(finding) {
  const line = document.createElement("li");
  const where = [finding.new_place || finding.old_place, finding.path].filter(Boolean).join(" ");
  const change = [finding.before, finding.after].filter(Boolean).join(" → ");
  line.textContent = `${finding.rule}: ${[where, change, finding.what, finding.instead].filter(Boolean).join(" · ")}`;
  return line;
}
