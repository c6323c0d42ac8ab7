// @ts-check
/** The sidebar: new conversation, inbox, search, the sessions by age, and settings. */
import { attempt } from "../state/failures.js";
import { focusComposer } from "../state/focus.js";
import { goTo, pageAddress, route } from "../state/router.js";
import { loadSessions } from "../state/sessions.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";
import { IconButton } from "./icon-button.js";
import { SessionList } from "./session-list.js";
import { Settings } from "./settings.js";

/** On a narrow screen the sidebar is a drawer, which a choice closes. */
export function closeDrawer() {
  if (window.matchMedia("(max-width: 899px)").matches) store.sidebar.value = false;
}

export function Sidebar() {
  const isOpen = useRead(() => store.sidebar.value);
  const search = useRead(() => store.search.value);
  return html`<nav class="sidebar" aria-label=${t("sidebar.label")} hidden=${!isOpen}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && closeDrawer()}>
    <div class="sidebar-head">
      <img src="page/icon.svg" alt="" width="26" height="26" />
      <span class="brand">Segue</span>
      <${IconButton} icon="sidebar" label=${t("sidebar.close")} onClick=${() => (store.sidebar.value = false)} />
    </div>
    <button type="button" class="row" onClick=${startNew}><${Icon} name="plus" />${t("sidebar.new")}</button>
    <${InboxButton} />
    <${WorkspaceLink} />
    <label class="search">
      <${Icon} name="search" />
      <input
        type="search"
        placeholder=${t("sidebar.search")}
        aria-label=${t("sidebar.search")}
        value=${search}
        onInput=${find}
      />
    </label>
    <${SessionList} />
    <${Settings} />
  </nav>`;
}

function InboxButton() {
  const waiting = useRead(() => store.waiting.value.length);
  return html`<button
    type="button"
    class="row"
    aria-label=${waiting ? t("inbox.count", { n: waiting }) : t("inbox.label")}
    onClick=${() => (store.dialog.value = "inbox")}
  >
    <${Icon} name="inbox" />${t("inbox.label")} ${waiting > 0 && html`<span class="count">${waiting}</span>`}
  </button>`;
}

function WorkspaceLink() {
  const isShown = useRead(() => Boolean(route.value.page));
  return html`<a class="button row" href=${pageAddress("usage")} aria-current=${isShown ? "page" : undefined}
    onClick=${closeDrawer}><${Icon} name="graph" />${t("inspector.workspace")}</a>`;
}

export function startNew() {
  closeDrawer();
  goTo("");
  requestAnimationFrame(focusComposer);
}

/** @param {InputEvent} event */
function find(event) {
  store.search.value = /** @type {HTMLInputElement} */ (event.target).value;
  void attempt(loadSessions);
}
