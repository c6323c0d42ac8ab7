// @ts-check
/** The inspector: panels beside the conversation, each loaded when it is first opened. */
import { componentsOf, panels } from "../panels/index.js";
import { useRead } from "../state/signals.js";
import { openPanel, store } from "../state/store.js";
import { t, textOf } from "../texts/index.js";
import { html, useLayoutEffect, useRef } from "../vendor/htm-preact.js";
import { isComposing } from "./composing.js";
import { IconButton } from "./icon-button.js";
import { loadStyleSheets } from "./style-sheets.js";

await loadStyleSheets("inspector");

const loaded = componentsOf(panels);

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
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && !isComposing(event) && close()}
  >
    <header>
      <${Tabs} shown=${shown} />
      <${IconButton} icon="close" label=${t("inspector.close")} onClick=${close} />
    </header>
    <div class="panel" role="tabpanel" id="panel" aria-label=${textOf(`panel.${shown}`, shown)} tabindex="0">
      <${loaded.get(shown)} key=${shown} />
    </div>
  </aside>`;
}

/** Those of the panels that have something to show. @param {{ shown: string }} props */
function Tabs({ shown }) {
  const keys = useRead(() => {
    const turns = store.turns.value.map(({ value }) => value);
    return panels.filter(({ key, fits }) => key === shown || !fits || turns.some(fits)).map(({ key }) => key).join();
  }, [shown]).split(",");
  return html`<div class="tabs" role="tablist" aria-label=${t("inspector.label")} onKeyDown=${onKey}>
    ${keys.map(
      (key) => html`<button
        type="button"
        key=${key}
        role="tab"
        id=${`tab-${key}`}
        aria-selected=${key === shown}
        aria-controls="panel"
        tabindex=${key === shown ? 0 : -1}
        onClick=${() => openPanel(key)}
      >
        ${textOf(`panel.${key}`, key)}
      </button>`,
    )}
  </div>`;
}

/** Arrow keys move along the tabs. @param {KeyboardEvent} event */
function onKey(event) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const tabs = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".inspector [role=tab]")]);
  const place = tabs.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  const next = tabs[(place + step + tabs.length) % tabs.length];
  next.focus();
  next.click();
}
