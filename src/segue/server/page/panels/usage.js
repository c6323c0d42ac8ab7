// @ts-check
/** Tokens and cost of the last days, by day, agent, user or model, what of it is not known, and the limits. */
import { get } from "../state/api.js";
import { t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { Pending, useChanges, useLoaded } from "./parts/loaded.js";
import { costText } from "./parts/text.js";

/**
 * @typedef {{ tasks: number, unfinished: number, uncounted: number, unpriced: number, input: number, output: number,
 *   calls: number, cost: number | null, currency: string, known_costs: Record<string, number>, estimated: number,
 *   estimated_tokens: number, estimated_cost: number, day?: string, agent?: string, user?: string,
 *   model?: string }} Total
 * @typedef {{ limit_name: string, unit: "USD" | "tokens", name: string, day: string, limit: number,
 *   used: number }} Limit
 * @typedef {{ total: Total, by_day: Total[], by_agent: Total[], by_user: Total[], by_model: Total[],
 *   limits: Limit[] }} Usage
 * @typedef {"day" | "agent" | "user" | "model"} Kind
 */

const PERIODS = [7, 30, 90, 366];
/** @type {Kind[]} */
const KINDS = ["day", "agent", "user", "model"];

export default function Panel() {
  const [days, setDays] = useState(30);
  const [kind, setKind] = useState(/** @type {Kind} */ ("day"));
  const changes = useChanges();
  const query = new URLSearchParams({ days: String(days), utc_offset: String(-new Date().getTimezoneOffset()) });
  const loaded = useLoaded(() => get(`/api/usage?${query}`), [days, changes]);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  /** @type {Usage} */
  const usage = loaded.value;
  return html`<div class="usage">
    <div class="usage-choices">
      <label>
        <span class="about">${t("usage.period")}</span>
        <select value=${String(days)} onChange=${(/** @type {any} */ event) => setDays(Number(event.target.value))}>
          ${PERIODS.map((n) => html`<option key=${n} value=${n}>${t("usage.days", { n })}</option>`)}
        </select>
      </label>
      <label>
        <span class="about">${t("usage.by")}</span>
        <select value=${kind} onChange=${(/** @type {any} */ event) => setKind(event.target.value)}>
          ${KINDS.map((each) => html`<option key=${each} value=${each}>${t(`usage.${each}`)}</option>`)}
        </select>
      </label>
    </div>
    ${usage.total.tasks > 0 && html`<${Used} usage=${usage} kind=${kind} />`}
    ${!usage.total.tasks && html`<p class="empty">${t("usage.none")}</p>`}
    ${usage.limits.length > 0 && html`<${Limits} limits=${usage.limits} />`}
  </div>`;
}

/** @param {{ usage: Usage, kind: Kind }} props */
function Used({ usage: { total, ...parts }, kind }) {
  const listed = kind === "day" ? parts.by_day.toReversed() : parts[`by_${kind}`];
  const rows = listed.filter(({ tasks, estimated }) => tasks || estimated);
  const most = Math.max(1, ...rows.map(tokensOf));
  return html`<dl class="totals">
      <div><dt>${t("usage.tasks")}</dt><dd>${count(total.tasks)}</dd></div>
      <div><dt>${t("usage.input")}</dt><dd>${count(total.input)}</dd></div>
      <div><dt>${t("usage.output")}</dt><dd>${count(total.output)}</dd></div>
      <div><dt>${t("usage.cost")}</dt><dd>${costOf(total)}</dd></div>
    </dl>
    <table>
      <thead>
        <tr>
          <th scope="col">${t(`usage.${kind}`)}</th>
          <th scope="col" class="number">${t("usage.tasks")}</th>
          <th scope="col" class="number">${t("usage.tokens")}</th>
          <th scope="col" class="number">${t("usage.cost")}</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map((row) => html`<${Row} key=${row[kind]} name=${nameOf(row, kind)} row=${row} most=${most} />`)}
      </tbody>
    </table>
    <${Notes} total=${total} />`;
}

/** @param {{ name: string, row: Total, most: number }} props */
function Row({ name, row, most }) {
  return html`<tr>
    <th scope="row">
      ${name}
      <svg class="share" aria-hidden="true">
        <rect width=${`${(100 * tokensOf(row)) / most}%`} height="100%" rx="2" />
      </svg>
    </th>
    <td class="number">${count(row.tasks)}</td>
    <td class="number" title=${t("details.tokensValue", { input: count(row.input), output: count(row.output) })}>
      ${count(tokensOf(row))}
    </td>
    <td class="number">${costOf(row)}</td>
  </tr>`;
}

/** What is used of each limit, by those that used the most of it. @param {{ limits: Limit[] }} props */
function Limits({ limits }) {
  return html`<table class="limits">
    <thead>
      <tr>
        <th scope="col">${t("usage.limit")}</th>
        <th scope="col" class="number">${t("usage.used")}</th>
        <th scope="col" class="number">${t("usage.most")}</th>
      </tr>
    </thead>
    <tbody>
      ${limits.map(
        (limit) => html`<tr key=${`${limit.limit_name} ${limit.name}`}>
          <th scope="row">
            ${limit.limit_name} <span class="about">${limit.name || limit.day}</span>
            <svg class="share" aria-hidden="true">
              <rect width=${`${Math.min(100, (100 * limit.used) / limit.limit)}%`} height="100%" rx="2" />
            </svg>
          </th>
          <td class="number">${amount(limit.used, limit.unit)}</td>
          <td class="number">${amount(limit.limit, limit.unit)}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}

/** @param {number} value @param {"USD" | "tokens"} unit */
const amount = (value, unit) => (unit === "USD" ? costText(value, unit) || "–" : count(value));

/** What is computed, and of how many tasks something is not known. @param {{ total: Total }} props */
function Notes({ total }) {
  const { unfinished, uncounted, unpriced, estimated } = total;
  const notes = [
    t("usage.computed"),
    unfinished && t("usage.unfinished", { n: unfinished }),
    uncounted && t("usage.uncounted", { n: uncounted }),
    unpriced > unfinished && t("usage.unpriced", { n: unpriced - unfinished }),
    estimated &&
      t("usage.estimated", {
        n: estimated,
        tokens: count(total.estimated_tokens),
        cost: costText(total.estimated_cost, "USD"),
      }),
  ].filter(Boolean);
  return html`${notes.map((note) => html`<p class="about" key=${note}>${note}</p>`)}`;
}

/** @param {Total} row @param {Kind} kind */
function nameOf(row, kind) {
  if (kind !== "day") return row[kind] || "–";
  const day = new Date(`${row.day}T00:00:00`);
  return day.toLocaleDateString(document.documentElement.lang, { month: "short", day: "numeric", weekday: "short" });
}

/** @param {Total} row */
const tokensOf = (row) => row.input + row.output;

/** @param {number} n */
const count = (n) => n.toLocaleString(document.documentElement.lang);

/** The cost, or what is known of it. @param {Total} total */
function costOf({ unpriced, unfinished, known_costs: known }) {
  const paid = Object.entries(known).map(([currency, cost]) => costText(cost, currency));
  if (unpriced <= (paid.length ? 0 : unfinished)) return paid.join(" + ") || "–";
  return paid.length ? t("usage.atLeast", { cost: paid.join(" + ") }) : t("details.costUnknown");
}
