// @ts-check
/** Parts of the panels of rehearsals and backtests, both of which run in the background. */
import { Icon } from "../../components/icon.js";
import { pageAddress } from "../../state/router.js";
import { t } from "../../texts/index.js";
import { html, useEffect } from "../../vendor/htm-preact.js";

/** Milliseconds between two looks at what runs. */
const POLL = 1_500;

/** Look again while something runs. @param {boolean} isRunning @param {() => void} reload */
export function useRunning(isRunning, reload) {
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(reload, POLL);
    return () => clearInterval(timer);
  }, [isRunning]);
}

/** @param {{ label: string, page: string }} props */
export function Back({ label, page }) {
  return html`<a class="button back" href=${pageAddress(page)}>${label}</a>`;
}

/** How far it is. @param {{ isRunning: boolean, text: string }} props */
export function Ended({ isRunning, text }) {
  return html`<span class="about">${isRunning && html`<span class="spinner"></span> `}${text}</span>`;
}

/** @param {{ done: number, total: number, label: string, text: string, stop: () => void }} props */
export function Progress({ done, total, label, text, stop }) {
  return html`<div class="progress" role="status">
    <progress value=${total ? done : undefined} max=${total || undefined} aria-label=${label}></progress>
    <${Ended} isRunning=${true} text=${text} />
    <button type="button" onClick=${stop}><${Icon} name="stop" />${t("rehearsals.stop")}</button>
  </div>`;
}

/** @param {{ label: string, value: string, values: string[][], set: (value: string) => void }} props */
export function Choice({ label, value, values, set }) {
  return html`<label>
    <span>${label}</span>
    <select value=${value} onChange=${(/** @type {any} */ event) => set(event.target.value)}>
      ${values.map(([key, text]) => html`<option key=${key} value=${key}>${text}</option>`)}
    </select>
  </label>`;
}

/** A name that is not taken. @param {string} word @param {string[]} names */
export function newName(word, names) {
  let number = names.length + 1;
  while (names.includes(`${word}-${number}`)) number += 1;
  return `${word}-${number}`;
}
