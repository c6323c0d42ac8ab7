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
    ${shown.html ? html`<${Rendered} source=${shown.html} isWhole=${!isActive} />` : html`<p class="plain">${text}</p>`}
  </div>`;
}

/** The one place where HTML is set: the service sanitised it. @param {{ source: string, isWhole: boolean }} props */
function Rendered({ source, isWhole }) {
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!element.current) return;
    const next = document.createElement("template");
    next.innerHTML = source;
    replaceEnd(element.current, next.content);
    if (isWhole) complete(element.current);
  }, [source, isWhole]);
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

/** Once it is written: the keyboard scrolls what is wide, and code is copied. @param {Element} shown */
function complete(shown) {
  for (const wide of shown.querySelectorAll("pre, table")) wide.setAttribute("tabindex", "0");
  shown.querySelectorAll(":not(.code) > pre").forEach(offerCopy);
}

/** Put a button beside a block of code. @param {Element} block */
function offerCopy(block) {
  const frame = document.createElement("div");
  frame.className = "code";
  block.replaceWith(frame);
  const act = () => copy(block.textContent ?? "");
  render(html`<${IconButton} icon="copy" label=${t("turn.copyCode")} onClick=${act} />`, frame);
  frame.prepend(block);
}
