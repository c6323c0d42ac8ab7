// @ts-check
/** The page: sidebar, conversation, inspector, and what lies over them. */
import { asksForKey } from "../state/key-asked.js";
import { route } from "../state/router.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { language, loadPanelTexts, t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Conversation } from "./conversation.js";
import { Dialogs } from "./dialogs.js";
import { Header } from "./header.js";
import { lazy } from "./lazy.js";
import { Sidebar } from "./sidebar.js";
import { Toasts } from "./toasts.js";

const Inspector = lazy(async () => {
  await loadPanelTexts();
  return (await import("./inspector.js")).Inspector;
});
const Workspace = lazy(async () => {
  await loadPanelTexts();
  return (await import("./workspace.js")).Workspace;
});

export function App() {
  const shownIn = useRead(() => language.value);
  const sidebar = useRead(() => store.sidebar.value);
  const page = useRead(() => route.value.page);
  const panel = useRead(() => store.panel.value) && !page;
  const isAsked = useRead(() => asksForKey.value);
  return html`<div class="shell" key=${shownIn} data-sidebar=${sidebar} data-inspector=${Boolean(panel)}>
    <a class="skip" href="#conversation" onClick=${skip}>${t("app.skip")}</a>
    <${Sidebar} />
    ${sidebar && html`<div class="scrim" onClick=${() => (store.sidebar.value = false)}></div>`}
    <main id="conversation" tabindex="-1" aria-label=${t("conversation.label")}>
      ${page ? html`<${Workspace} />` : html`<${Header} />`}
      <${Toasts} />
      ${!isAsked && !page && html`<${Conversation} />`}
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
