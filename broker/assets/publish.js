// The publish page: a message as typed inputs or as JSON, checked by the broker before it is sent.

import { send } from "./api.js";
import { MessageForm } from "./message-form.js";
import { duration } from "./units.js";

export function startPublishing() {
  const page = document.getElementById("publish");
  if (page) new Publishing(page);
}

class Publishing {
  #page;
  #queue;
  #form = null;
  #json;
  #output;

  constructor(page) {
    this.#page = page;
    this.#queue = encodeURIComponent(page.dataset.queue);
    this.#json = page.querySelector("#json");
    this.#output = page.querySelector("output");
    const fields = page.querySelector("#fields");
    if (page.dataset.type) {
      this.#form = new MessageForm(fields, page.dataset.type);
      page.addEventListener("change", (event) => event.target.name === "mode" && this.#switched(event.target.value));
    }
    page.querySelector("#check").addEventListener("click", () => this.#run(() => this.#check()));
    page.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#run(() => this.#publish());
    });
    page.querySelector("#add-header").addEventListener("click", () => this.#addHeader());
    page.querySelector("#headers").addEventListener("click", (event) => {
      if (!event.target.closest("button[data-remove]")) return;
      event.target.closest("li").remove();
      page.querySelector("#add-header").focus();
    });
    for (const button of page.querySelectorAll("button")) button.disabled = false;
  }

  get #usesForm() {
    return this.#form !== null && this.#page.querySelector("[name=mode]:checked").value === "form";
  }

  /** Carries what was written over to the other view; stays when it cannot. */
  #switched(to) {
    this.#say("");
    const back = () => (this.#page.querySelector(`[name=mode][value=${to === "json" ? "form" : "json"}]`).checked = true);
    if (to === "json") {
      const read = this.#form.read();
      if (read.error) return back();
      this.#json.value = JSON.stringify(read.value, null, 2);
    } else {
      try {
        this.#form.write(JSON.parse(this.#json.value || "{}"));
      } catch (error) {
        back();
        return this.#say(`The form cannot show this: ${error.message}.`, "bad");
      }
    }
    this.#page.querySelector("#fields").hidden = to === "json";
    this.#page.querySelector("#json-view").hidden = to !== "json";
  }

  /** The message's body, or undefined after its error was shown. */
  #body() {
    if (this.#usesForm) {
      const read = this.#form.read();
      if (read.error) this.#say("One field cannot be sent as it is.", "bad");
      return read.value;
    }
    this.#json.removeAttribute("aria-invalid");
    try {
      return JSON.parse(this.#json.value);
    } catch (error) {
      this.#json.setAttribute("aria-invalid", "true");
      this.#json.focus();
      this.#say(`This is not JSON: ${error.message}.`, "bad");
      return undefined;
    }
  }

  async #run(action) {
    const buttons = [...this.#page.querySelectorAll(".send button")];
    buttons.forEach((button) => (button.disabled = true));
    try {
      await action();
    } catch (problem) {
      this.#refused(problem);
    } finally {
      buttons.forEach((button) => (button.disabled = false));
    }
  }

  async #check() {
    const content = this.#content();
    if (content === undefined) return;
    await this.#validated(content);
    this.#say(this.#form ? "The contract accepts it. Nothing was sent." : "There is no contract to check it by. Nothing was sent.");
  }

  async #publish() {
    const content = this.#content();
    if (content === undefined) return;
    const message = { ...content, ...this.#envelope() };
    await this.#validated(content);
    const answer = await send("POST", `/api/v1/queues/${this.#queue}/messages`, message);
    this.#say(receipt(answer), answer.dead_lettered ? "bad" : "good");
  }

  /** `body` by the contract; without one the bytes of the text. */
  #content() {
    if (this.#form) {
      const body = this.#body();
      return body === undefined ? undefined : { body };
    }
    return { payload_text: this.#json.value };
  }

  async #validated(content) {
    if (this.#form) await send("POST", `/api/v1/schemas/${this.#queue}/validate`, content);
  }

  #envelope() {
    const envelope = {};
    for (const control of this.#page.querySelectorAll("[data-envelope]")) {
      if (control.value === "") continue;
      try {
        envelope[control.name] = control.dataset.type === "duration" ? duration(control.value) : control.value;
      } catch (error) {
        control.focus();
        throw error;
      }
    }
    const headers = [...this.#page.querySelectorAll("#headers > li")].map((item) => [...item.querySelectorAll("input")].map((input) => input.value));
    if (headers.length > 0) envelope.headers = Object.fromEntries(headers);
    return envelope;
  }

  #addHeader() {
    const item = document.getElementById("header-row").content.firstElementChild.cloneNode(true);
    this.#page.querySelector("#headers").append(item);
    item.querySelector("input").focus();
  }

  #refused(problem) {
    const path = problem.body?.details?.path ?? "";
    if (path !== "" && this.#usesForm && this.#form.showError(path, problem.message)) {
      this.#say(`Not sent: ${path} breaks the contract.`, "bad");
    } else {
      if (path !== "") this.#json.setAttribute("aria-invalid", "true");
      this.#say(problem.message ?? String(problem), "bad");
    }
  }

  #say(text, kind = "good") {
    this.#output.dataset.kind = kind;
    this.#output.textContent = text;
  }
}

/** What became of the message, in words. */
function receipt({ id, seq, duplicate, durability, dead_lettered }) {
  if (duplicate) return `A duplicate: ${id} was published with this key before. Nothing was stored.`;
  if (dead_lettered) return `It breaks the contract and went to the dead letters: ${dead_lettered.detail}`;
  if (seq === null || seq === undefined) return `Published ${id}, delayed, durable by ${durability}.`;
  return `Published as ${seq}, id ${id}, durable by ${durability}.`;
}
