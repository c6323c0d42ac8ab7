// @ts-check
/** The rounds of a controller: what it thought, which branch it chose, and what came of it. */
import { Value } from "../components/call.js";
import { Icon } from "../components/icon.js";
import { duration, t, textOf } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Pending } from "./parts/loaded.js";
import { flowsOf } from "./parts/flow.js";
import { taskPanel, useTrace } from "./parts/task.js";
import { inline, unmarked } from "./parts/text.js";

/** @import { Turn } from "../state/types.js" */
/** @import { Flow, Round } from "./parts/flow.js" */

export default taskPanel(Rounds);

/** @param {{ task: Turn }} props */
function Rounds({ task }) {
  const loaded = useTrace(task);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  const flows = flowsOf(loaded.value.events);
  if (!flows.length) return html`<p class="empty">${t("rounds.none")}</p>`;
  return flows.map((flow) => html`<${FlowView} key=${flow.key} flow=${flow} />`);
}

/** @param {{ flow: Flow }} props */
function FlowView({ flow }) {
  return html`<section class="flow">
    <h3>
      ${flow.name}
      ${flow.status && html`<span class="chip">${textOf(`flow.${flow.status}`, flow.status)}</span>`}
    </h3>
    <ol class="rounds">
      ${flow.rounds.map((round) => html`<${RoundView} key=${round.key} round=${round} />`)}
    </ol>
    ${flow.summary && html`<${Value} label=${t("rounds.summary")} value=${unmarked(flow.summary)} />`}
  </section>`;
}

/** @param {{ round: Round }} props */
function RoundView({ round }) {
  const { n, thought, branch, given, outcome, seconds, state } = round;
  return html`<li class="round" data-state=${state}>
    <p class="place">
      <b>${t("trace.round", { n })}</b>
      ${seconds > 0 && html`<span class="took">${duration(seconds)}</span>`}
    </p>
    ${thought && html`<p class="about">${thought}</p>`}
    ${branch &&
    html`<details>
      <summary><${Icon} name="mode" /><code>${branch}</code> <span class="about">${inline(given, 80)}</span></summary>
      <${Value} label=${t("call.arguments")} value=${given} />
      ${outcome !== null &&
      html`<${Value} label=${t(state === "failed" ? "call.error" : "call.result")} value=${outcome} />`}
    </details>`}
  </li>`;
}
