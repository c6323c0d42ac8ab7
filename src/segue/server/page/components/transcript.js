// @ts-check
/** A conversation between a user, a bot and an API: its participants, and what they said, called and returned. */
import { participantsOf } from "../state/participants.js";
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { CallView } from "./call.js";

/** @import { Turn, Utterance } from "../state/types.js" */

/** @param {{ shown: Turn }} props */
export function Transcript({ shown }) {
  return html`<p class="about">${t("transcript.of", participantsOf(shown.message))}</p>
    <ol class="transcript" aria-label=${t("transcript.label")} aria-live="polite">
      ${shown.utterances.map((said) => html`<${Line} key=${said.index} said=${said} task=${shown.id} />`)}
    </ol>`;
}

/** @param {{ said: Utterance, task: string }} props */
function Line({ said, task }) {
  const { role, text = "", action = "", controller = "" } = said;
  if (role !== "API" && !text && !action) return null; // an end without words
  const call = action && `${action}(${JSON.stringify(said.action_input ?? {})})`;
  return html`<li data-role=${role}>
    <span class="role">${role}${controller && html` <span class="about">${controller}</span>`}</span>
    ${role === "API" ? html`<${CallView} call=${callOf(said)} task=${task} isActive=${false} />` : text && html`<p>${text}</p>`}
    ${role === "BOT" && call && html`<code>${call}</code>`}
  </li>`;
}

/** @param {Utterance} said */
function callOf({ index, action = "", action_input: given = {}, data = null, status_code: code = 0, seconds = 0 }) {
  const result = code >= 200 && code < 300 ? { success: data } : { error: data };
  return { key: String(index), index, name: action, arguments: given, result, seconds, step: "", truncated: false };
}
