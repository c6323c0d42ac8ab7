// @ts-check
/** The keys of the page. */
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Dialog } from "./dialog.js";

/** @type {[string, import("../texts/index.js").TextKey][]} */
const KEYS = [
  ["Ctrl+K", "palette.title"],
  ["/", "keys.commands"],
  ["Ctrl+Shift+O", "sidebar.new"],
  ["?", "keys.title"],
  ["Enter", "composer.send"],
  ["Shift+Enter", "keys.line"],
  ["A · E · R", "keys.decide"],
  ["Esc", "dialog.close"],
];

/** @param {{ close: () => void }} props */
export function KeysDialog({ close }) {
  return html`<${Dialog} title=${t("keys.title")} onClose=${close}>
    <dl class="keys">
      ${KEYS.map(([key, does]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${t(does)}</dd></div>`)}
    </dl>
  <//>`;
}
