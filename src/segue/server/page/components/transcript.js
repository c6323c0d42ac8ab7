// @ts-check
/** A conversation between a user, a bot and an API: its participants, and what they said, called and returned. */
import { get } from "../state/api.js";
import { attempt } from "../state/failures.js";
import { isForced, participantsOf } from "../state/participants.js";
import { store } from "../state/store.js";
import { t } from "../texts/index.js";
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { CallView } from "./call.js";
import { brief } from "./readable.js";
import { loadStyleSheets } from "./style-sheets.js";

/** @import { Turn, Utterance } from "../state/types.js" */
/** @typedef {{ index: number, got: string }} Difference */

await loadStyleSheets("transcript");

/** @param {{ shown: Turn }} props */
export function Transcript({ shown }) {
  const found = useDifferences(shown);
  return html`<p class="about">${t("transcript.of", participantsOf(shown.message))}</p>
    ${found && html`<p class="about">${t("transcript.forced", { n: found.length })}</p>`}
    <ol class="transcript" aria-label=${t("transcript.label")} aria-live="polite">
      ${shown.utterances.filter(isShown).map(
        (said) => html`<li key=${said.index} data-role=${said.role}>
          <span class="role">${said.role} <span class="about">${said.controller}</span></span>
          <${said.role === "API" ? Result : Words} said=${said} task=${shown.id} />
          <${Instead} own=${found?.find(({ index }) => index === said.index)} />
        </li>`,
      )}
    </ol>`;
}

/** What the bot would have done by itself. @param {{ own?: Difference }} props */
function Instead({ own }) {
  return own ? html`<p class="instead">${t("transcript.instead")} ${own.got}</p>` : null;
}

/** Where the bot would have differed, if the turns are forced to a reference. @param {Turn} shown */
function useDifferences({ message, utterances }) {
  const [found, setFound] = useState(/** @type {Difference[] | null} */ (null));
  useEffect(() => {
    const address = `/api/conversations/${encodeURIComponent(store.session.value)}`;
    if (isForced(message)) void attempt(async () => setFound((await get(address)).differences));
  }, [message, utterances.length]);
  return found;
}

/** An end without words is not shown. @param {Utterance} said */
const isShown = ({ role, text, action }) => role === "API" || Boolean(text || action);

/** @param {{ said: Utterance }} props */
function Words({ said: { text, action, action_input: given } }) {
  return html`${text && html`<p>${text}</p>`}
    ${action && html`<p><code>${action}</code> <span class="about">${brief(given ?? {})}</span></p>`}`;
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
