// @ts-check
/** Rehearsals: batches of conversations with simulated users, and their reports. */
import { get } from "../state/api.js";
import { t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { Pending, useLoaded } from "./parts/loaded.js";
import { Rate, Report } from "./parts/report.js";

/** @import { ReportForm } from "./parts/report.js" */
/**
 * @typedef {{ name: string, workflow: string, created_at: string, conversations: number, ended: number,
 *   report: ReportForm | null }} Batch
 */

export default function Panel() {
  const loaded = useLoaded(() => get("/api/rehearsals"), []);
  const [shown, show] = useState("");
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  if (shown) return html`<${Whole} name=${shown} close=${() => show("")} />`;
  /** @type {Batch[]} */
  const batches = loaded.value.items;
  if (!batches.length) {
    return html`<div class="empty">
      <p>${t("rehearsals.none")}</p>
      <pre>segue simulate --workflow travel_change --n 20 --out rehearsals/first
segue report rehearsals/first
segue serve --rehearsals rehearsals</pre>
    </div>`;
  }
  return html`<ul class="batches">
    ${batches.map(
      (batch) => html`<li key=${batch.name}>
        <button type="button" onClick=${() => show(batch.name)}>
          <span><b>${batch.name}</b> <span class="about">${batch.workflow}</span></span>
          <span class="about">${t("rehearsals.ended", { done: batch.ended, n: batch.conversations })}</span>
          ${batch.report?.summary.success && html`<${Rate} rate=${batch.report.summary.success} />`}
        </button>
      </li>`,
    )}
  </ul>`;
}

/** @param {{ name: string, close: () => void }} props */
function Whole({ name, close }) {
  const loaded = useLoaded(() => get(`/api/rehearsals/${encodeURIComponent(name)}`), [name]);
  return html`<button type="button" class="back" onClick=${close}>${t("rehearsals.back")}</button>
    <h3>${name}</h3>
    ${loaded.value ? html`<${Shown} batch=${loaded.value} />` : html`<${Pending} loaded=${loaded} />`}`;
}

/** @param {{ batch: Batch }} props */
function Shown({ batch }) {
  if (batch.report) return html`<${Report} report=${batch.report} batch=${batch.name} />`;
  return html`<p class="empty">${t("rehearsals.noReport", { name: batch.name })}</p>`;
}
