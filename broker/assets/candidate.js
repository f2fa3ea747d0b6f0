// The contract page's form: a .proto that was pasted is checked against the queue's rule, or registered.

import { send } from "./api.js";
import { confirmed } from "./confirm.js";
import { done } from "./page.js";

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
  const output = form.querySelector("output");
  const buttons = [...form.querySelectorAll("button")];
  if (verb === "register" && !(await confirmed(queue, "This becomes the queue's active contract, if it keeps the rule. Type the queue's name to go on:"))) return;
  buttons.forEach((button) => (button.disabled = true));
  try {
    const body = { message_type, root: path, files: { ...(await imports(queue)), [path]: text } };
    if (reply_type !== "") body.reply_type = reply_type;
    const suffix = verb === "check" ? "/check" : "";
    const answer = await send("POST", `/api/v1/schemas/${encodeURIComponent(queue)}${suffix}`, body);
    if (verb === "register") {
      await done(`Version ${answer.version} is active.`);
    } else {
      show(output, answer);
    }
  } catch (problem) {
    show(output, { allowed: false }, problem.message);
  } finally {
    buttons.forEach((button) => (button.disabled = false));
  }
}

/** The files of the active version, for what the pasted one imports; none on a queue without a contract. */
async function imports(queue) {
  try {
    const { sources } = await send("GET", `/api/v1/schemas/${encodeURIComponent(queue)}/versions/active`);
    return Object.fromEntries(sources.filter((file) => !file.path.startsWith("google/protobuf/")).map((file) => [file.path, file.text]));
  } catch (problem) {
    if (problem.status === 404) return {};
    throw problem;
  }
}

/** A verdict with what it found, one line each. */
function show(output, verdict, sentence) {
  output.dataset.kind = verdict.allowed ? "good" : "bad";
  const what = verdict.existed ? `version ${verdict.version}, which is known` : `version ${verdict.version}, a new one`;
  const allowed = `It keeps the rule ${verdict.compatibility}. It would be ${what}.`;
  const head = document.createElement("p");
  head.textContent = sentence ?? (verdict.allowed ? allowed : `A registration would be refused: it breaks the rule ${verdict.compatibility}.`);
  const list = document.createElement("ul");
  for (const finding of [...(verdict.breaks ?? []), ...(verdict.warnings ?? [])]) list.append(item(finding));
  output.replaceChildren(head, list);
}

function item(finding) {
  const line = document.createElement("li");
  const where = [finding.new_place || finding.old_place, finding.path].filter(Boolean).join(" ");
  const change = [finding.before, finding.after].filter(Boolean).join(" → ");
  line.textContent = `${finding.rule}: ${[where, change, finding.what, finding.instead].filter(Boolean).join(" · ")}`;
  return line;
}
