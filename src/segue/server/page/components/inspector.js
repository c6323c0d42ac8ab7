// @ts-check
/** The inspector: panels beside the conversation, each loaded when it is first opened. */
import { panels } from "../panels/index.js";
import { useRead } from "../state/signals.js";
import { openPanel, store } from "../state/store.js";
import { loadPanelTexts, t, textOf } from "../texts/index.js";
import { html, useLayoutEffect, useRef } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";
import { IconButton } from "./icon-button.js";
import { lazy } from "./lazy.js";

const loaded = new Map(panels.map(({ key, load }) => [key, lazy(() => withTexts(load))]));

/** @param {import("../panels/index.js").PanelEntry["load"]} load */
async function withTexts(load) {
  await loadPanelTexts();
  return (await load()).default;
}

export function Inspector() {
  const shown = useRead(() => store.panel.value);
  const opener = useRef(/** @type {HTMLElement | null} */ (null));
  useLayoutEffect(() => {
    opener.current = /** @type {HTMLElement} */ (document.activeElement);
  }, []);
  const close = () => {
    store.panel.value = "";
    opener.current?.focus();
  };
  return html`<aside
    class="inspector"
    aria-label=${t("inspector.label")}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && close()}
  >
    <header>
      <div class="tabs" role="tablist" aria-label=${t("inspector.label")} onKeyDown=${onKey}>
        ${panels.map(({ key, icon }) => html`<${Tab} key=${key} panel=${key} icon=${icon} isShown=${key === shown} />`)}
      </div>
      <${IconButton} icon="close" label=${t("inspector.close")} onClick=${close} />
    </header>
    <div class="panel" role="tabpanel" id="panel" aria-labelledby=${`tab-${shown}`} tabindex="0">
      <${loaded.get(shown)} key=${shown} store=${store} />
    </div>
  </aside>`;
}

/** @param {{ panel: string, icon: string, isShown: boolean }} props */
function Tab({ panel, icon, isShown }) {
  const label = textOf(`panel.${panel}`, panel);
  return html`<button
    type="button"
    role="tab"
    id=${`tab-${panel}`}
    aria-selected=${isShown}
    aria-controls="panel"
    tabindex=${isShown ? 0 : -1}
    title=${label}
    onClick=${() => openPanel(panel)}
  >
    <${Icon} name=${icon} /><span>${label}</span>
  </button>`;
}

/** Arrow keys move along the tabs. @param {KeyboardEvent} event */
function onKey(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const place = panels.findIndex((panel) => panel.key === store.panel.value);
  const next = panels[(place + step + panels.length) % panels.length].key;
  openPanel(next);
  requestAnimationFrame(() => document.getElementById(`tab-${next}`)?.focus());
}
