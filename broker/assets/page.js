// What the modules do to the page as a whole: say something at its top, and fetch its content anew.

/** Says something at the top of the page, where screen readers hear it too. */
export function say(text, kind = "good") {
  const place = document.getElementById("notices");
  const notice = document.createElement("p");
  notice.className = "notice";
  notice.dataset.kind = kind;
  notice.textContent = text;
  place.replaceChildren(notice);
}

/** Says what was done once the page shows it, so that whoever reads it and goes on does so on the new page. */
export async function done(text) {
  await refresh();
  say(text);
}

/** Fetches the page again and puts its <main> in place of this one; focus and open rows stay. */
export async function refresh() {
  const response = await fetch(location.href, { credentials: "same-origin" });
  if (response.status === 404) return location.assign("/");
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html").querySelector("main");
  const main = document.querySelector("main");
  if (!fresh || !main) return location.reload();
  const focused = document.activeElement?.id;
  const open = new Set([...main.querySelectorAll("details[open][id]")].map((details) => details.id));
  main.replaceChildren(...fresh.childNodes);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  document.dispatchEvent(new Event("qwerq:refreshed"));
}
