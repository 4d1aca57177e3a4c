// Sends the forms of the API's pages as a program would: JSON, an Idempotency-Key, the CSRF token.
"use strict";

const SHOWN_HEADERS = ["Location", "Retry-After", "Idempotent-Replayed", "RateLimit-Policy", "RateLimit", "ETag"];

const find = (id) => document.getElementById(id);

// A random UUID, also where a page without TLS has no crypto.randomUUID.
const newKey = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
};

const show = (title, body, links = []) => {
  find("answer").hidden = false;
  find("answer-body").hidden = !body;
  find("answer-body").textContent = body;
  find("answer-links").replaceChildren(...links.flatMap(([text, href]) => {
    const link = document.createElement("a");
    link.href = href;
    link.textContent = text;
    return [link, " "];
  }));
  // Moving there tells a screen reader and brings it into view.
  find("answer-head").textContent = title;
  find("answer-head").focus();
};

const indented = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

const tell = async (answer) => {
  const headers = SHOWN_HEADERS.filter((name) => answer.headers.has(name))
    .map((name) => `${name}: ${answer.headers.get(name)}\n`);
  const text = await answer.text();
  const links = [];
  if (answer.headers.has("Location")) links.push(["The report", answer.headers.get("Location")]);
  else if (answer.ok) links.push(["Read it again", location.href]);
  if (answer.status === 401) links.push(["Sign in", `/login/?next=${encodeURIComponent(location.pathname)}`]);
  const title = `${answer.status} ${answer.statusText}`.trim();
  show(title, [headers.join(""), indented(text)].filter(Boolean).join("\n"), links);
};

const send = async (form) => {
  const { prompt, key, csrfmiddlewaretoken } = form.elements;
  const request = {
    method: form.dataset.method,
    headers: { Accept: "application/json", "X-CSRFToken": csrfmiddlewaretoken.value },
  };
  if (key) request.headers["Idempotency-Key"] = key.value;
  if (prompt) {
    request.headers["Content-Type"] = "application/json";
    request.body = JSON.stringify({ prompt: prompt.value });
  }
  try {
    await tell(await fetch(form.action, request));
  } catch (error) {
    // A header takes no character beyond Latin-1, and a server may be away.
    show("Nothing was answered", `${error.message}`);
  }
};

for (const form of document.querySelectorAll("form[data-method]")) {
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const buttons = form.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    await send(form);
    for (const button of buttons) button.disabled = false;
  });
  form.querySelector("[data-new-key]")?.addEventListener("click", () => {
    form.elements.key.value = newKey();
  });
}
