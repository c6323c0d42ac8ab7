// @ts-check
/** The report of a backtest: what came out, how many tasks have each verdict, and each task that differs. */
import { t } from "../../texts/index.js";
import { html, useState } from "../../vendor/htm-preact.js";
import { inline } from "./text.js";

/** @typedef {"same" | "other_words" | "other_calls" | "other_effects" | "error"} Verdict */
/** @typedef {Record<string, unknown>} Arguments */
/** @typedef {{ name: string, arguments: Arguments }} Call */
/** @typedef {{ kind: string, then: string, now: string, call: number }} Difference */
/**
 * @typedef {{ session_id: string, task_id: string, agent_id: string, message: string, verdict: Verdict,
 *   difference: Difference | null,
 *   effects: { added: Call[], dropped: Call[], changed: { name: string, then: Arguments, now: Arguments }[] },
 *   judged: string }} Task
 * @typedef {{ summary: Record<Verdict, number>, coverage: number | null, models: Record<string, boolean>,
 *   tasks: Task[], skipped: Record<string, string> }} BacktestForm
 */

/** The verdicts, the worst first, as the report has them. */
const WORST = /** @type {const} */ (["error", "other_effects", "other_calls", "other_words", "same"]);
/** Tasks that are shown at first. */
const FIRST = 20;
/** Characters of a text that is compared. */
const MOST = 1_000;

/** @param {{ report: BacktestForm, conclusion: string, agents: string[] }} props `agents` were changed */
export function BacktestReport({ report, conclusion, agents }) {
  const { summary, tasks } = report;
  const [isWhole, showWhole] = useState(false);
  const worst = WORST.find((verdict) => summary[verdict]) ?? "same";
  const differing = WORST.slice(0, -1).flatMap((verdict) => tasks.filter((task) => task.verdict === verdict));
  const shown = isWhole ? differing : differing.slice(0, FIRST);
  return html`<p class="verdict" data-verdict=${worst}>${conclusion}</p>
    <${Notes} report=${report} agents=${agents} />
    <dl class="verdicts">
      ${[...WORST].reverse().map(
        (verdict) => html`<div key=${verdict} data-verdict=${summary[verdict] ? verdict : ""}>
          <dt>${t(`verdict.${verdict}`)}<span class="about">${t(`verdictAbout.${verdict}`)}</span></dt>
          <dd>${summary[verdict]}</dd>
        </div>`,
      )}
    </dl>
    ${differing.length > 0 && html`<h4>${t("backtest.differing")}</h4>`}
    <ul class="differing">${shown.map((task) => html`<${TaskView} key=${task.task_id} task=${task} />`)}</ul>
    ${shown.length < differing.length &&
    html`<button type="button" class="quiet" onClick=${() => showWhole(true)}>
      ${t("backtest.all", { n: differing.length })}
    </button>`}`;
}

/** What the report cannot show. @param {{ report: BacktestForm, agents: string[] }} props */
function Notes({ report: { coverage, models, skipped, tasks }, agents }) {
  const left = Object.keys(skipped).length;
  const unused = agents.filter((id) => !tasks.some((task) => task.agent_id === id));
  return html`<p class="about">${t("backtest.nothingRan")}</p>
    ${tasks.length > 0 &&
    unused.map((agent) => html`<p key=${agent} class="warning">${t("backtest.unused", { agent })}</p>`)}
    ${models.recorded === false && html`<p class="warning">${t("backtest.recorded")}</p>`}
    ${models.offline === false && html`<p class="warning">${t("backtest.offline")}</p>`}
    ${coverage !== null &&
    coverage < 1 &&
    html`<p class="about">${t("backtest.coverage", { share: `${Math.floor(coverage * 100)}%` })}</p>`}
    ${left > 0 && html`<p class="about">${t("backtest.skipped", { n: left })}</p>`}`;
}

/** @param {{ task: Task }} props */
function TaskView({ task: { task_id: id, message, verdict, difference, effects, judged } }) {
  const changes = effectsOf(effects);
  const isShown = difference && !changes.some(({ name }) => isCallOf(difference, name));
  return html`<li data-verdict=${verdict}>
    <span class="chip">${t(`verdict.${verdict}`)}</span>
    <a href=${`#/t/${encodeURIComponent(id)}`}>${inline(message, 200)}</a>
    ${isShown && html`<${FirstDifference} difference=${difference} />`}
    ${changes.map((change, place) => html`<${Effect} key=${place} ...${change} />`)}
    ${judged && html`<p class="about">${t("backtest.judged", { reason: judged })}</p>`}
  </li>`;
}

/**
 * Whether a difference is a call of this tool, which the effects show as well.
 *
 * @param {Difference} difference
 * @param {string} name
 */
function isCallOf({ kind, then, now }, name) {
  return kind === "call" && (then || now).startsWith(`${name}(`);
}

/** @param {{ difference: Difference }} props */
function FirstDifference({ difference: { kind, then, now, call } }) {
  const which = kind !== "call" ? kind : then && now ? "changed" : now ? "added" : "dropped";
  return html`<p>${t(/** @type {"difference.answer"} */ (`difference.${which}`), { call })}</p>
    <${Sides} then=${then && html`<p>${inline(then, MOST)}</p>`} now=${now && html`<p>${inline(now, MOST)}</p>`} />`;
}

/**
 * The effects that differ; of one that is added or dropped one side is missing.
 *
 * @param {Task["effects"]} effects
 * @returns {{ kind: "added" | "dropped" | "changed", name: string, then?: Arguments, now?: Arguments }[]}
 */
function effectsOf({ added, dropped, changed }) {
  return [
    ...changed.map((call) => ({ kind: /** @type {const} */ ("changed"), ...call })),
    ...added.map(({ name, arguments: now }) => ({ kind: /** @type {const} */ ("added"), name, now })),
    ...dropped.map(({ name, arguments: then }) => ({ kind: /** @type {const} */ ("dropped"), name, then })),
  ];
}

/** @param {ReturnType<typeof effectsOf>[number]} props */
function Effect({ kind, name, then, now }) {
  return html`<p>${t(`effect.${kind}`)} <code>${name}</code></p>
    <${Sides}
      then=${then && html`<${Values} values=${then} other=${now} />`}
      now=${now && html`<${Values} values=${now} other=${then} />`}
    />`;
}

/** @param {{ then: unknown, now: unknown }} props */
function Sides({ then, now }) {
  return html`<div class="both">
    <section><h5>${t("backtest.then")}</h5>${then || html`<p class="about">${t("backtest.nothing")}</p>`}</section>
    <section><h5>${t("backtest.now")}</h5>${now || html`<p class="about">${t("backtest.nothing")}</p>`}</section>
  </div>`;
}

/** @param {[string, unknown]} one @param {[string, unknown]} other */
const byName = ([one], [other]) => (one < other ? -1 : 1);

/** Arguments, with a mark on those that differ. @param {{ values: Arguments, other?: Arguments }} props */
function Values({ values, other }) {
  return html`<dl class="values">
    ${Object.entries(values).sort(byName).map(([name, value]) => {
      const text = inline(value, MOST);
      const isOther = other !== undefined && inline(other[name], MOST) !== text;
      return html`<div key=${name}><dt>${name}</dt><dd>${isOther ? html`<mark>${text}</mark>` : text}</dd></div>`;
    })}
  </dl>`;
}
