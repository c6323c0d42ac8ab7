// @ts-check
/** One message, how it was carried out, and its answer. */
import { loadDetails } from "../state/conversation.js";
import { CONVERSATION } from "../state/participants.js";
import { useRead } from "../state/signals.js";
import { ACTIVE } from "../state/turn.js";
import { t } from "../texts/index.js";
import { html, useEffect } from "../vendor/htm-preact.js";
import { Answer } from "./answer.js";
import { Charts } from "./charts.js";
import { Course, Note } from "./course.js";
import { lazy } from "./lazy.js";
import { Outcome } from "./outcome.js";
import { Said } from "./said.js";
import { TurnActions } from "./turn-actions.js";

/** @typedef {import("../state/store.js").TurnSignal} TurnSignal */

const Transcript = lazy(async () => (await import("./transcript.js")).Transcript);

/** @param {{ turn: TurnSignal, place: number }} props `place` among the shown turns, from 0 */
export function Turn({ turn, place }) {
  const shown = useRead(() => turn.value, [turn]);
  useEffect(() => void loadDetails(turn), [turn]);
  const isActive = ACTIVE.has(shown.status);
  const isTalk = shown.mode === CONVERSATION;
  return html`<article class="turn" id=${`turn-${shown.id}`} data-status=${shown.status}>
    ${isTalk
      ? html`<${Transcript} shown=${shown} />`
      : html`<${Said} shown=${shown} place=${place} />`}
    <div class="reply" aria-busy=${isActive}>
      <h2 class="unseen">${t("turn.agent")}</h2>
      <${Course} turn=${turn} shown=${shown} />
      ${!isTalk && html`<${Answer} shown=${shown} />`}
      <${Charts} calls=${shown.calls} />
      ${shown.pending.map((note, nth) => html`<${Note} key=${nth} text=${note} isPending />`)}
      <${Outcome} turn=${turn} shown=${shown} />
      ${!isActive && html`<${TurnActions} turn=${turn} shown=${shown} />`}
    </div>
  </article>`;
}
