// @ts-check
/** A value as people write it: names and values in place of JSON, and amounts with their currency. */
import { loadMoreTexts, t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { loadStyleSheets } from "./style-sheets.js";

/** @import { Json } from "../state/types.js" */

await Promise.all([loadStyleSheets("readable"), loadMoreTexts()]);

/** What lies deeper is shown as JSON. */
const DEEPEST = 4;
/** Names of what has the `currency` that stands beside it. */
const MONEY = /(^|_)(amount|price|cost|total|fee)$/i;
/** Texts that in a line could be several values, or another one. */
const UNCLEAR = /[,;:"\n]|^\s|\s$/;
/** Texts that read as a value of another type. */
const LIKE_ANOTHER = /^(null|-?\d[\d.e+-]*|\[.*\]|\{.*\}|".*"|.*\(-?\d[\d.e+-]*\)|\s*)$/is;

/** Whether a value has parts of its own. @param {unknown} value @returns {value is Json | unknown[]} */
export const isNested = (value) => typeof value === "object" && value !== null;

/** Whether a value has parts, and none of them has. @param {unknown} value */
const isFlat = (value) => isNested(value) && !Object.values(value).some(isNested);

/**
 * A value without parts in words.
 *
 * @param {unknown} value
 * @param {string} [name]
 * @param {Json} [beside] what its name stands in
 */
export function plain(value, name = "", beside = {}) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return t(value ? "approval.true" : "approval.false");
  return typeof value === "number" && MONEY.test(name) ? money(value, beside.currency) : String(value);
}

/** The same, where no two values may look alike. @param {unknown} value @param {string} name @param {Json} beside */
function exactly(value, name, beside) {
  if (value === null || value === undefined) return "null";
  if (typeof value === "string") return isLikeAnother(value) ? JSON.stringify(value) : value;
  const text = plain(value, name, beside);
  return typeof value !== "number" || text === String(value) ? text : `${text} (${value})`;
}

/** Whether a text reads as a value of another type. @param {string} text */
function isLikeAnother(text) {
  return LIKE_ANOTHER.test(text) || [t("approval.true"), t("approval.false")].includes(text);
}

/** An amount, with its currency where that is one. @param {number} value @param {unknown} currency */
function money(value, currency) {
  const text = String(value);
  if (typeof currency !== "string" || !/^[A-Z]{3}$/.test(currency) || text.includes("e")) return text;
  const digits = Math.max(2, (text.split(".")[1] ?? "").length);
  const form = { style: /** @type {const} */ ("currency"), currency, maximumFractionDigits: Math.min(digits, 20) };
  return value.toLocaleString(document.documentElement.lang, form);
}

/** A text within others, quoted where it could be several. @param {string} text */
const within = (text) => (UNCLEAR.test(text) ? JSON.stringify(text) : text);

/**
 * A value in a line; no two values look alike.
 *
 * @param {unknown} value
 * @param {string} [name]
 * @param {Json} [beside]
 * @returns {string}
 */
export function brief(value, name = "", beside = {}) {
  if (typeof value === "string" && UNCLEAR.test(value)) return JSON.stringify(value);
  if (!isNested(value)) return exactly(value, name, beside);
  if (!Object.keys(value).length) return JSON.stringify(value);
  if (Array.isArray(value)) return value.map((each) => inner(each)).join(value.every(isNested) ? "; " : ", ");
  const named = /** @type {Json} */ (value);
  return Object.entries(named).map(([key, each]) => `${within(key)}: ${inner(each, key, named)}`).join(", ");
}

/** A value within another one, in a line. @param {unknown} value @param {string} [name] @param {Json} [beside] */
function inner(value, name, beside) {
  const text = brief(value, name, beside);
  if (!isNested(value) || !Object.keys(value).length) return text;
  return Array.isArray(value) ? `[${text}]` : `{${text}}`;
}

/**
 * @param {{ value: unknown, name?: string, beside?: Json, depth?: number, exact?: boolean }} props `exact` where no two
 *   values may look alike
 */
export function Readable({ value, name = "", beside = {}, depth = 0, exact = false }) {
  const say = exact ? exactly : plain;
  if (!isNested(value)) return html`<span class="plain">${say(value, name, beside)}</span>`;
  if (!Object.keys(value).length) return html`<span class="plain">${exact ? JSON.stringify(value) : "–"}</span>`;
  if (depth === DEEPEST) return html`<code>${JSON.stringify(value)}</code>`;
  if (Array.isArray(value)) return html`<${List} value=${value} depth=${depth} exact=${exact} />`;
  return html`<dl class="readable">
    ${Object.entries(value).map(
      ([key, each]) => html`<div key=${key} data-nested=${isNested(each) && !isFlat(each)}>
        <dt>${key}</dt>
        <dd><${Readable} value=${each} name=${key} beside=${value} depth=${depth + 1} exact=${exact} /></dd>
      </div>`,
    )}
  </dl>`;
}

/** @param {{ value: unknown[], depth: number, exact: boolean }} props */
function List({ value, depth, exact }) {
  const line = isFlat(value) ? (exact ? inner : brief)(value) : "";
  if (line && line.length < 80) return html`<span class="plain">${line}</span>`;
  if (isTable(value)) return html`<${Rows} rows=${value} say=${exact ? exactly : plain} />`;
  return html`<ol class="readable">
    ${value.map(
      (each, place) => html`<li key=${place}><${Readable} value=${each} depth=${depth + 1} exact=${exact} /></li>`,
    )}
  </ol>`;
}

/** Whether these are several objects of the same names, none of which has parts. @param {unknown[]} value */
function isTable(value) {
  const names = Object.keys(value[0] ?? {}).join();
  const isRow = (/** @type {any} */ each) => isFlat(each) && Object.keys(each).join() === names;
  return value.length > 1 && !Array.isArray(value[0]) && value.every(isRow);
}

/** @param {{ rows: Json[], say: typeof plain }} props */
function Rows({ rows, say }) {
  const names = Object.keys(rows[0]);
  return html`<div class="readable rows" tabindex="0">
    <table>
      <thead><tr>${names.map((name) => html`<th key=${name} scope="col">${name}</th>`)}</tr></thead>
      <tbody>
        ${rows.map(
          (row, place) => html`<tr key=${place}>
            ${names.map(
              (name) => html`<td key=${name} data-type=${typeof row[name]}>${say(row[name], name, row)}</td>`,
            )}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
