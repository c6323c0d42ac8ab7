// @ts-check
/** The trace of a task as a timeline: rounds, model calls, tool calls, with their time, tokens and cost. */
import { duration, t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Pending } from "./parts/loaded.js";
import { axisOf, rowsOf, totalsOf } from "./parts/spans.js";
import { SpanRow } from "./parts/span-row.js";
import { taskPanel, useTrace } from "./parts/task.js";
import { costText } from "./parts/text.js";

/** @import { Turn } from "../state/types.js" */
/** @import { Row } from "./parts/spans.js" */

export default taskPanel(Trace);

/** @param {{ task: Turn }} props */
function Trace({ task }) {
  const loaded = useTrace(task);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  const rows = rowsOf(loaded.value.events);
  const axis = axisOf(rows);
  return html`${loaded.value.next && html`<p class="about">${t("trace.first", { n: loaded.value.events.length })}</p>`}
    <${Totals} rows=${rows} />
    <ol class="trace">
      ${rows.map((row) => html`<${SpanRow} key=${row.key} row=${row} axis=${axis} />`)}
    </ol>`;
}

/** @param {{ rows: Row[] }} props */
function Totals({ rows }) {
  const { seconds, rounds, models, tools, input, output, cost } = totalsOf(rows);
  /** @type {[string, string | number][]} */
  const shown = [
    [t("trace.active"), duration(seconds)],
    [t("trace.rounds"), rounds],
    [t("trace.models"), models],
    [t("trace.tools"), tools],
    [t("details.tokens"), input || output ? t("details.tokensValue", { input, output }) : ""],
    [t("details.cost"), costText(cost)],
  ];
  return html`<dl class="totals">
    ${shown.flatMap(([name, value]) =>
      value === "" || value === 0 ? [] : [html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`],
    )}
  </dl>`;
}
