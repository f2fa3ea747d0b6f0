// Asks the broker's REST API as the page's visitor. What is refused comes back as a `Problem` with the stable code.

export class Problem extends Error {
  constructor(status, body) {
    super(body?.detail || body?.title || `the broker answered ${status}`);
    this.status = status;
    this.code = body?.code ?? "";
    this.body = body ?? {};
  }
}

/** One request; its JSON answer, or null where there is none. */
export async function send(method, path, body) {
  const init = { method, credentials: "same-origin", headers: { accept: "application/json" } };
  if (method !== "GET" && method !== "DELETE") {
    init.headers["content-type"] = "application/json";
    init.body = JSON.stringify(body ?? {});
  }
  let response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Problem(0, { detail: "the broker cannot be reached; is it running?" });
  }
  const text = await response.text();
  let answer = null;
  try {
    answer = text === "" ? null : JSON.parse(text);
  } catch {
    answer = { detail: text.trim() };
  }
  if (response.ok) return answer;
  if (response.status === 401 && path !== "/api/v1/login") {
    location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
  }
  throw new Problem(response.status, answer);
}
