// @ts-check
/** The report of a batch of rehearsals. */
import { get } from "../../state/api.js";
import { t, textOf } from "../../texts/index.js";
import { html, useState } from "../../vendor/htm-preact.js";
import { Pending, useLoaded } from "./loaded.js";
import { inline } from "./text.js";

/**
 * @typedef {{ value: number, low: number, high: number }} Estimate
 * @typedef {{ conversations: number, success: Estimate | null, precision: number | null, recall: number | null,
 *   turns_mean: number, seconds_mean: number, cost: number | null, faults: Record<string, number> }} Summary
 * @typedef {{ conversation_id: string, success: boolean | null, turns: number,
 *   fault: { party: string, turn: number, reason: string } | null }} Outcome
 * @typedef {{ summary: Summary, pass_hat: Record<string, Estimate>, scenarios: Record<string, Summary>,
 *   conversations: Outcome[], comparison?: { conclusion: string } }} ReportForm
 */

/** @param {{ report: ReportForm, batch: string }} props */
export function Report({ report, batch }) {
  const { summary, pass_hat: powers, scenarios, conversations, comparison } = report;
  /** @type {[string, string][]} */
  const facts = [
    [t("report.precision"), percent(summary.precision)],
    [t("report.recall"), percent(summary.recall)],
    ...Object.entries(powers).map(([k, rate]) => /** @type {[string, string]} */ ([`pass^${k}`, percent(rate.value)])),
    [t("report.turns"), summary.turns_mean.toFixed(1)],
  ];
  return html`
    ${summary.success && html`<h4>${t("report.success")}</h4><${Rate} rate=${summary.success} />`}
    ${comparison && html`<p class="about">${comparison.conclusion}</p>`}
    <dl class="totals">
      ${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
    </dl>
    <${Scenarios} scenarios=${scenarios} />
    <h4>${t("report.conversations")}</h4>
    <ul class="outcomes">
      ${conversations.map((each) => html`<${OutcomeView} key=${each.conversation_id} each=${each} batch=${batch} />`)}
    </ul>
  `;
}

/** A rate with its interval. @param {{ rate: Estimate }} props */
export function Rate({ rate }) {
  const { value, low, high } = rate;
  return html`<span class="rate">
    <span class="scale" aria-hidden="true">
      <span class="interval" style=${{ left: percent(low), width: percent(high - low) }}></span>
      <span class="point" style=${{ left: percent(value) }}></span>
    </span>
    <span>
      ${percent(value)} <span class="about">${t("report.interval", { low: percent(low), high: percent(high) })}</span>
    </span>
  </span>`;
}

/** @param {number | null} share */
export function percent(share) {
  return share === null ? "–" : `${(share * 100).toFixed(share < 1 && share > 0 ? 1 : 0)}%`;
}

/** @param {{ scenarios: Record<string, Summary> }} props */
function Scenarios({ scenarios }) {
  const rows = Object.entries(scenarios);
  if (!rows.length) return null;
  return html`<table>
    <thead>
      <tr>
        <th scope="col">${t("report.scenario")}</th>
        <th scope="col">${t("report.success")}</th>
        <th scope="col">${t("report.turns")}</th>
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        ([name, { success, turns_mean: turns }]) => html`<tr key=${name}>
          <td>${name}</td><td>${success ? percent(success.value) : "–"}</td><td>${turns.toFixed(1)}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}

/** @param {{ each: Outcome, batch: string }} props */
function OutcomeView({ each, batch }) {
  const [isOpen, setOpen] = useState(false);
  const { conversation_id: id, success, fault } = each;
  const state = success === null ? "" : success ? "done" : "error";
  const label = t(success ? "report.succeeded" : "report.failed");
  const party = fault && textOf(`party.${fault.party}`, fault.party);
  const address = `/api/rehearsals/${encodeURIComponent(batch)}/${encodeURIComponent(id)}`;
  return html`<li>
    <details onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.target).open)}>
      <summary>
        <span class="mark" data-status=${state} role="img" aria-label=${label}></span>
        <span>${id}</span>
        ${fault && html`<span class="about">${t("report.fault", { party: party ?? "", turn: fault.turn })}</span>`}
      </summary>
      ${fault && html`<p class="warning">${fault.reason}</p>`}
      ${isOpen && html`<${Transcript} address=${address} />`}
    </details>
  </li>`;
}

/** @param {{ address: string }} props */
export function Transcript({ address }) {
  const loaded = useLoaded(() => get(address), [address]);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  return html`<ol class="transcript">
    ${loaded.value.utterances.map(
      (/** @type {Record<string, any>} */ said) => html`<li key=${said.index} data-role=${said.role}>
        <b>${textOf(`role.${said.role.toLowerCase()}`, said.role)}</b>
        <p>${said.text || inline({ [said.action]: said.action_input ?? said.data }, 400)}</p>
      </li>`,
    )}
  </ol>`;
}
