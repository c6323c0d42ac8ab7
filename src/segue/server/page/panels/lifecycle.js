// @ts-check
/** A run of the lifecycle engine: its phases, its progress, and the subtasks of its goal. */
import { Value } from "../components/call.js";
import { send } from "../state/api.js";
import { attempt } from "../state/failures.js";
import { t, textOf } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { Pending } from "./parts/loaded.js";
import { runOf } from "./parts/lifecycle-run.js";
import { taskPanel, useTrace } from "./parts/task.js";

/** @import { Turn } from "../state/types.js" */
/** @import { Run, Subtask } from "./parts/lifecycle-run.js" */

const PHASES = ["receiving", "context_fetching", "decomposing", "scheduling", "executing", "completed"];

const ENDED = new Set(["completed", "error"]);

const COLUMNS = /** @type {const} */ ([
  "lifecycle.id",
  "lifecycle.task",
  "lifecycle.priority",
  "lifecycle.needs",
  "details.status",
]);

export default taskPanel(Lifecycle);

/** @param {{ task: Turn }} props */
function Lifecycle({ task }) {
  const loaded = useTrace(task);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  const run = runOf(loaded.value.events);
  if (!run.phase) return html`<p class="empty">${t("lifecycle.none")}</p>`;
  return html`<${Phases} phase=${run.phase} passed=${run.passed} />
    <${Progress} run=${run} />
    ${run.context && html`<p class="about">${t("lifecycle.context", run.context)}</p>`}
    ${run.error && html`<p class="warning" role="alert">${run.error}</p>`}
    ${run.subtasks.length > 0 && html`<${Subtasks} subtasks=${run.subtasks} />`}
    ${!ENDED.has(run.phase) && html`<${AddSubtask} task=${task} />`}`;
}

/** @param {{ task: Turn }} props */
function AddSubtask({ task }) {
  const [description, setDescription] = useState("");
  const add = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const added = await attempt(() => send("POST", `/api/tasks/${task.id}/subtasks`, { description }));
    if (added) setDescription("");
  };
  return html`<form class="head" onSubmit=${add}>
    <input
      value=${description}
      required
      aria-label=${t("lifecycle.added")}
      placeholder=${t("lifecycle.added")}
      onInput=${(/** @type {any} */ event) => setDescription(event.target.value)}
    />
    <button type="submit">${t("lifecycle.add")}</button>
  </form>`;
}

/** @param {{ phase: string, passed: Set<string> }} props */
function Phases({ phase, passed }) {
  const shown = PHASES.includes(phase) ? PHASES : [...PHASES, phase];
  return html`<ol class="phases" aria-label=${t("lifecycle.phases")}>
    ${shown.map(
      (name) => html`<li
        key=${name}
        data-state=${name === phase ? "now" : passed.has(name) ? "passed" : "ahead"}
        aria-current=${name === phase ? "step" : undefined}
      >
        ${textOf(`phase.${name}`, name)}
      </li>`,
    )}
  </ol>`;
}

/** @param {{ run: Run }} props */
function Progress({ run }) {
  const done = run.subtasks.filter(({ status }) => status === "done").length;
  return html`<p class="progress">
    <progress max=${run.subtasks.length || 1} value=${done} aria-label=${t("lifecycle.progress")}></progress>
    <span class="about">${t("turn.planCount", { done, n: run.subtasks.length })}</span>
  </p>`;
}

/** @param {{ subtasks: Subtask[] }} props */
function Subtasks({ subtasks }) {
  return html`<table class="subtasks">
    <thead>
      <tr>${COLUMNS.map((key) => html`<th scope="col" key=${key}>${t(key)}</th>`)}</tr>
    </thead>
    <tbody>
      ${subtasks.map((each) => html`<${SubtaskRow} key=${each.id} each=${each} />`)}
    </tbody>
  </table>`;
}

/** @param {{ each: Subtask }} props */
function SubtaskRow({ each }) {
  const { id, description, priority, dependencies, status, outcome } = each;
  return html`<tr>
    <td>${id}</td>
    <td>
      ${outcome
        ? html`<details><summary>${description}</summary><${Value} value=${outcome} /></details>`
        : description}
    </td>
    <td>${priority}</td>
    <td>${dependencies.join(", ") || "–"}</td>
    <td data-status=${status}>${textOf(`status.${status}`, status)}</td>
  </tr>`;
}
