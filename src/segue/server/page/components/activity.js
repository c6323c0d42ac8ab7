// @ts-check
/** What is done for the answer: the plan with its steps' states, and the tool calls. */
import { ACTIVE, endOf, OPEN } from "../state/turn.js";
import { t, textOf } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { CallView } from "./call.js";
import { Icon } from "./icon.js";

/** @import { Call, Step, Turn } from "../state/types.js" */

/** @param {{ shown: Turn }} props */
export function Activity({ shown }) {
  const { steps, calls } = shown;
  const goesOn = OPEN.has(shown.status);
  const { isOpen, onToggle, keep } = useOpen(goesOn);
  if (!steps.length && !calls.length) return null;
  const known = new Set(steps.map((step) => step.id));
  const others = calls.filter((call) => !known.has(call.step));
  const failed = isOpen ? [] : calls.filter(({ result }) => (result ? endOf(result).failed : !goesOn));
  return html`<details class="activity" open=${isOpen} onToggle=${onToggle} onfocusin=${keep}>
    <summary><${Icon} name=${steps.length ? "plan" : "tool"} />${summary(shown)}<${Icon} name="chevron" /></summary>
    ${steps.length > 0 &&
    html`<ol class="steps" aria-label=${t("turn.plan")}>
      ${steps.map((step) => html`<${StepView} key=${step.id} step=${step} shown=${shown} />`)}
    </ol>`}
    <${Calls} calls=${others} shown=${shown} />
  </details>
  <${Calls} calls=${failed} shown=${shown} />`;
}

/** @param {{ calls: Call[], shown: Turn }} props */
function Calls({ calls, shown: { id, status } }) {
  if (!calls.length) return null;
  return html`<ul class="calls">
    ${calls.map(
      (call) => html`<li key=${call.key}><${CallView} call=${call} task=${id} isActive=${ACTIVE.has(status)} /></li>`,
    )}
  </ul>`;
}

/**
 * Open while the turn goes on, unless a person opened or closed it, or has the focus in it.
 *
 * @param {boolean} goesOn
 */
function useOpen(goesOn) {
  const [chosen, choose] = useState(/** @type {boolean | null} */ (null));
  const isOpen = chosen ?? goesOn;
  const onToggle = (/** @type {any} */ { currentTarget: { open } }) => void (open !== isOpen && choose(open));
  const keep = (/** @type {any} */ { target, currentTarget: { open, firstElementChild: summary } }) =>
    void (target !== summary && choose(open));
  return { isOpen, onToggle, keep };
}

/** @param {Turn} shown */
function summary({ steps, calls, status }) {
  const done = steps.filter((step) => step.status === "done" || step.status === "skipped").length;
  const count = t(calls.length === 1 ? "turn.activityOne" : "turn.activity", { n: calls.length });
  if (!steps.length) return html`<span>${count}</span>`;
  const progress = t(steps.length === 1 ? "turn.planCountOne" : "turn.planCount", { done, n: steps.length });
  const open = steps.filter((step) => step.status === "pending" || step.status === "running").length;
  const left = status === "done" && open > 0 && t(open === 1 ? "turn.planOpenOne" : "turn.planOpen", { n: open });
  return html`<span>${t("turn.plan")}</span>
    <span class="about">${progress}${calls.length > 0 && ` · ${count}`}${left && ` · ${left}`}</span>`;
}

/** The step's status as it is shown: nothing runs in a turn that has ended. */
function statusOf(/** @type {Step} */ step, /** @type {Turn} */ { status }) {
  return step.status === "running" && !ACTIVE.has(status) ? "pending" : step.status;
}

/** @param {{ step: Step, shown: Turn }} props */
function StepView({ step, shown }) {
  const isActive = ACTIVE.has(shown.status);
  const status = statusOf(step, shown);
  const calls = shown.calls.filter((call) => call.step === step.id);
  return html`<li class="step" data-status=${status}>
    <span class="mark" role="img" aria-label=${textOf(`status.${status}`, status)}></span>
    <div>
      <p>${step.description || step.id}</p>
      ${step.note && html`<p class="about">${step.note}</p>`}
      ${calls.map((call) => html`<${CallView} key=${call.key} call=${call} task=${shown.id} isActive=${isActive} />`)}
    </div>
  </li>`;
}
