// Type-to-confirm: what destroys asks for the name of what it destroys.

/** Whether the visitor typed `name`. The dialog is the page's own, so that focus and Escape work as everywhere. */
export function confirmed(name, text) {
  const dialog = document.getElementById("confirm");
  const input = dialog.querySelector("input");
  const go = dialog.querySelector("button.danger");
  dialog.querySelector("[data-text]").textContent = text;
  dialog.querySelector("[data-name]").textContent = name;
  input.value = "";
  go.disabled = true;
  const typed = () => (go.disabled = input.value !== name);
  input.addEventListener("input", typed);
  dialog.returnValue = "";
  dialog.showModal();
  input.focus();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => {
        input.removeEventListener("input", typed);
        resolve(dialog.returnValue === "go" && input.value === name);
      },
      { once: true },
    );
  });
}
