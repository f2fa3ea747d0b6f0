// A message as typed inputs: builds them from the page's <template>s, one for each message type that the contract reaches,
// reads them as protobuf JSON, fills them from it, and shows an error at the field that its path names.
//
// It knows nothing of queues or of the API; publish.js does.

const RANGES = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
};

/** A value that its field cannot take; `element` is the input. */
class Unfit extends Error {
  constructor(element, message) {
    super(message);
    this.element = element;
  }
}

export class MessageForm {
  #root;
  #type;

  /** Builds the inputs of message type `type` into `root`. */
  constructor(root, type) {
    this.#root = root;
    this.#type = type;
    root.addEventListener("click", (event) => this.#clicked(event));
    root.addEventListener("change", (event) => this.#changed(event));
    this.clear();
  }

  clear() {
    this.#root.replaceChildren(fields(this.#type));
  }

  /** What the inputs say, or the error of the first that cannot be, shown at its field. */
  read() {
    this.clearErrors();
    try {
      return { value: readMessage(this.#root) };
    } catch (error) {
      if (!(error instanceof Unfit)) throw error;
      mark(error.element, error.message);
      return { error: error.message };
    }
  }

  /** Fills the inputs from protobuf JSON; says what there is no input for. */
  write(value) {
    this.clear();
    writeMessage(this.#root, value, "");
  }

  clearErrors() {
    for (const error of this.#root.querySelectorAll(".field-error")) error.remove();
    for (const control of this.#root.querySelectorAll("[aria-invalid]")) {
      control.removeAttribute("aria-invalid");
      control.removeAttribute("aria-describedby");
    }
  }

  /** Shows `message` at the field that `path` names, or as near as it gets; false when nothing of the path is here. */
  showError(path, message) {
    this.clearErrors();
    const place = locate(this.#root, path);
    if (!place) return false;
    mark(place, message);
    return true;
  }

  #clicked(event) {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.hasAttribute("data-add")) {
      const item = add(button.closest("[data-field]"));
      item.querySelector("input, select, textarea, button")?.focus();
    } else if (button.hasAttribute("data-remove")) {
      const field = button.closest("[data-field]");
      button.closest("li").remove();
      field.querySelector("button[data-add]").focus();
    } else if (button.hasAttribute("data-set")) {
      const value = button.closest(".value");
      if (isSet(value)) unset(value);
      else open(value).querySelector("input, select, textarea, button")?.focus();
    }
  }

  #changed(event) {
    const chooser = event.target.closest("select[data-choose]");
    if (chooser) choose(chooser.closest("[data-choice]"), chooser.value);
  }
}

function fields(type) {
  const template = [...document.querySelectorAll("template[data-message]")].find((one) => one.dataset.message === type);
  return template.content.cloneNode(true);
}

/** The fields that stand directly in a message's body, those of its oneofs included. */
function fieldsOf(body) {
  return [...body.children].flatMap((child) =>
    child.hasAttribute("data-choice") ? [...child.querySelectorAll(":scope > [data-field]")] : child.hasAttribute("data-field") ? [child] : [],
  );
}

function fieldNamed(body, name) {
  return fieldsOf(body).find((field) => field.dataset.name === name || field.dataset.json === name);
}

/** Shows the member `name` of a oneof and hides the others, which are then not sent. */
function choose(choice, name) {
  for (const field of choice.querySelectorAll(":scope > [data-field]")) {
    field.hidden = field.dataset.name !== name;
    const value = field.querySelector(":scope > .value[data-kind=message]");
    if (!field.hidden && value && !isSet(value)) open(value);
  }
  choice.querySelector("select[data-choose]").value = name;
}

function add(field) {
  const item = field.querySelector(":scope > template").content.firstElementChild.cloneNode(true);
  field.querySelector(":scope > .items").append(item);
  const value = item.querySelector(":scope > .value");
  if (value.dataset.kind === "message") open(value);
  return item;
}

function isSet(value) {
  return value.hasAttribute("data-is-set");
}

function open(value) {
  const body = value.querySelector(":scope > .nest");
  body.replaceChildren(fields(value.dataset.type));
  body.hidden = false;
  value.setAttribute("data-is-set", "");
  const button = value.querySelector(":scope > button[data-set]");
  if (button) button.textContent = button.dataset.clear;
  return body;
}

function unset(value) {
  const body = value.querySelector(":scope > .nest");
  body.replaceChildren();
  body.hidden = true;
  value.removeAttribute("data-is-set");
  const button = value.querySelector(":scope > button[data-set]");
  button.textContent = button.dataset.open;
  button.focus();
}

// Reading

function readMessage(body) {
  const message = {};
  for (const field of fieldsOf(body)) {
    if (field.hidden) continue;
    const value = readField(field);
    if (value !== undefined) message[field.dataset.json] = value;
    else if (field.parentElement.hasAttribute("data-choice")) message[field.dataset.json] = chosenDefault(field);
  }
  return message;
}

/** A chosen member of a oneof is sent although it has its default: that it is chosen is what it says. */
function chosenDefault(field) {
  const kind = valueOf(field).dataset.kind;
  if (kind === "message") return {};
  if (kind === "bool") return false;
  if (kind === "string" || kind === "bytes" || kind === "fieldmask") return "";
  if (kind in RANGES || kind === "float" || kind === "double") return 0;
  if (kind === "enum") return 0;
  throw new Unfit(controlOf(field), "the chosen field needs a value");
}

function valueOf(field) {
  return field.querySelector(".value");
}

function controlOf(element) {
  return element.matches("input, select, textarea") ? element : (element.querySelector("input, select, textarea") ?? element.querySelector("button"));
}

function readField(field) {
  switch (field.dataset.card) {
    case "many": {
      const items = [...field.querySelectorAll(":scope > .items > li > .value")];
      return items.length === 0 ? undefined : items.map((value) => readValue(value) ?? emptyItem(value));
    }
    case "map": {
      const items = [...field.querySelectorAll(":scope > .items > li")];
      const map = {};
      for (const item of items) {
        const key = item.querySelector(":scope > .key");
        const name = String(readValue(key) ?? emptyItem(key));
        if (Object.hasOwn(map, name)) throw new Unfit(controlOf(key), `the key ${JSON.stringify(name)} stands here twice`);
        const value = item.querySelector(":scope > .value");
        Object.defineProperty(map, name, { value: readValue(value) ?? emptyItem(value), enumerable: true });
      }
      return items.length === 0 ? undefined : map;
    }
    default:
      return readValue(valueOf(field));
  }
}

/** An element of a list or map that was left empty has its type's default. */
function emptyItem(value) {
  const kind = value.dataset.kind;
  if (kind === "message") return {};
  if (kind === "bool") return false;
  if (kind in RANGES || kind === "float" || kind === "double" || kind === "enum") return 0;
  if (kind === "json" || kind === "timestamp" || kind === "duration") throw new Unfit(controlOf(value), "this element needs a value");
  return "";
}

function readValue(value) {
  const kind = value.dataset.kind;
  if (kind === "message") return isSet(value) ? readMessage(value.querySelector(":scope > .nest")) : undefined;
  const control = controlOf(value);
  const text = control.value;
  if (text === "") return undefined;
  if (kind in RANGES) return integer(control, kind, text.trim());
  switch (kind) {
    case "bool":
      return text === "true";
    case "float":
    case "double":
      if (["NaN", "Infinity", "-Infinity"].includes(text.trim())) return text.trim();
      if (text.trim() === "" || Number.isNaN(Number(text))) throw new Unfit(control, `${JSON.stringify(text)} is not a number`);
      return Number(text);
    case "json":
      try {
        return JSON.parse(text);
      } catch (error) {
        throw new Unfit(control, `this is not JSON: ${error.message}`);
      }
    case "bytes":
      if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(text.trim())) throw new Unfit(control, "bytes are written in base64");
      return text.trim();
    default:
      return text;
  }
}

function integer(control, kind, text) {
  if (!/^-?\d+$/.test(text)) throw new Unfit(control, `${JSON.stringify(text)} is not a whole number`);
  const [least, most] = RANGES[kind];
  const number = BigInt(text);
  if (number < least || number > most) throw new Unfit(control, `${text} is not between ${least} and ${most}`);
  return kind.endsWith("64") ? text : Number(text);
}

// Writing

function writeMessage(body, message, path) {
  if (typeof message !== "object" || message === null || Array.isArray(message)) throw new Error(`${path || "the message"} is not an object`);
  for (const [name, value] of Object.entries(message)) {
    const field = fieldNamed(body, name);
    const here = path === "" ? name : `${path}.${name}`;
    if (!field) throw new Error(`the contract has no field ${here}`);
    if (field.parentElement.hasAttribute("data-choice") && value !== null) choose(field.parentElement, field.dataset.name);
    writeField(field, value, here);
  }
}

function writeField(field, value, path) {
  if (value === null && valueOf(field)?.dataset.kind !== "json") return;
  switch (field.dataset.card) {
    case "many":
      if (!Array.isArray(value)) throw new Error(`${path} is not a list`);
      value.forEach((one, index) => writeValue(add(field).querySelector(":scope > .value"), one, `${path}[${index}]`));
      break;
    case "map":
      if (typeof value !== "object") throw new Error(`${path} is not an object`);
      for (const [key, one] of Object.entries(value)) {
        const item = add(field);
        controlOf(item.querySelector(":scope > .key")).value = key;
        writeValue(item.querySelector(":scope > .value"), one, `${path}[${key}]`);
      }
      break;
    default:
      writeValue(valueOf(field), value, path);
  }
}

function writeValue(value, content, path) {
  const kind = value.dataset.kind;
  if (kind === "message") return writeMessage(open(value), content, path);
  const control = controlOf(value);
  if (kind === "json") control.value = JSON.stringify(content);
  else if (kind === "enum") writeEnum(control, content, path);
  else if (typeof content === "object") throw new Error(`${path} is not a single value`);
  else control.value = String(content);
}

function writeEnum(control, content, path) {
  const option = [...control.options].find((one) => one.value === String(content) || one.dataset.number === String(content));
  if (!option) throw new Error(`${path}: ${JSON.stringify(content)} has no name in the contract`);
  control.value = option.value;
}

// Errors

/** `lines[3].price.units`: the element that it names, or the deepest on the way to it. */
function locate(root, path) {
  const steps = [...path.matchAll(/\[([^\]]*)\]|([^.[\]]+)/g)].map(([, key, name]) => ({ key, name }));
  let body = root;
  let found = null;
  for (let at = 0; at < steps.length; at++) {
    const field = body && steps[at].name !== undefined ? fieldNamed(body, steps[at].name) : undefined;
    if (!field) return found;
    found = field;
    let value = field.dataset.card === "one" ? valueOf(field) : null;
    if (field.dataset.card !== "one" && steps[at + 1]?.key !== undefined) {
      const key = steps[++at].key.replace(/^"|"$/g, "");
      const items = [...field.querySelectorAll(":scope > .items > li")];
      const item =
        field.dataset.card === "many" ? items[Number(key)] : items.find((one) => controlOf(one.querySelector(":scope > .key")).value === key);
      value = item?.querySelector(":scope > .value") ?? null;
      if (!value) return found;
    }
    found = value ?? found;
    body = value?.querySelector(":scope > .nest") ?? null;
  }
  return found;
}

let errors = 0;

function mark(element, message) {
  const control = controlOf(element) ?? element;
  const error = document.createElement("p");
  error.className = "field-error";
  error.id = `field-error-${++errors}`;
  error.textContent = message;
  control.closest("li, [data-field]").append(error);
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-describedby", error.id);
  control.focus();
}
