// @ts-check
/** A conversation between a user, a bot and an API: its participants, and what they said, called and returned. */
import { participantsOf } from "../state/participants.js";
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { CallView } from "./call.js";
import { loadStyleSheets } from "./style-sheets.js";

/** @import { Turn, Utterance } from "../state/types.js" */

await loadStyleSheets("transcript");

/** @param {{ shown: Turn }} props */
export function Transcript({ shown }) {
  return html`<p class="about">${t("transcript.of", participantsOf(shown.message))}</p>
    <ol class="transcript" aria-label=${t("transcript.label")} aria-live="polite">
      ${shown.utterances.filter(isShown).map(
        (said) => html`<li key=${said.index} data-role=${said.role}>
          <span class="role">${said.role} <span class="about">${said.controller}</span></span>
          <${said.role === "API" ? Result : Words} said=${said} task=${shown.id} />
        </li>`,
      )}
    </ol>`;
}

/** An end without words is not shown. @param {Utterance} said */
const isShown = ({ role, text, action }) => role === "API" || Boolean(text || action);

/** @param {{ said: Utterance }} props */
function Words({ said: { text, action, action_input: given } }) {
  return html`${text && html`<p>${text}</p>`}
    ${action && html`<code>${action}(${JSON.stringify(given ?? {})})</code>`}`;
}

/** @param {{ said: Utterance, task: string }} props */
function Result({ said, task }) {
  return html`<${CallView} call=${callOf(said)} task=${task} isActive=${false} />`;
}

/** @param {Utterance} said */
function callOf({ index, action = "", action_input: given = {}, data = null, status_code: code = 0, seconds = 0 }) {
  const result = code >= 200 && code < 300 ? { success: data } : { error: data };
  return { key: String(index), index, name: action, arguments: given, result, seconds, step: "", truncated: false };
}
