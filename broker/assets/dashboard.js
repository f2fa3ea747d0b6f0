// What every page has: theme, copying, and forms that act on the broker.
//
// A form with data-method and data-path is sent to the API as JSON; its answer is said in its own <output>, then the page's
// <main> is fetched anew. Everything is delegated from the document, so that what is fetched anew works too.

import { send } from "./api.js";
import { startCandidates } from "./candidate.js";
import { confirmed } from "./confirm.js";
import { startLive } from "./live.js";
import { done, say } from "./page.js";
import { startPublishing } from "./publish.js";
import { startLetters } from "./letters.js";
import * as units from "./units.js";

const THEMES = ["auto", "light", "dark"];

function theme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function showTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  const button = document.getElementById("theme");
  if (button) button.textContent = `Theme: ${name}`;
}

/** What a form's controls say, as JSON; with data-changed only those that were changed. */
function collected(form) {
  const body = {};
  for (const control of form.elements) {
    if (!control.name || control.disabled) continue;
    if (control.type === "checkbox") {
      if (control.checked) body[control.name] = true;
      continue;
    }
    const initial = control.dataset.initial ?? "";
    if (form.hasAttribute("data-changed") ? control.value === initial : control.value === "") continue;
    const read = units[control.dataset.type];
    try {
      body[control.name] = read ? read(control.value) : control.value;
    } catch (error) {
      control.focus();
      throw error;
    }
  }
  return body;
}

/** `/api/v1/queues/{name}`: what stands in braces is taken out of the body. */
function filled(path, body) {
  return path.replace(/\{(\w+)\}/g, (_, name) => {
    const value = body[name] ?? "";
    delete body[name];
    return encodeURIComponent(value);
  });
}

/** `Removed {messages} messages`, with what the answer has. */
function sentence(template, answer) {
  return template.replace(/\{(\w+)\}/g, (_, name) => String(answer?.[name] ?? 0));
}

async function act(form, submitter) {
  const data = { ...form.dataset, ...submitter?.dataset };
  if (data.confirm && !(await confirmed(data.confirm, data.confirmText ?? ""))) return;
  const output = form.querySelector("output");
  const buttons = [...form.querySelectorAll("button")].filter((button) => !button.disabled);
  try {
    const body = collected(form);
    const path = filled(data.path, body);
    buttons.forEach((button) => (button.disabled = true));
    const answer = await send(data.method, path, body);
    if (data.then?.startsWith("/")) return location.assign(data.then.replace("{name}", encodeURIComponent(answer?.name ?? "")));
    await done(sentence(data.done ?? "Done.", answer));
  } catch (problem) {
    if (output) {
      output.dataset.kind = "bad";
      output.textContent = problem.message;
    } else {
      say(problem.message, "bad");
    }
    const named = problem.body?.details?.field;
    if (named) form.elements[named]?.focus();
  } finally {
    buttons.forEach((button) => (button.disabled = false));
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.path && !event.submitter?.dataset.path) return;
  event.preventDefault();
  act(form, event.submitter);
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.id === "theme") {
    const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
    document.cookie = `qwerq-theme=${next}; Path=/; Max-Age=31536000; SameSite=Strict`;
    showTheme(next);
  } else if (button.hasAttribute("data-copy")) {
    const text = button.closest(".command").querySelector("pre").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // Without a secure context there is no clipboard: the text is selected instead.
      getSelection().selectAllChildren(button.closest(".command").querySelector("pre"));
      button.textContent = "Selected";
    }
    // It says so until the visitor goes on; not every browser gives a clicked button the focus.
    button.focus();
    button.addEventListener("blur", () => (button.textContent = "Copy"), { once: true });
  } else if (button.id === "sign-out") {
    await send("POST", "/api/v1/logout").catch(() => {});
    location.assign("/login");
  }
});

showTheme(theme());
startLive();
startPublishing();
startLetters();
startCandidates();
