// @ts-check
/** A value as text, short at first. */
import { t } from "../../texts/index.js";
import { html, useState } from "../../vendor/htm-preact.js";

/** Characters that are shown at first. */
const SHORT = 800;

/** @param {{ value: unknown, label?: string }} props */
export function Text({ value, label = "" }) {
  const [isLong, setLong] = useState(false);
  const text = typeof value === "string" ? value : (JSON.stringify(value, null, 2) ?? "");
  const isCut = text.length > SHORT && !isLong;
  return html`<div class="text">
    ${label && html`<h4>${label}</h4>`}
    <pre tabindex="0">${isCut ? `${text.slice(0, SHORT)}…` : text}</pre>
    ${text.length > SHORT &&
    html`<button type="button" class="quiet" onClick=${() => setLong(!isLong)}>
      ${t(isLong ? "call.showLess" : "call.showAll")}
    </button>`}
  </div>`;
}

/**
 * A value in one line, for a summary.
 *
 * @param {unknown} value
 * @param {number} [most]
 */
export function inline(value, most = 120) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

/**
 * What was paid, with its currency; `unknown` where that is not known, and nothing where nothing was.
 *
 * @param {number | null | undefined} cost
 */
export function costText(cost, currency = "", unknown = t("details.costUnknown")) {
  if (!cost) return cost === 0 ? "" : unknown;
  const named = /^[A-Z]{3}$/.test(currency) ? { style: /** @type {const} */ ("currency"), currency } : {};
  const digits = cost < 1 ? { maximumSignificantDigits: 2 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return cost.toLocaleString(document.documentElement.lang, { ...named, ...digits });
}
