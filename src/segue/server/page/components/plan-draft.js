// @ts-check
/** A plan that waits for its review: its steps, to read and to edit in place. */
import { parse } from "../state/json.js";
import { loadMoreTexts, t, textOf } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { inline, written } from "./argument-list.js";
import { IconButton } from "./icon-button.js";

await loadMoreTexts();

/** @import { Json } from "../state/types.js" */
/** @typedef {{ step: string, action: string, params: Json, description: string, phase: string, depends_on: string[],
 *   status?: string }} PlanStep */
/** @typedef {Omit<PlanStep, "params" | "depends_on"> & { key: number, params: string, after: string }} Row written */

/** @param {{ plan: Json }} props */
export function PlanList({ plan }) {
  const steps = /** @type {PlanStep[]} */ (plan.steps);
  return html`<p>${plan.goal}</p>
    <ol class="plan-draft">
      ${steps.map((step) => html`<li key=${step.step} data-status=${step.status ?? "pending"}>
        <p><b>${step.step}.</b> ${step.description || step.action}
          ${step.status && html` <span class="about">${textOf(`status.${step.status}`, step.status)}</span>`}</p>
        ${step.action && html`<p class="about"><code>${step.action}</code> ${inline(step.params ?? {})}</p>`}
        ${step.depends_on?.length > 0 && html`<p class="about">${t("plan.after")}: ${step.depends_on.join(", ")}</p>`}
      </li>`)}
    </ol>`;
}

/** @param {{ plan: Json, close: () => void, save: (plan: Json) => void }} props */
export function PlanForm({ plan, close, save }) {
  const [rows, setRows] = useState(() => /** @type {PlanStep[]} */ (plan.steps).map(rowOf));
  const problems = rows.map(({ params }) => problemOf(params));
  const isWrong = problems.some(Boolean);
  const change = (/** @type {number} */ key, /** @type {Partial<Row>} */ changes) =>
    setRows(rows.map((row) => (row.key === key ? { ...row, ...changes } : row)));
  const move = (/** @type {number} */ place, /** @type {number} */ to) =>
    setRows(rows.with(place, rows[to]).with(to, rows[place]));
  const add = () => setRows([...rows, { ...EMPTY, key: newKey(rows), step: freeNumber(rows) }]);
  const onSubmit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!isWrong) save({ ...plan, steps: rows.map(stepOf) });
  };
  return html`<form onSubmit=${onSubmit}>
    <ol class="plan-draft">
      ${rows.map((row, place) => html`<li key=${row.key}>
        ${row.status === "done" || row.status === "skipped"
          ? html`<p><b>${row.step}.</b> ${row.description} <span class="about">
              ${textOf(`status.${row.status}`, row.status)}</span></p>`
          : html`<${Fields} row=${row} problem=${problems[place]} change=${change} />
            <div class="decisions">
              <${IconButton} icon="send" label=${t("plan.up", { step: row.step })} disabled=${place === 0}
                onClick=${() => move(place, place - 1)} />
              <${IconButton} icon="down" label=${t("plan.down", { step: row.step })}
                disabled=${place === rows.length - 1} onClick=${() => move(place, place + 1)} />
              <${IconButton} icon="trash" label=${t("plan.remove", { step: row.step })}
                onClick=${() => setRows(rows.filter(({ key }) => key !== row.key))} />
            </div>`}
      </li>`)}
    </ol>
    <div class="decisions">
      <button type="submit" class="primary" disabled=${isWrong || !rows.length}>${t("plan.run")}</button>
      <button type="button" onClick=${add}>${t("plan.add")}</button>
      <button type="button" onClick=${close}>${t("dialog.cancel")}</button>
    </div>
  </form>`;
}

/** @param {{ row: Row, problem: string, change: (key: number, changes: Partial<Row>) => void }} props */
function Fields({ row, problem, change }) {
  const field = (/** @type {"description" | "action" | "after"} */ name, /** @type {string} */ label) =>
    html`<label class="argument"><span>${label}</span>
      <input value=${row[name]} onInput=${(/** @type {any} */ event) =>
        change(row.key, { [name]: event.target.value })} /></label>`;
  return html`<p><b>${row.step}.</b></p>
    ${field("description", t("plan.description"))}
    ${field("action", t("plan.action"))}
    <label class="argument"><span>${t("approval.arguments")}</span>
      <textarea rows=${Math.min(12, row.params.split("\n").length + 1)} spellcheck=${false} data-type="object"
        value=${row.params} aria-invalid=${Boolean(problem)} onInput=${(/** @type {any} */ event) =>
          change(row.key, { params: event.target.value })} />
      ${problem && html`<span class="problem" role="alert">${problem}</span>`}
    </label>
    ${field("after", t("plan.after"))}`;
}

const EMPTY = { action: "none", params: "{}", description: "", phase: "execution", after: "" };

/** @param {Row[]} rows */
const newKey = (rows) => Math.max(-1, ...rows.map(({ key }) => key)) + 1;

/** A number that no step has. @param {Row[]} rows */
function freeNumber(rows) {
  let number = rows.length + 1;
  while (rows.some(({ step }) => step === String(number))) number += 1;
  return String(number);
}

/** @param {PlanStep} step @param {number} key @returns {Row} */
function rowOf({ params, depends_on: after, ...step }, key) {
  return { ...step, key, params: written(params ?? {}, 2), after: (after ?? []).join(", ") };
}

/** @param {Row} row @returns {PlanStep} */
function stepOf({ key: _, params, after, ...step }) {
  return { ...step, params: parse(params), depends_on: after.split(",").map((each) => each.trim()).filter(Boolean) };
}

/** @param {string} params */
function problemOf(params) {
  try {
    const value = parse(params);
    return value && typeof value === "object" && !Array.isArray(value) ? "" : t("approval.notObject");
  } catch (error) {
    return t("approval.notJson", { problem: /** @type {Error} */ (error).message });
  }
}
