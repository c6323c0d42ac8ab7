// @ts-check
/** The page's entry: loads what the service offers, follows the address, and looks for changes made elsewhere. */
import { App } from "./components/app.js";
import "./components/keys.js";
import { showIcons } from "./components/icon.js";
import { ApiError, key, refusedKey } from "./state/api.js";
import { lookAgain, open, openTask } from "./state/conversation.js";
import { attempt } from "./state/failures.js";
import { route } from "./state/router.js";
import { loadOffer, loadSessions, loadWaiting } from "./state/sessions.js";
import { store } from "./state/store.js";
import { language } from "./texts/index.js";
import { html, render } from "./vendor/htm-preact.js";
import { effect, untracked } from "./vendor/signals-core.js";

/** Milliseconds between two looks at what other tabs and terminals did. */
const POLL_SECONDS = 4_000;

effect(() => {
  const { value: theme } = store.theme;
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
});

effect(() => {
  const { session, task } = route.value;
  if (refusedKey.value !== null) return;
  untracked(() => void (task ? openTask(task) : store.session.value === session && session ? null : open(session)));
});

effect(() => {
  if (store.draft.value) void import("./components/turn.js").catch(() => {}); // else it is loaded when shown
});

effect(() => {
  void [key.value, language.value];
  untracked(() => void attempt(start));
});

async function start() {
  await loadOffer();
  refusedKey.value = null;
  if (store.dialog.value === "key") store.dialog.value = "";
  await look();
}

async function look() {
  try {
    await Promise.all([loadSessions(), loadWaiting()]);
    if (!store.reachable.value && !store.agents.value.length) await loadOffer();
    store.reachable.value = true;
    await lookAgain();
  } catch (error) {
    store.reachable.value = !(error instanceof ApiError) || (error.status > 0 && error.status < 500);
  }
}

void attempt(showIcons);
effect(() => {
  if (store.notify.value) void import("./state/notify.js").catch(() => {});
});
const isWatched = () => document.visibilityState === "visible" || store.notify.value;
setInterval(() => isWatched() && refusedKey.value === null && void look(), POLL_SECONDS);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && void look());

render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById("app")));
