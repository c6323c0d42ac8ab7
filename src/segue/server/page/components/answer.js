// @ts-check
/** The answer, as HTML that the service rendered and sanitised, or as text until it is rendered. */
import { ACTIVE } from "../state/turn.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { enrich } from "./rich-text.js";
import { loadStyleSheets } from "./style-sheets.js";

/** @import { Turn } from "../state/types.js" */

await loadStyleSheets("answer");

/** @param {{ shown: Turn }} props */
export function Answer({ shown }) {
  const text = shown.draft || shown.answer;
  const isActive = ACTIVE.has(shown.status);
  if (!text) return null;
  return html`<div class="answer" aria-live="polite" aria-busy=${isActive} data-streaming=${Boolean(shown.draft)}>
    ${shown.html ? html`<${Rendered} source=${shown.html} />` : html`<p class="plain">${text}</p>`}
  </div>`;
}

/** The one place where HTML is set: the service sanitised it. @param {{ source: string }} props */
function Rendered({ source }) {
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  const [, setLoaded] = useState(0);
  useEffect(() => {
    if (!element.current) return;
    const next = document.createElement("template");
    next.innerHTML = source;
    const loading = enrich(next.content);
    replaceEnd(element.current, next.content);
    loading?.then(() => setLoaded((count) => count + 1)).catch(() => {}); // plain meanwhile
  });
  return html`<div class="markdown" ref=${element}></div>`;
}

/**
 * Replace what differs at the end: what is written already stays, as it is selected and scrolled.
 *
 * @param {Element} shown
 * @param {ParentNode} next
 */
function replaceEnd(shown, next) {
  const [before, after] = [[...shown.childNodes], [...next.childNodes]];
  const differs = before.findIndex((node, place) => !after[place] || !node.isEqualNode(after[place]));
  let place = differs < 0 ? before.length : differs;
  const [old, grown] = [before[place], after[place]];
  if (old instanceof Element && grown instanceof Element && old.cloneNode().isEqualNode(grown.cloneNode())) {
    replaceEnd(old, grown);
    place += 1;
  }
  for (const node of before.slice(place)) node.remove();
  shown.append(...after.slice(place));
}
