// @ts-check
/** Messages that are sent later or again and again: when they run next, and what can be done about them. */
import { IconButton } from "../components/icon-button.js";
import { getAll, send } from "../state/api.js";
import { attempt } from "../state/failures.js";
import { dateTime, t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { cronText } from "./parts/cron.js";
import { Pending, useChanges, useLoaded } from "./parts/loaded.js";

/**
 * @typedef {{ schedule_id: string, message: string, agent_id: string, every: string | null, timezone: string,
 *   active: boolean, next_run: number | null, problem: string | null }} Schedule
 */

export default function Panel() {
  const loaded = useLoaded(() => getAll("/api/schedules"), [useChanges()]);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  /** @type {Schedule[]} */
  const schedules = loaded.value.items;
  if (!schedules.length) return html`<${None} />`;
  return html`<ul class="memory">
    ${schedules.map((each) => html`<${View} key=${each.schedule_id} schedule=${each} changed=${loaded.reload} />`)}
  </ul>`;
}

function None() {
  const [before, after] = t("schedules.none", { command: "\n" }).split("\n");
  return html`<p class="empty">${before}<code>segue chat --every "0 8 * * *" "…"</code>${after}</p>`;
}

/** @param {{ schedule: Schedule, changed: () => void }} props */
function View({ schedule, changed }) {
  const [isAsking, ask] = useState(false);
  const address = `/api/schedules/${encodeURIComponent(schedule.schedule_id)}`;
  const change = async (/** @type {() => Promise<unknown>} */ request) => {
    ask(false);
    await attempt(request);
    changed();
  };
  const isOver = !schedule.active && !schedule.every;
  return html`<li class="memory-file schedule">
    <div class="head">
      <b>${schedule.message}</b>
      ${!isOver &&
      html`<button
        type="button"
        class="quiet"
        onClick=${() => change(() => send("PATCH", address, { active: !schedule.active }))}
      >
        ${t(schedule.active ? "schedules.pause" : "schedules.resume")}
      </button>`}
      <${IconButton} icon="trash" label=${t("schedules.delete")} onClick=${() => ask(true)} />
    </div>
    <p class="about">
      ${nextOf(schedule)}
      ${schedule.every &&
      html` · <span title=${schedule.every}>${cronText(schedule.every)}</span>, ${schedule.timezone}`}
    </p>
    ${schedule.problem && html`<p class="warning">${schedule.problem}</p>`}
    ${isAsking &&
    html`<p class="confirm" role="alert">
      <span>${t("schedules.confirm")}</span>
      <button type="button" onClick=${() => ask(false)}>${t("dialog.cancel")}</button>
      <button type="button" class="primary danger" onClick=${() => change(() => send("DELETE", address))}>
        ${t("session.delete")}
      </button>
    </p>`}
  </li>`;
}

/** When it runs next, or why it does not. @param {Schedule} schedule */
function nextOf({ active, every, next_run: next }) {
  if (active && next) return t("schedules.next", { moment: dateTime(next) });
  return t(every ? "schedules.paused" : "schedules.over");
}
