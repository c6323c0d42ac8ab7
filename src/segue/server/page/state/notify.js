// @ts-check
/** Notifications on the desktop, while the page is hidden: something waits for a person, or a task ended. */
import { goTo } from "./router.js";
import { titleOf } from "./sessions.js";
import { store } from "./store.js";
import { loadMoreTexts, t } from "../texts/index.js";
import { effect } from "../vendor/signals-core.js";

/** @import { SessionRow } from "./types.js" */

/** @type {Record<string, import("../texts/index.js").TextKey>} by status */
const SAID = { waiting: "notify.waits", done: "notify.done", error: "notify.failed" };
await loadMoreTexts();

/** @type {Map<string, string> | null} the statuses of the sessions when they were last seen */
let known = null;

/** Ask the browser whether the page may notify; "on" if it may. @returns {Promise<"on" | "">} */
export async function allowed() {
  return "Notification" in window && (await Notification.requestPermission()) === "granted" ? "on" : "";
}

effect(() => {
  const rows = store.sessions.value;
  if (!rows) return;
  const before = known;
  known = new Map(rows.map((row) => [row.session_id, row.status]));
  if (!before || !document.hidden || !store.notify.value) return;
  for (const row of rows) {
    const key = before.get(row.session_id) === row.status ? undefined : SAID[row.status];
    if (key && before.has(row.session_id)) notify(row, t(key));
  }
});

/** @param {SessionRow} row @param {string} body */
function notify(row, body) {
  const shown = new Notification(titleOf(row), { body, tag: row.session_id, icon: "page/icon.svg" });
  shown.onclick = () => {
    window.focus();
    goTo(row.session_id);
    shown.close();
  };
}
