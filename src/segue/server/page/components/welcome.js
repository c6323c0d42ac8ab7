// @ts-check
/** An empty conversation: what to do, with messages to begin with. */
import { focusComposer } from "../state/focus.js";
import { useRead } from "../state/signals.js";
import { chosenAgent, store } from "../state/store.js";
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";

export function Welcome() {
  const agent = useRead(chosenAgent);
  const general = /** @type {const} */ (["welcome.example1", "welcome.example2", "welcome.example3"]);
  const examples = agent?.suggestions.length ? agent.suggestions : agent ? general.map((key) => t(key)) : [];
  return html`<section class="welcome">
    <img src="page/icon.svg" alt="" width="44" height="44" />
    <h2>${t("welcome.title")}</h2>
    <p>${t("welcome.text")}</p>
    <ul class="examples">
      ${examples.map(
        (text) => html`<li key=${text}><button type="button" onClick=${() => take(text)}>${text}</button></li>`,
      )}
    </ul>
    ${agent?.model === "offline" && html`<${OfflineNote} />`}
  </section>`;
}

function OfflineNote() {
  const [before, after] = t("offline.how", { command: "\n" }).split("\n");
  return html`<p class="note">
    ${t("offline.text")} ${before}<code>OPENAI_API_KEY=… segue serve</code>${after}
  </p>`;
}

/** @param {string} text */
function take(text) {
  store.draft.value = text;
  focusComposer();
}
