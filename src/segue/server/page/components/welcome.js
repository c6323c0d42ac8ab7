// @ts-check
/** An empty conversation: what to do, with three examples for the agent. */
import { useRead } from "../state/signals.js";
import { chosenAgent, store } from "../state/store.js";
import { t, textOf } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";

/** @type {Record<string, string>} */
const EXAMPLES = { travel: "example", data: "exampleData" };

export function Welcome() {
  const agent = useRead(() => store.agent.value);
  const offline = useRead(() => chosenAgent()?.model === "offline");
  const kind = EXAMPLES[agent] ?? "exampleOther";
  const examples = agent ? [1, 2, 3].map((n) => textOf(`welcome.${kind}${n}`, "")) : [];
  return html`<section class="welcome">
    <img src="/page/icon.svg" alt="" width="44" height="44" />
    <h2>${t("welcome.title")}</h2>
    <p>${t("welcome.text")}</p>
    <ul class="examples">
      ${examples.map(
        (text) => html`<li key=${text}><button type="button" onClick=${() => take(text)}>${text}</button></li>`,
      )}
    </ul>
    ${offline && html`<${OfflineNote} />`}
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
  document.querySelector("textarea")?.focus();
}
