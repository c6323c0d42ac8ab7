// @ts-check
/** One row of a timeline: what it is, when it ran, and on demand what it was about. */
import { Value } from "../../components/call.js";
import { Icon } from "../../components/icon.js";
import { duration } from "../../texts/index.js";
import { html, useState } from "../../vendor/htm-preact.js";

/** @import { Axis, Row } from "./spans.js" */

/** @type {Record<string, string>} */
const ICONS = { head: "retry", model: "thought" };

/** @param {{ row: Row, axis: Axis }} props */
export function SpanRow({ row, axis }) {
  const { kind, label, about, depth, details, state } = row;
  const [isOpen, setOpen] = useState(false);
  const summary = html`<${Icon} name=${ICONS[kind] ?? kind} />
    <span class="label"><b>${label}</b> <span class="about">${about}</span></span>
    ${kind === "head" ? null : html`<${Bar} row=${row} axis=${axis} />`}`;
  return html`<li class="span" data-kind=${kind} data-depth=${depth} data-state=${state}>
    ${details.length
      ? html`<details onToggle=${(/** @type {Event} */ event) => setOpen(isShown(event))}>
          <summary>${summary}</summary>
          ${isOpen && details.map(([name, value]) => html`<${Value} key=${name} label=${name} value=${value} />`)}
        </details>`
      : html`<div class="summary">${summary}</div>`}
  </li>`;
}

/** @param {Event} event */
function isShown(event) {
  return /** @type {HTMLDetailsElement} */ (event.currentTarget).open;
}

/** @param {{ row: Row, axis: Axis }} props */
function Bar({ row, axis }) {
  const left = axis(row.start);
  const style = { left: `${left * 100}%`, width: `${(axis(row.end) - left) * 100}%` };
  const seconds = row.end - row.start;
  return html`<span class="track" aria-hidden="true"><span class="run" style=${style}></span></span>
    <span class="took">${seconds > 0 ? duration(seconds) : ""}</span>`;
}
