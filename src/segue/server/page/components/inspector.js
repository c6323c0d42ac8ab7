// @ts-check
/** The inspector: panels beside the conversation, each loaded when it is first opened. */
import { emptyPanels, panels } from "../panels/index.js";
import { useRead } from "../state/signals.js";
import { openPanel, store } from "../state/store.js";
import { loadPanelTexts, t, textOf } from "../texts/index.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";
import { isComposing } from "./composing.js";
import { IconButton } from "./icon-button.js";
import { lazy } from "./lazy.js";

const GROUPS = /** @type {const} */ (["session", "workspace"]);
const every = [...panels.session, ...panels.workspace];
const loaded = new Map(every.map(({ key, load }) => [key, lazy(() => withTexts(load))]));

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
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && !isComposing(event) && close()}
  >
    <header>
      <div class="tab-groups" onKeyDown=${onKey}>
        ${GROUPS.map((group) => html`<${Tabs} key=${group} group=${group} shown=${shown} />`)}
      </div>
      <${IconButton} icon="close" label=${t("inspector.close")} onClick=${close} />
    </header>
    <div class="panel" role="tabpanel" id="panel" aria-label=${textOf(`panel.${shown}`, shown)} tabindex="0">
      <${loaded.get(shown)} key=${shown} store=${store} />
    </div>
  </aside>`;
}

/** Those of the panels that have something to show. @param {{ group: typeof GROUPS[number], shown: string }} props */
function Tabs({ group, shown }) {
  const modes = useRead(() => store.turns.value.map(({ value }) => `${value.mode} ${value.status}`).join());
  const [empty, setEmpty] = useState(/** @type {Set<string>} */ (new Set()));
  useEffect(() => {
    if (group === "workspace") void emptyPanels().then(setEmpty);
  }, [modes, shown]);
  const turns = store.turns.value.map(({ value }) => value);
  const keys = panels[group]
    .filter(({ key, fits }) => key === shown || (!empty.has(key) && (!fits || turns.some(fits))))
    .map(({ key }) => key);
  return html`<div class="tab-group">
    <span class="about" id=${`tabs-${group}`}>${t(`inspector.${group}`)}</span>
    <div class="tabs" role="tablist" aria-labelledby=${`tabs-${group}`}>
      ${keys.map(
        (key, place) => html`<button
          type="button"
          key=${key}
          role="tab"
          id=${`tab-${key}`}
          aria-selected=${key === shown}
          aria-controls="panel"
          tabindex=${key === shown || (!place && !keys.includes(shown)) ? 0 : -1}
          onClick=${() => openPanel(key)}
        >
          ${textOf(`panel.${key}`, key)}
        </button>`,
      )}
    </div>
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
