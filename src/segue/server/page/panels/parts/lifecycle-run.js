// @ts-check
/** A run of the lifecycle engine, as its events tell of it. */

/** @import { Frame } from "../../state/types.js" */
/**
 * @typedef {{ id: string, description: string, priority: number, dependencies: string[], status: string,
 *   outcome: string }} Subtask
 * @typedef {{ phase: string, passed: Set<string>, subtasks: Subtask[], error: string,
 *   context: { rules: number, knowledge: number, tools: number } | null }} Run
 */

/**
 * @param {Frame[]} events
 * @returns {Run}
 */
export function runOf(events) {
  /** @type {Run} */
  const run = { phase: "", passed: new Set(), subtasks: [], error: "", context: null };
  for (const { type, event_type: kind, details } of events) {
    if (type === "lifecycle") TELLS[kind]?.(run, details);
  }
  return run;
}

/** @type {Record<string, (run: Run, details: Record<string, any>) => void>} */
const TELLS = {
  state_changed: (run, { from, to }) => {
    run.passed.add(from);
    if (to !== "idle") run.phase = to;
  },
  context_received: (run, { rules_count: rules, knowledge_count: knowledge, tools_count: tools }) => {
    run.context = { rules, knowledge, tools };
  },
  task_decomposed: (run, { tasks }) => {
    run.subtasks = tasks.map(pending);
  },
  task_spawned: (run, { task_id: id, ...task }) => {
    run.subtasks = [...run.subtasks, pending({ ...task, id })];
  },
  task_started: (run, { task_id: id }) => settle(run, id, "running", ""),
  task_completed: (run, { task_id: id, result }) => settle(run, id, "done", result),
  task_failed: (run, { task_id: id, error, skipped }) => settle(run, id, skipped ? "skipped" : "error", error),
  engine_error: (run, { error }) => {
    run.error = error;
  },
};

/**
 * @param {Record<string, any>} task
 * @returns {Subtask}
 */
function pending({ id, description, priority, dependencies }) {
  return { id: String(id), description, priority, dependencies: dependencies ?? [], status: "pending", outcome: "" };
}

/**
 * @param {Run} run
 * @param {string} id
 * @param {string} status
 * @param {unknown} outcome
 */
function settle(run, id, status, outcome) {
  const task = run.subtasks.find((each) => each.id === String(id));
  if (task) Object.assign(task, { status, outcome: String(outcome ?? "") });
}
