// @ts-check
/** Backtests: what changed agents would do otherwise in recorded sessions. */
import { Icon } from "../components/icon.js";
import { loadStyleSheets } from "../components/style-sheets.js";
import { get, getAll, send } from "../state/api.js";
import { attempt } from "../state/failures.js";
import { pageAddress } from "../state/router.js";
import { t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { BacktestForm } from "./parts/backtest-form.js";
import { BacktestReport } from "./parts/backtest-report.js";
import { Pending, useLoaded } from "./parts/loaded.js";
import { Back, Ended, Progress, useRunning } from "./parts/runs.js";

await loadStyleSheets("panel-backtests");

/** @import { BacktestForm as Report } from "./parts/backtest-report.js" */
/**
 * @typedef {{ name: string, created_at: string, status: "running" | "done" | "stopped" | "failed" | "interrupted",
 *   done: number, total: number, error: string, asked: Record<string, any>, conclusion: string,
 *   report: Report | null }} Backtest
 */

const ADDRESS = "/api/backtests";

/** @param {string} name */
const addressOf = (name) => `${ADDRESS}/${encodeURIComponent(name)}`;

/** @param {{ names: string[] }} props */
export default function Panel({ names: [name] }) {
  return name ? html`<${Whole} key=${name} name=${name} />` : html`<${List} />`;
}

/** @param {string} name */
const show = (name) => (location.hash = pageAddress("backtests", name));

function List() {
  const loaded = useLoaded(() => getAll(ADDRESS), []);
  const [isAsking, ask] = useState(false);
  /** @type {Backtest[]} */
  const found = loaded.value?.items ?? [];
  useRunning(found.some(({ status }) => status === "running"), loaded.reload);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  const names = found.map(({ name }) => name);
  return html`<p class="about">${t("backtests.about")}</p>
    <div class="rehearsal-actions">
      <button type="button" class="primary" aria-expanded=${isAsking} onClick=${() => ask(!isAsking)}>
        <${Icon} name="play" />${t("backtests.run")}
      </button>
    </div>
    ${isAsking && html`<${BacktestForm} names=${names} started=${show} close=${() => ask(false)} />`}
    ${!found.length && !isAsking && html`<p class="empty">${t("backtests.none")}</p>`}
    <ul class="batches">
      ${found.map((each) => html`<${Row} key=${each.name} backtest=${each} />`)}
    </ul>`;
}

/** @param {{ backtest: Backtest }} props */
function Row({ backtest }) {
  return html`<li>
    <a href=${pageAddress("backtests", backtest.name)}>
      <b>${backtest.name}</b>
      <${Ended} isRunning=${backtest.status === "running"} text=${backtest.conclusion || textOfStatus(backtest)} />
    </a>
  </li>`;
}

/** @param {Backtest} backtest */
function textOfStatus({ status, done, total }) {
  return status === "running" && !total ? t("backtests.looking") : t(`backtests.${status}`, { done, n: total });
}

/** @param {{ name: string }} props */
function Whole({ name }) {
  const loaded = useLoaded(() => get(addressOf(name)), [name]);
  /** @type {Backtest | null} */
  const backtest = loaded.value;
  useRunning(backtest?.status === "running", loaded.reload);
  return html`<${Back} label=${t("backtests.back")} page="backtests" />
    <h3>${name}</h3>
    ${backtest
      ? html`<${Shown} backtest=${backtest} changed=${loaded.reload} />`
      : html`<${Pending} loaded=${loaded} />`}`;
}

/** @param {{ backtest: Backtest, changed: () => void }} props */
function Shown({ backtest, changed }) {
  const { name, status, done, total, error, asked, conclusion, report } = backtest;
  const stop = async () => {
    await attempt(() => send("POST", `${addressOf(name)}/stop`));
    changed();
  };
  const text = textOfStatus(backtest);
  const agents = (asked.agents ?? []).map((/** @type {{ agent_id: string }} */ each) => each.agent_id);
  return html`<${Asked} asked=${asked} />
    ${status === "running" &&
    html`<${Progress} done=${done} total=${total} label=${t("backtests.progress")} text=${text} stop=${stop} />`}
    ${error && html`<p class="warning" role="alert">${error}</p>`}
    ${report && html`<${BacktestReport} report=${report} conclusion=${conclusion} agents=${agents} />`}
    ${!report && status !== "running" && !error && html`<p class="empty">${text}</p>`}`;
}

/** What was changed for it. @param {{ asked: Record<string, any> }} props */
function Asked({ asked }) {
  /** @type {Record<string, any>[]} */
  const agents = asked.agents ?? [];
  if (!agents.length && !asked.model) return html`<p class="about">${t("backtests.unchanged")}</p>`;
  return html`<dl class="asked-for">
    ${asked.model && html`<div><dt>${t("backtest.model")}</dt><dd>${asked.model}</dd></div>`}
    ${agents.flatMap(({ agent_id: agent, ...changes }) =>
      Object.entries(changes).map(
        ([field, value]) => html`<div key=${`${agent}.${field}`}>
          <dt>${agent} · ${field}</dt><dd>${String(value)}</dd>
        </div>`,
      ),
    )}
  </dl>`;
}
