// What the pages add when scripts run: a count of characters, and polling that stays quiet and polite.
"use strict";

const find = (id) => document.getElementById(id);

// The count that the server makes: code points, not the UTF-16 units of `length`.
const countCharacters = (prompt) => {
  const size = find("size");
  const limit = Number(prompt.dataset.limit);
  const outputTokens = Number(prompt.dataset.outputTokens);
  const number = new Intl.NumberFormat("en");
  const hint = size.textContent;

  const show = () => {
    const count = [...prompt.value].length;
    const tokens = Math.max(1, Math.floor(count / 4)) + outputTokens;
    const isOver = count > limit;
    size.textContent = count
      ? `${number.format(count)} of ${number.format(limit)} characters. Reserves ${number.format(tokens)} tokens.`
      : hint;
    size.classList.toggle("is-over", isOver);
    prompt.setCustomValidity(isOver ? `Too long: leave out ${number.format(count - limit)} character${count - limit === 1 ? "" : "s"}.` : "");
  };
  prompt.addEventListener("input", show);
  show();
};

// A page that comes back from the browser's memory shows the past: an unsent prompt is worth keeping,
// everything else is read anew.
const refreshOnReturn = () => {
  let isStale = !find("ask");
  find("ask")?.addEventListener("submit", () => { isStale = true; });
  window.addEventListener("pageshow", (event) => {
    if (event.persisted && isStale) location.reload();
  });
};

// The words of the server's `duration`.
const inWords = (seconds) => {
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
};

const keepCounting = () => {
  const startOf = new WeakMap();
  setInterval(() => {
    for (const element of document.querySelectorAll("[data-age]")) {
      if (!startOf.has(element)) startOf.set(element, Date.now() - 1000 * Number(element.dataset.age));
      element.textContent = inWords(Math.floor((Date.now() - startOf.get(element)) / 1000));
    }
  }, 1000);
};

const watchPolling = () => {
  const LONGEST_PAUSE_MS = 30000;
  let failures = 0;
  let pausedUntil = 0;
  let hadFocus = false;

  const isPoll = (event) => event.detail.elt?.id === "poll";
  const say = (text) => {
    if (find("notice").textContent !== text) find("notice").textContent = text;
  };
  const pause = (text) => {
    failures += 1;
    pausedUntil = Date.now() + Math.min(LONGEST_PAUSE_MS, 1000 * 2 ** failures);
    say(text);
  };
  const pollNow = () => {
    pausedUntil = 0;
    if (!document.hidden && find("poll")) htmx.trigger("#poll", "poll-now");
  };

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (isPoll(event) && (document.hidden || Date.now() < pausedUntil)) event.preventDefault();
  });
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    if (!isPoll(event) || event.detail.xhr.status >= 400) return;
    failures = 0;
    say("");
  });
  document.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 404) {
      find("poll").remove();
      say("This report is not here any more, so this page has stopped asking for it.");
    } else {
      pause("The service has trouble answering. Your report is safe; this page keeps asking.");
    }
  });
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, () => {
      pause("There is no connection to the service. Your report is safe; this page keeps asking.");
    });
  }
  window.addEventListener("online", pollNow);
  document.addEventListener("visibilitychange", pollNow);

  // One announcement for each new state, whatever else changes, and the keyboard stays where it was.
  let state = find("job").dataset.state;
  document.addEventListener("htmx:beforeSwap", () => {
    hadFocus = find("job").contains(document.activeElement);
  });
  document.addEventListener("htmx:afterSettle", () => {
    const job = find("job");
    if (hadFocus && document.activeElement === document.body) job.focus();
    if (job.dataset.state === state) return;
    state = job.dataset.state;
    document.title = job.dataset.title;
    find("announcement").textContent = job.dataset.announce;
  });
};

refreshOnReturn();
if (find("prompt")) countCharacters(find("prompt"));
if (find("poll")) {
  keepCounting();
  watchPolling();
}
