// @ts-check
/** The bar above the conversation. */
import { titleOf } from "../state/sessions.js";
import { useRead } from "../state/signals.js";
import { openPanel, shownRow, store } from "../state/store.js";
import { t } from "../texts/index.js";
import { html, useEffect } from "../vendor/htm-preact.js";
import { IconButton } from "./icon-button.js";

export function Header() {
  const panel = useRead(() => store.panel.value);
  const title = useRead(shownTitle);
  const reachable = useRead(() => store.reachable.value);
  const waiting = useRead(() => store.waiting.value.length);
  const hasTurns = useRead(() => store.turns.value.length > 0);
  useEffect(() => {
    document.title = `${waiting ? `(${waiting}) ` : ""}${title} · Segue`;
  }, [title, waiting]);
  return html`<header class="bar">
    <${SidebarButton} />
    <h1>${title}</h1>
    ${!reachable && html`<p class="lost" role="status">${t("connection.lost")}</p>`}
    ${hasTurns &&
    html`<${IconButton} icon="search" label=${t("header.search")} onClick=${() => (store.dialog.value = "find")} />
      <${IconButton} icon="share" label=${t("header.share")}
      onClick=${() => (store.dialog.value = `share:${store.session.value}`)} />`}
    <${IconButton}
      icon="panel"
      label=${t(panel ? "inspector.close" : "inspector.open")}
      pressed=${Boolean(panel)}
      onClick=${() => (panel ? (store.panel.value = "") : openPanel())}
    />
  </header>`;
}

export function SidebarButton() {
  const sidebar = useRead(() => store.sidebar.value);
  const badge = useRead(() => store.waiting.value.length);
  const open = () => (store.sidebar.value = true);
  return !sidebar && html`<${IconButton} icon="sidebar" label=${t("sidebar.open")} badge=${badge} onClick=${open} />`;
}

function shownTitle() {
  const row = shownRow();
  if (row) return titleOf(row);
  return store.turns.value[0]?.value.message ?? (store.session.value || t("session.new"));
}
