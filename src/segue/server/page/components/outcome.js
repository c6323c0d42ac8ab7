// @ts-check
/** Where the task stands, when that is not plain: running, paused, waiting, failed, or without a connection. */
import { resume } from "../state/task-actions.js";
import { isUtterance } from "../state/participants.js";
import { duration, t, textOf } from "../texts/index.js";
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";

/** @import { Turn } from "../state/types.js" */
/** @typedef {import("../state/store.js").TurnSignal} TurnSignal */

/** @param {{ turn: TurnSignal, shown: Turn }} props */
export function Outcome({ turn, shown }) {
  const { status, connection, fallback } = shown;
  const show = OUTCOMES[status];
  return html`${fallback && html`<p class="outcome"><${Icon} name="info" />${fallbackText(fallback)}</p>`}
    ${connection === "lost"
      ? html`<p class="outcome warning" role="status"><span class="spinner"></span>${t("connection.lost")}</p>`
      : show?.(shown, turn)}`;
}

/** @type {Record<string, (shown: Turn, turn: TurnSignal) => unknown>} */
const OUTCOMES = {
  pending: working,
  running: working,
  pausing: (shown) =>
    shown.pending.length
      ? working(shown)
      : html`<p class="outcome" role="status"><span class="spinner"></span>
          ${t(shown.draft ? "turn.pausingAnswer" : "turn.pausing")}
        </p>`,
  paused: (_, turn) => html`<div class="outcome" role="status">
    <${Icon} name="pause" />
    <span>${t("turn.paused")}</span>
    <button type="button" class="primary" onClick=${() => resume(turn)}>
      <${Icon} name="play" />${t("turn.resume")}
    </button>
  </div>`,
  waiting: (shown) =>
    (!shown.question || isUtterance(shown)) &&
    html`<p class="outcome warning" role="status"><${Icon} name="question" />${asked(shown)}</p>`,
  done: ({ malformed }) =>
    malformed && html`<p class="outcome warning" role="status"><${Icon} name="warning" />${t("turn.malformed")}</p>`,
  cancelled: () => html`<p class="outcome"><${Icon} name="stop" />${t("turn.cancelled")}</p>`,
  error: (shown, turn) => html`<div class="outcome danger" role="alert">
    <${Icon} name="warning" />
    <span>${shown.error || t("turn.failed")}</span>
    <button type="button" onClick=${() => resume(turn)}><${Icon} name="retry" />${t("turn.retry")}</button>
  </div>`,
};

/** @param {Turn} shown */
function working({ draft, answer, waiting, steps, thinking, createdAt }) {
  if (draft || answer) return null;
  const step = steps.find((each) => each.status === "running");
  const what = waiting || step?.description || t(thinking ? "turn.thinking" : "turn.working");
  return html`<div class="outcome plain">
    <span class="spinner"></span><span role="status">${what}</span><${Elapsed} since=${createdAt} />
  </div>`;
}

/** The seconds since a moment, for sighted people only. @param {{ since: number }} props */
function Elapsed({ since }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  const seconds = Math.floor(now / 1_000 - since);
  return seconds > 1 && html`<span class="about" aria-hidden="true">${duration(seconds)}</span>`;
}

/** @param {Turn} shown */
function asked({ question, utterances }) {
  if (!question) return t("turn.waiting");
  const role = ["USER", "API"].includes(utterances.at(-1)?.role ?? "") ? "BOT" : "USER";
  return t("transcript.yourTurn", { role });
}

/** @param {string} fallback */
function fallbackText(fallback) {
  const { from, to, reason } = JSON.parse(fallback);
  return t("turn.fallback", { from: textOf(`mode.${from}`, from), to: textOf(`mode.${to}`, to), reason });
}
