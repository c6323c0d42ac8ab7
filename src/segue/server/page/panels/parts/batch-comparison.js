// @ts-check
/** Two batches side by side: the success of each scenario, and each conversation's outcomes. */
import { get } from "../../state/api.js";
import { t } from "../../texts/index.js";
import { html, useState } from "../../vendor/htm-preact.js";
import { Pending, useLoaded } from "./loaded.js";
import { percent, Transcript } from "./report.js";

/** @import { Estimate } from "./report.js" */
/** @typedef {{ success: boolean | null, fault: { reason: string } | null }} Ended */
/**
 * @typedef {{ a: string, b: string, tested: Record<"a" | "b", Record<string, string>>, conclusion: string,
 *   summary: Record<"a" | "b", { success: Estimate | null }>,
 *   scenarios: { scenario: string, a: Estimate | null, b: Estimate | null }[],
 *   conversations: { conversation_id: string, scenario: string, a: Ended | null, b: Ended | null }[] }} Compared
 */

const SIDES = /** @type {const} */ (["a", "b"]);

/** @param {{ a: string, b: string }} props `a` is the earlier one */
export function BatchComparison({ a, b }) {
  const address = `/api/rehearsals/${encodeURIComponent(b)}/compare?against=${encodeURIComponent(a)}`;
  const loaded = useLoaded(() => get(address), [address]);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  return html`<${Both} found=${loaded.value} />`;
}

/** @param {{ found: Compared }} props */
function Both({ found }) {
  return html`<dl class="sides">
      ${SIDES.map(
        (side) => html`<div key=${side}>
          <dt>${side.toUpperCase()}</dt>
          <dd>${found[side]} <span class="about">${settingsOf(found, side)}</span></dd>
        </div>`,
      )}
    </dl>
    <p class="conclusion">${found.conclusion}</p>
    <table>
      <thead>
        <tr>
          <th scope="col">${t("report.scenario")}</th><th scope="col">A</th><th scope="col">B</th>
          <th scope="col">${t("comparison.change")}</th>
        </tr>
      </thead>
      <tbody>
        <${Rates} name=${t("comparison.all")} a=${found.summary.a.success} b=${found.summary.b.success} />
        ${found.scenarios.map(
          ({ scenario, a, b }) => html`<${Rates} key=${scenario} name=${scenario} a=${a} b=${b} />`,
        )}
      </tbody>
    </table>
    <h4>${t("report.conversations")}</h4>
    <ul class="outcomes">
      ${[...found.conversations]
        .sort((one, other) => Number(differs(other)) - Number(differs(one)))
        .map((row) => html`<${Pair} key=${row.conversation_id} row=${row} batches=${found} />`)}
    </ul>`;
}

/** The settings in which the two differ. @param {Compared} found @param {"a" | "b"} side */
function settingsOf({ tested }, side) {
  const other = side === "a" ? "b" : "a";
  const own = Object.entries(tested[side]).filter(([name, value]) => tested[other][name] !== value);
  return own.map(([name, value]) => `${name}: ${value}`).join(", ");
}

/** @param {{ name: string, a: Estimate | null, b: Estimate | null }} props */
function Rates({ name, a, b }) {
  const change = a && b ? b.value - a.value : 0;
  return html`<tr>
    <td>${name}</td>
    ${[a, b].map((rate, place) => html`<td key=${place}>${percent(rate ? rate.value : null)}</td>`)}
    <td data-status=${stateOf(change)}>${change ? `${change > 0 ? "+" : ""}${percent(change)}` : "–"}</td>
  </tr>`;
}

/** @param {number} change */
function stateOf(change) {
  if (!change) return "";
  return change > 0 ? "done" : "error";
}

/** @param {Compared["conversations"][number]} row */
const differs = ({ a, b }) => Boolean(a && b && a.success !== b.success);

/** A conversation of both batches. @param {{ row: Compared["conversations"][number], batches: Compared }} props */
function Pair({ row, batches }) {
  const [isOpen, setOpen] = useState(false);
  return html`<li>
    <details onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.target).open)}>
      <summary>
        ${SIDES.map((side) => html`<${Mark} key=${side} side=${side} ended=${row[side]} />`)}
        <span>${row.conversation_id}</span>
        ${differs(row) &&
        html`<span class="about">${t(row.b?.success ? "comparison.better" : "comparison.worse")}</span>`}
      </summary>
      ${isOpen &&
      html`<div class="both">
        ${SIDES.map((side) => html`<${Side} key=${side} side=${side} row=${row} batch=${batches[side]} />`)}
      </div>`}
    </details>
  </li>`;
}

/** @param {{ side: "a" | "b", ended: Ended | null }} props */
function Mark({ side, ended }) {
  const state = ended?.success ? "done" : ended?.success === false ? "error" : "";
  const how = state ? t(state === "done" ? "report.succeeded" : "report.failed") : t("comparison.none");
  return html`<span class="mark" data-status=${state} role="img" aria-label=${`${side.toUpperCase()}: ${how}`}></span>`;
}

/** @param {{ side: "a" | "b", row: Compared["conversations"][number], batch: string }} props */
function Side({ side, row, batch }) {
  const ended = row[side];
  return html`<section>
    <h4>${side.toUpperCase()} · ${batch}</h4>
    ${ended?.fault && html`<p class="warning">${ended.fault.reason}</p>`}
    ${ended
      ? html`<${Transcript} address=${`/api/rehearsals/${encodeURIComponent(batch)}/${row.conversation_id}`} />`
      : html`<p class="about">${t("comparison.none")}</p>`}
  </section>`;
}
