// @ts-check
/** The task that a panel shows: the one in focus, else the session's latest. */
import { useRead } from "../../state/signals.js";
import { shownTask, turnOf } from "../../state/store.js";
import { readTrace } from "../../state/trace.js";
import { t, textOf } from "../../texts/index.js";
import { html } from "../../vendor/htm-preact.js";
import { useLoaded } from "./loaded.js";

/** @import { Turn } from "../../state/types.js" */

export function useTask() {
  return useRead(() => turnOf(shownTask())?.value);
}

/**
 * A panel about a task: `View` is given the turn, and made anew for another task.
 *
 * @param {unknown} View
 */
export function taskPanel(View) {
  return function Panel() {
    const task = useTask();
    if (!task) return html`<p class="empty">${t("inspector.noTask")}</p>`;
    return html`<section class="task-panel" key=${task.id}>
      <header>
        <p title=${task.message}>${task.message}</p>
        <span class="chip" data-status=${task.status}>${textOf(`status.${task.status}`, task.status)}</span>
      </header>
      <${View} task=${task} />
    </section>`;
  };
}

/**
 * Everything that is stored of the task, anew with each of its events.
 *
 * @param {Turn} task
 */
export function useTrace(task) {
  return useLoaded(() => readTrace(task.id), [task.id, task.seq, task.status]);
}
