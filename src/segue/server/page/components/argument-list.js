// @ts-check
/** The arguments of a call: names and values, to read and to edit. */
import { parse } from "../state/json.js";
import { loadMoreTexts, t, textOf } from "../texts/index.js";
import { html, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";
import { brief, Readable } from "./readable.js";

await loadMoreTexts();

/** @import { Json, Source } from "../state/types.js" */
/** @typedef {Record<string, string>} Fields by the argument's name, a text as it is and any other value as JSON */

/** Characters of arguments in one line. */
const LINE = 200;

/** The arguments in one line. @param {Json} values */
export function inline(values) {
  const line = brief(values);
  return line.length > LINE ? `${line.slice(0, LINE)}…` : line;
}

/** A text as it is, any other value as JSON. @param {unknown} value @param {number} [indent] */
export function written(value, indent) {
  return typeof value === "string" ? value : (JSON.stringify(value, null, indent) ?? "");
}

/** @param {unknown} value */
const kindOf = (value) => (typeof value === "bigint" ? "number" : typeof value);

/** What an argument came from, in a line; empty where that is not known. @param {Source[]} [sources] */
export function originOf(sources = []) {
  const others = sources.filter(({ trusted }) => !trusted);
  const names = [...new Set((others.length ? others : sources).map(nameOf))].join(t("list.separator"));
  const isMixed = sources.some(({ kind, trusted }) => kind === "user" && trusted);
  if (!names) return "";
  return t(!others.length ? "origin.trusted" : isMixed ? "origin.othersToo" : "origin.others", { source: names });
}

/** @param {Source} source */
function nameOf({ kind, name, call, trusted }) {
  if (kind === "user") return t(trusted ? "source.user" : "source.imported");
  if (kind === "tool" || kind === "mcp") return t(call ? "source.tool" : "source.toolBefore", { name, call });
  return textOf(`source.${kind}`, kind).replace("{name}", () => name);
}

/** @param {{ values: Json, sources?: Record<string, Source[]> }} props */
export function ArgumentList({ values, sources = {} }) {
  const entries = Object.entries(values);
  if (!entries.length) return html`<p class="about">${t("approval.noArguments")}</p>`;
  return html`<dl class="arguments">
    ${entries.map(
      ([name, value]) => html`<div key=${name}>
        <dt>${name}</dt>
        <${Value} value=${value} name=${name} beside=${values} sources=${sources[name]} />
      </div>`,
    )}
  </dl>`;
}

/**
 * A value, and behind it what it came from. A long one scrolls, also by the keyboard.
 *
 * @param {{ value: unknown, name: string, beside: Json, sources?: Source[] }} props
 */
function Value({ value, name, beside, sources = [] }) {
  const origin = originOf(sources);
  const shown = useRef(/** @type {HTMLElement | null} */ (null));
  const [isLong, setLong] = useState(false);
  useLayoutEffect(() => {
    const box = /** @type {HTMLElement} */ (shown.current);
    const look = new ResizeObserver(() => setLong(box.scrollHeight > box.clientHeight));
    look.observe(box);
    return () => look.disconnect();
  }, [value]);
  return html`<dd ref=${shown} data-type=${kindOf(value)} tabindex=${isLong ? 0 : undefined}>
    <${Readable} value=${value} name=${name} beside=${beside} exact=${true} />
    ${origin && html`<span class="origin" data-trusted=${sources.every(({ trusted }) => trusted)}>${origin}</span>`}
  </dd>`;
}

/** @param {Json} values @returns {Fields} */
export function fieldsOf(values) {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, written(value, 2)]));
}

/**
 * The values of edited fields, each of its type before, and what is wrong with those that are not.
 *
 * @param {Json} before
 * @param {Fields} fields
 */
export function valuesOf(before, fields) {
  /** @type {Json} */
  const values = {};
  /** @type {Record<string, string>} */
  const problems = {};
  for (const [name, text] of Object.entries(fields)) {
    if (typeof before[name] === "string") values[name] = text;
    else {
      try {
        values[name] = parse(text);
        if (kindOf(before[name]) === "number" && kindOf(values[name]) !== "number") {
          problems[name] = t("approval.notNumber");
        }
      } catch (error) {
        const notJson = t("approval.notJson", { problem: /** @type {Error} */ (error).message });
        problems[name] = kindOf(before[name]) === "number" ? t("approval.notNumber") : notJson;
      }
    }
  }
  return { values, problems };
}

/**
 * @param {{ before: Json, fields: Fields, problems: Record<string, string>, change: (fields: Fields) => void }} props
 */
export function ArgumentFields({ before, fields, problems, change }) {
  return html`${Object.keys(fields).map((name) => {
    const value = before[name];
    const isShort = kindOf(value) === "number" || (typeof value === "string" && !/\n|.{60}/.test(value));
    return html`<label key=${name} class="argument">
      <span>${name}</span>
      ${typeof value === "boolean"
        ? html`<select value=${fields[name]} onChange=${onInput}>
            <option value="true">${t("approval.true")}</option>
            <option value="false">${t("approval.false")}</option>
          </select>`
        : html`<${isShort ? "input" : "textarea"}
            value=${fields[name]}
            inputmode=${kindOf(value) === "number" ? "decimal" : undefined}
            rows=${isShort ? undefined : Math.min(12, fields[name].split("\n").length + 1)}
            spellcheck=${typeof value === "string"}
            data-type=${kindOf(value)}
            aria-invalid=${Boolean(problems[name])}
            onInput=${onInput}
          />`}
      ${problems[name] && html`<span class="problem" role="alert">${problems[name]}</span>`}
    </label>`;

    function onInput(/** @type {any} */ event) {
      change({ ...fields, [name]: event.target.value });
    }
  })}`;
}
