// What scripts add to the form: a count that agrees with the server, and a prompt that no lost answer loses.
"use strict";

const find = (id) => document.getElementById(id);
const [form, prompt, key, size, fit] = ["ask", "prompt", "key", "size", "fit"].map(find);
const [limit, outputTokens, dailyTokens, remainingTokens] =
  ["limit", "outputTokens", "dailyTokens", "remainingTokens"].map((name) => Number(prompt.dataset[name]));
const SENT = "sent"; // the key and the prompt of a form that has no answer yet

const grouped = (number) => new Intl.NumberFormat("en").format(number);
const setText = (element, text) => {
  if (element.textContent !== text) element.textContent = text; // a live region tells each change
};

// The server's counts: code points, not the UTF-16 units of `length`, and a token for four of them.
const hint = size.textContent;
const countCharacters = () => {
  const count = [...prompt.value].length;
  const tokens = Math.max(1, Math.floor(count / 4)) + outputTokens;
  const over = count - limit;
  const left = remainingTokens - tokens;
  const budget = left < 0
    ? `${grouped(remainingTokens)} are left today.`
    : `${grouped(left)} of today’s are left after it.`;
  setText(size, count ? `${grouped(count)} of ${grouped(limit)} characters. Reserves ${grouped(tokens)} tokens; ${budget}` : hint);
  let misfit = "";
  if (over > 0) misfit = "Too long for one report.";
  else if (tokens > dailyTokens) misfit = "More than a whole day’s budget.";
  else if (left < 0) misfit = "Does not fit into what is left of today’s budget.";
  setText(fit, misfit);
  // What the server may see otherwise by now, it decides; the length will not change.
  prompt.setCustomValidity(over > 0 ? `Too long: leave out ${grouped(over)} character${over === 1 ? "" : "s"}.` : "");
};

// A form whose answer was lost comes back with its key, so that sending it again starts nothing twice.
const bringBack = () => {
  const sent = JSON.parse(sessionStorage.getItem(SENT) ?? "null");
  if (sent?.user === form.dataset.user && !prompt.value && !find("problem")) {
    prompt.value = sent.prompt;
    key.value = sent.key;
    setText(find("unsent"), "This was sent, and no answer came. Send it again: nothing is started twice.");
  } else {
    sessionStorage.removeItem(SENT);
  }
};

let isSent = false;
form.addEventListener("submit", () => {
  isSent = true;
  sessionStorage.setItem(SENT, JSON.stringify({ user: form.dataset.user, key: key.value, prompt: prompt.value }));
  setText(find("submit"), "Sending…");
});
prompt.addEventListener("input", countCharacters);
prompt.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
// A page from the browser's memory shows the past: an unsent prompt is worth keeping, all else is read anew.
window.addEventListener("pageshow", (event) => {
  if (event.persisted && isSent) location.reload();
  countCharacters(); // Back also restores what was typed, without an event of its own
});

// The day ends at midnight UTC, which few clocks on a wall show.
const resets = new Date(find("resets").dateTime);
if (resets.getHours() || resets.getMinutes()) {
  find("resets").append(`, ${resets.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })} where you are`);
}

bringBack();
countCharacters();
