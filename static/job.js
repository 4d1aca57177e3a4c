// What scripts add to a report: events, polling that stays quiet and polite, copying, and a word when it ends.
"use strict";

const find = (id) => document.getElementById(id);
const say = (id, text) => {
  if (find(id).textContent !== text) find(id).textContent = text; // a live region tells each change
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

// Off until somebody presses the button; remembered in this browser, for reports to come as well.
const notifying = {
  KEY: "notify",
  get isOn() {
    return localStorage.getItem(this.KEY) === "yes" && window.Notification?.permission === "granted";
  },
  show() {
    const button = find("notify");
    if (!button || !("Notification" in window)) return;
    button.hidden = Notification.permission === "denied";
    button.setAttribute("aria-pressed", String(this.isOn));
  },
  async turn() {
    const isWanted = !this.isOn && (await Notification.requestPermission()) === "granted";
    localStorage.setItem(this.KEY, isWanted ? "yes" : "no");
    if (Notification.permission === "denied") say("notice", "This browser does not allow notifications from here.");
    this.show();
  },
  tell(text) {
    if (!this.isOn || !(document.hidden || !document.hasFocus())) return;
    try {
      const note = new Notification("Reports", { body: text, icon: find("icon").href, tag: location.pathname });
      note.addEventListener("click", () => { window.focus(); note.close(); });
    } catch (error) {
      if (!(error instanceof TypeError)) throw error; // browsers of phones want a service worker for it
    }
  },
};

// Events as they happen, where they can be had; what they tell of is fetched by a poll, as without them.
const listening = {
  source: null,
  isLive: false,
  told: "",
  text: "",
  // Whether the page shows another state than it was told of.
  get isBehind() {
    const { state } = find("job").dataset;
    return this.told !== "" && this.told !== (state === "cancelled" ? "failed" : state);
  },
  start(onChange) {
    const { events } = find("job").dataset;
    // Hidden pages let go: a browser has six connections to a server that speaks HTTP/1.1.
    if (!events || this.source || document.hidden) return;
    this.source = new EventSource(events);
    this.source.addEventListener("open", () => { this.isLive = true; });
    // The browser comes back by itself; where it was refused it does not, and polls do it alone.
    this.source.addEventListener("error", () => { this.isLive = false; });
    this.source.addEventListener("status", ({ data }) => {
      this.told = JSON.parse(data).status;
      this.text = "";
      if (["succeeded", "failed"].includes(this.told)) this.stop();
      if (this.isBehind) onChange();
    });
    this.source.addEventListener("text", ({ data }) => {
      const { offset, text } = JSON.parse(data);
      this.text = [...this.text].slice(0, offset).join("") + text; // offsets count code points
      this.show();
    });
  },
  stop() {
    this.source?.close();
    this.source = null;
    this.isLive = false;
  },
  show() {
    const place = find("growing")?.querySelector(".text");
    if (!place || !this.text) return;
    const shown = place.textContent;
    if (this.text.startsWith(shown)) place.append(this.text.slice(shown.length)); // a selection stays
    else place.textContent = this.text;
    find("growing").hidden = false;
  },
};

const watchPolling = () => {
  const LONGEST_PAUSE_MS = 30000;
  const LIVE_PAUSE_MS = 15000;
  const HIDDEN_PAUSE_MS = 15000;
  let failures = 0;
  let pausedUntil = 0;
  let lastPoll = 0;
  let hadFocus = false;
  let wasOpen = false;

  const isPoll = (event) => event.detail.elt?.id === "poll";
  const pause = (text) => {
    failures += 1;
    pausedUntil = Date.now() + Math.min(LONGEST_PAUSE_MS, 1000 * 2 ** failures);
    say("notice", text);
  };
  const pollNow = () => {
    pausedUntil = 0;
    if (!document.hidden && find("poll")) htmx.trigger("#poll", "poll-now");
  };
  const isTooEarly = () => {
    if (Date.now() < pausedUntil) return true;
    if (listening.isLive && !listening.isBehind && Date.now() < lastPoll + LIVE_PAUSE_MS) return true;
    return document.hidden && (!notifying.isOn || Date.now() < lastPoll + HIDDEN_PAUSE_MS);
  };

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (!isPoll(event)) return;
    if (isTooEarly()) event.preventDefault();
    else lastPoll = Date.now();
  });
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    if (!isPoll(event) || event.detail.xhr.status >= 400) return;
    failures = 0;
    say("notice", "");
  });
  document.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status === 404) {
      find("poll").remove();
      listening.stop();
      say("notice", "This report is not here any more, so this page has stopped asking for it.");
    } else {
      pause("The service has trouble answering. Your report is safe; this page keeps asking.");
    }
  });
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(name, () => {
      pause("There is no connection to the service. Your report is safe; this page keeps asking.");
    });
  }
  document.addEventListener("htmx:afterRequest", (event) => {
    // The poll was on its way when the event came.
    if (isPoll(event) && listening.isBehind && !failures) setTimeout(pollNow, 250);
  });
  window.addEventListener("online", pollNow);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) listening.stop();
    else listening.start(pollNow);
    pollNow();
  });
  window.addEventListener("pagehide", () => listening.stop());
  listening.start(pollNow);

  // One announcement for each new state, whatever else changes, and the keyboard stays where it was.
  let state = find("job").dataset.state;
  document.addEventListener("htmx:beforeSwap", () => {
    hadFocus = find("job").contains(document.activeElement);
    wasOpen = find("life").open;
  });
  document.addEventListener("htmx:afterSettle", () => {
    const job = find("job");
    notifying.show();
    find("life").open = wasOpen;
    listening.show();
    if (hadFocus && document.activeElement === document.body) job.focus();
    if (job.dataset.state === state) return;
    state = job.dataset.state;
    document.title = job.dataset.title;
    find("icon").href = job.dataset.icon;
    say("announcement", job.dataset.announce);
    if (!find("poll")) notifying.tell(job.dataset.announce);
  });
};

// The text as the model wrote it, and not as it is set here.
const copy = async (button) => {
  const source = async () => {
    const answer = await fetch(button.dataset.source);
    if (!answer.ok || answer.redirected) throw new Error("no text");
    return new Blob([await answer.text()], { type: "text/plain" });
  };
  try {
    await navigator.clipboard.write([new ClipboardItem({ "text/plain": source() })]);
    button.textContent = "Copied";
    say("announcement", "Copied.");
  } catch {
    getSelection().selectAllChildren(document.querySelector("#job .result"));
    say("notice", "This browser does not let the page copy. The text is selected: copy it from there.");
  }
};
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.id === "copy") copy(button);
  if (button?.id === "notify") notifying.turn();
});

sessionStorage.removeItem("sent"); // the answer to the form has come
// A page from the browser's memory shows the past.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});
if (find("poll")) {
  if (!window.htmx) setTimeout(() => location.reload(), 10000); // that file did not arrive
  keepCounting();
  watchPolling();
  notifying.show();
}
