// @ts-check
/** The page: sidebar, conversation, inspector, and what lies over them. */
import { asksForKey } from "../state/key-asked.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { language, t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Conversation } from "./conversation.js";
import { Dialogs } from "./dialogs.js";
import { Header } from "./header.js";
import { lazy } from "./lazy.js";
import { Sidebar } from "./sidebar.js";
import { Toasts } from "./toasts.js";

const Strip = lazy(async () => (await import("../timeline/strip.js")).Strip);
const Inspector = lazy(async () => (await import("./inspector.js")).Inspector);

export function App() {
  const shownIn = useRead(() => language.value);
  const sidebar = useRead(() => store.sidebar.value);
  const panel = useRead(() => store.panel.value);
  const hasTurns = useRead(() => store.turns.value.length > 0);
  const isAsked = useRead(() => asksForKey.value);
  return html`<div class="shell" key=${shownIn} data-sidebar=${sidebar} data-inspector=${Boolean(panel)}>
    <a class="skip" href="#conversation" onClick=${skip}>${t("app.skip")}</a>
    <${Sidebar} />
    ${sidebar && html`<div class="scrim" onClick=${() => (store.sidebar.value = false)}></div>`}
    <main id="conversation" tabindex="-1" aria-label=${t("conversation.label")}>
      <${Header} />
      ${hasTurns && html`<${Strip} />`}
      <${Toasts} />
      ${!isAsked && html`<${Conversation} />`}
    </main>
    ${panel && html`<${Inspector} />`}
    <${Dialogs} />
  </div>`;
}

/** Move the focus; the address belongs to the sessions. @param {MouseEvent} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("conversation")?.focus();
}
