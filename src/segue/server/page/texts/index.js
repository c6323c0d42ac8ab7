// @ts-check
/** The page's texts in the language that it is shown in. */
import { remembered } from "../state/storage.js";
import { effect, signal } from "../vendor/signals-core.js";

/** @typedef {typeof import("./en.js").default & typeof import("./en-more.js").default} FirstTexts */
/** @typedef {FirstTexts & typeof import("./en-panels.js").default} Texts */
/** @typedef {keyof Texts} TextKey */

/** @typedef {Record<string, () => Promise<{ default: Partial<Texts> }>>} Part by language */

/** @type {Part} */
const FIRST = { en: () => import("./en.js"), zh: () => import("./zh.js") };
/** @type {Part} */
const PANELS = { en: () => import("./en-panels.js"), zh: () => import("./zh-panels.js") };
/** @type {Part} */
const MORE = { en: () => import("./en-more.js"), zh: () => import("./zh-more.js") };
const parts = new Set([FIRST]);
/** "en", "zh", or empty for the browser's. */
export const chosenLanguage = remembered("language", "");
/** The language that is shown; it changes once its texts are loaded. */
export const language = signal(wanted());
/** @type {Texts} */
let texts = await load(language.value);

function wanted() {
  return chosenLanguage.value || (navigator.language.startsWith("zh") ? "zh" : "en");
}

/** @param {string} name @returns {Promise<Texts>} */
async function load(name) {
  const loaded = await Promise.all([...parts].map((part) => part[name]()));
  return Object.assign({}, ...loaded.map((part) => part.default));
}

/** @param {string} name */
async function show(name) {
  const loaded = await load(name);
  if (name !== wanted()) return;
  texts = { ...texts, ...loaded };
  language.value = name;
  document.documentElement.lang = name === "zh" ? "zh-CN" : "en";
}

effect(() => void show(wanted()));

/** Load the texts of dialogs, search and keys, too. */
export function loadMoreTexts() {
  parts.add(MORE);
  return show(wanted());
}

/** Load the texts of the panels and of the HTTP API's page, too. */
export function loadPanelTexts() {
  parts.add(PANELS);
  return show(wanted());
}

/**
 * The text of this key, with `{name}` replaced by the value of that name.
 *
 * @param {TextKey} key
 * @param {Record<string, string | number>} [values]
 */
export function t(key, values = {}) {
  return texts[key].replace(/\{(\w+)\}/g, (found, name) => String(values[name] ?? found));
}

/**
 * The text of a key that is only known when the page runs, or `otherwise`.
 *
 * @param {string} key
 * @param {string} otherwise
 */
export function textOf(key, otherwise) {
  return key in texts ? t(/** @type {TextKey} */ (key)) : otherwise;
}

/** What the service gives as a reason, which it writes in English. @param {string} reason */
export function reasonOf(reason) {
  return textOf(`reason.${reason.replaceAll(" ", "_")}`, reason);
}

/**
 * A time of day today, else a date.
 *
 * @param {number} seconds Unix time
 */
export function moment(seconds) {
  const date = new Date(seconds * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  /** @type {Intl.DateTimeFormatOptions} */
  const form = isToday ? { timeStyle: "short" } : { month: "short", day: "numeric" };
  return date.toLocaleString(document.documentElement.lang, form);
}

/** @param {number} seconds Unix time */
export function dateTime(seconds) {
  const date = new Date(seconds * 1000);
  return date.toLocaleString(document.documentElement.lang, { dateStyle: "medium", timeStyle: "short" });
}

/** @param {number} seconds */
export function duration(seconds) {
  if (seconds < 1) return t("time.milliseconds", { n: Math.round(seconds * 1000) });
  if (seconds < 60) return t("time.seconds", { n: seconds.toFixed(seconds < 10 ? 1 : 0) });
  return t("time.minutes", { n: Math.floor(seconds / 60), rest: Math.round(seconds % 60) });
}
