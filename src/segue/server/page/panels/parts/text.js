// @ts-check
/** Values in one line, and costs. */
import { brief } from "../../components/readable.js";
import { t } from "../../texts/index.js";

/**
 * A value in one line, for a summary.
 *
 * @param {unknown} value
 * @param {number} [most]
 */
export function inline(value, most = 120) {
  const text = typeof value === "string" ? value : brief(value);
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most)}…` : line;
}

/** Markdown without the marks of headings, emphasis and code. @param {string} markdown */
export const unmarked = (markdown) => markdown.replace(/\*\*|^#+ |^\*(?=\S)|(?<=\S)\*$|`/gm, "");

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
