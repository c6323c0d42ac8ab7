// @ts-check
/** The answer, as HTML that the service rendered and sanitised, or as text until it is rendered. */
import { ACTIVE } from "../state/turn.js";
import { t } from "../texts/index.js";
import { html, render, useEffect, useRef } from "../vendor/htm-preact.js";
import { copy } from "./copy.js";
import { IconButton } from "./icon-button.js";

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
    if (!element.current) return;
    element.current.innerHTML = source;
    element.current.querySelectorAll("pre").forEach(offerCopy);
  }, [source]);
  return html`<div class="markdown" ref=${element}></div>`;
}

/** Put a button beside a block of code. @param {HTMLElement} block */
function offerCopy(block) {
  const frame = document.createElement("div");
  frame.className = "code";
  block.replaceWith(frame);
  const act = () => copy(block.textContent ?? "");
  render(html`<${IconButton} icon="copy" label=${t("turn.copyCode")} onClick=${act} />`, frame);
  frame.prepend(block);
}
