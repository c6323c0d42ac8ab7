// @ts-check
/** The answer, as HTML that the service rendered and sanitised, or as text until it is rendered. */
import { ACTIVE } from "../state/turn.js";
import { html, useEffect, useRef } from "../vendor/htm-preact.js";

/** @import { Turn } from "../state/types.js" */

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
  useEffect(() => {
    if (element.current) element.current.innerHTML = source;
  }, [source]);
  return html`<div class="markdown" ref=${element}></div>`;
}
