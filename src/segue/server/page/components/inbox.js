// @ts-check
/** Everything that waits for a person, in any session. */
import { goTo } from "../state/router.js";
import { CONVERSATION } from "../state/participants.js";
import { loadWaiting, titleOf } from "../state/sessions.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { moment, t } from "../texts/index.js";
import { html, useEffect } from "../vendor/htm-preact.js";
import { isPlan, namesOf } from "./call-names.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";
import { closeDrawer } from "./sidebar.js";

/** @import { WaitingTask } from "../state/types.js" */

/** @param {{ close: () => void }} props */
export function Inbox({ close }) {
  const waiting = useRead(() => store.waiting.value);
  useEffect(() => void loadWaiting().catch(() => {}), []); // the page looks again anyway
  return html`<${Dialog} title=${t("inbox.title")} onClose=${close}>
    ${waiting.length === 0 && html`<p class="empty">${t("inbox.none")}</p>`}
    ${!store.notify.value &&
    html`<button type="button" class="quiet" onClick=${askToNotify}>${t("notify.on")}</button>`}
    <ul class="inbox">
      ${waiting.map((task) => html`<li key=${task.task_id}><${Entry} task=${task} close=${close} /></li>`)}
    </ul>
  <//>`;
}

async function askToNotify() {
  const { allowed } = await import("../state/notify.js");
  store.notify.value = await allowed();
}

/** Milliseconds between two looks for what is asked, and how many there are. */
const AGAIN = 50;
const LOOKS = 100;

/** What a person begins something else with. */
const OTHERWISE = ["keydown", "pointerdown"];

/**
 * Move the person to what is asked, once it is shown and the dialog, which gives the focus back, is gone.
 *
 * Not when they have done something else meanwhile, and the focus not out of a field.
 */
function goToAsked() {
  let left = LOOKS;
  const leave = () => void (left = 0);
  for (const other of OTHERWISE) document.addEventListener(other, leave, { once: true, capture: true });
  const look = () => {
    const asked = /** @type {HTMLElement | null} */ (document.querySelector(".ask"));
    if (left > 0 && (!asked || document.querySelector("dialog"))) {
      left -= 1;
      return void setTimeout(look, AGAIN);
    }
    for (const other of OTHERWISE) document.removeEventListener(other, leave, { capture: true });
    if (!asked || left <= 0) return;
    asked.scrollIntoView({ block: "nearest" });
    if (!document.activeElement?.matches("input, textarea, select")) asked.focus({ preventScroll: true });
  };
  look();
}

/** @param {{ task: WaitingTask, close: () => void }} props */
function Entry({ task, close }) {
  const isReview = task.calls.some(isPlan);
  const approval = isReview ? t("plan.title") : t("inbox.approval", { names: namesOf(task.calls) });
  const asks = task.kind === "approval" ? approval : task.question || task.problem;
  const row = store.sessions.value?.find((each) => each.session_id === task.session_id);
  const about = row?.mode === CONVERSATION ? titleOf(row) : task.message;
  const show = () => {
    close();
    closeDrawer();
    goTo(task.session_id);
    goToAsked();
  };
  return html`<button type="button" onClick=${show}>
    <${Icon} name=${task.kind !== "approval" ? "question" : isReview ? "plan" : "tool"} />
    <span class="menu-text"><span>${asks}</span><span class="about">${about}</span></span>
    <span class="about">${moment(task.since)}</span>
  </button>`;
}
