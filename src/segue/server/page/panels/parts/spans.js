// @ts-check
/** A task's events as the rows of a timeline. */
import { isPlan, namesOf } from "../../components/call-names.js";
import { decidedBy } from "../../state/persons.js";
import { endOf } from "../../state/turn.js";
import { dateTime, reasonOf, t, textOf } from "../../texts/index.js";
import { costText, inline, unmarked } from "./text.js";

/** @import { Frame, Verdict } from "../../state/types.js" */
/**
 * @typedef {{ key: string, kind: string, label: string, about: string, start: number, end: number, depth: number,
 *   details: [string, unknown][], input: number, output: number, cost: number | null, state: string }} Row
 *   `start` and `end` are Unix times; a row that is only a moment has both the same.
 * @typedef {(time: number) => number} Axis from a Unix time to a share of the width, 0 to 1
 */

/** Seconds without anything beyond which the axis leaves a gap out. */
const GAP = 1.5;
/** Seconds that such a gap takes on the axis. */
const GAP_WIDTH = 0.3;

/** @param {Frame[]} events @returns {Row[]} */
export function rowsOf(events) {
  const answered = new Set(events.filter((event) => event.type === "tool_result").map(callKey));
  const thoughts = new Map(events.flatMap((event) => (event.type === "thought" ? [[event.trace_id, event.text]] : [])));
  const shown = events.filter((event) => event.type !== "tool_call" || !answered.has(callKey(event)));
  return shown.flatMap((event) => {
    const own = ROWS[event.type]?.(event, thoughts);
    if (!own) return [];
    const { timestamp = 0, seconds = 0, trace_id: trace, seq } = event;
    const start = timestamp - (own.isLong ? seconds : 0);
    const depth = trace && !HEADS.has(event.type) ? 1 : 0;
    const empty = { about: "", details: [], input: 0, output: 0, cost: 0, state: "" };
    return [{ ...empty, ...own, key: String(seq), start, end: timestamp, depth }];
  });
}

/** Events that the rows of a round stand below. */
const HEADS = new Set(["recursion_start", "round_start"]);

/** @param {Frame} event */
function callKey({ trace_id: trace, step_id: step, index }) {
  return `${trace || step}:${index}`;
}

/** @typedef {Partial<Row> & { kind: string, label: string, isLong?: boolean }} OwnRow */

/** @type {Record<string, (event: Frame, thoughts: Map<unknown, unknown>) => OwnRow>} */
const ROWS = {
  task_started: ({ message, agent_id, model }) => ({
    kind: "send",
    label: t("trace.started"),
    about: [agent_id, model].filter(Boolean).join(" · "),
    details: [[t("composer.label"), message]],
  }),
  mode_selected: ({ mode, reason }) => ({ kind: "mode", label: textOf(`mode.${mode}`, mode), about: reasonOf(reason) }),
  recursion_start: ({ trace_id: trace, iteration }, thoughts) => ({
    kind: "head",
    label: t("trace.recursion", { n: iteration ?? 0 }),
    about: inline(thoughts.get(trace) ?? ""),
    details: thoughts.has(trace) ? [[t("turn.thought"), thoughts.get(trace)]] : [],
  }),
  round_start: ({ trace_id: trace, iteration, flow }, thoughts) => ({
    kind: "head",
    label: t("trace.round", { n: iteration ?? 0 }),
    about: inline(thoughts.get(trace) ?? flow),
    details: thoughts.has(trace) ? [[t("turn.thought"), thoughts.get(trace)]] : [],
  }),
  model_called: ({ purpose, model, input, output, cost, reply }) => ({
    kind: "model",
    isLong: true,
    label: textOf(`purpose.${purpose}`, purpose),
    about: input || output ? t("trace.tokens", { input, output }) : model,
    details: [
      [t("details.model"), model],
      [t("details.tokens"), t("details.tokensValue", { input, output })],
      [t("details.cost"), costText(cost)],
      [t("trace.reply"), reply?.text ?? reply],
    ],
    input,
    output,
    cost: cost ?? null,
  }),
  tool_call: ({ name, arguments: given }) => ({
    kind: "tool",
    label: name,
    about: inline(given),
    state: "running",
    details: [[t("call.arguments"), given]],
  }),
  tool_result: ({ name, arguments: given, result }) => {
    const { failed, value } = endOf(result);
    return {
      kind: "tool",
      isLong: true,
      label: name,
      about: inline(given),
      state: failed ? "failed" : "",
      details: [
        [t("call.arguments"), given],
        [t(failed ? "call.error" : "call.result"), value],
      ],
    };
  },
  branch_start: ({ branch, arguments: given }) => ({
    kind: "mode",
    label: t("trace.branch", { name: branch }),
    about: inline(given),
    details: [[t("call.arguments"), given]],
  }),
  plan_update: ({ goal, steps }) => ({
    kind: "plan",
    label: t("turn.plan"),
    about: t("trace.steps", { n: steps.length }),
    details: [[goal, steps.map((/** @type {Frame} */ step) => `${step.step_id}. ${step.description}`).join("\n")]],
  }),
  fallback: ({ from_mode: from, to_mode: to, reason }) => ({
    kind: "warning",
    label: t("trace.fallback", { from, to }),
    about: reason,
  }),
  approval_requested: ({ calls }) => ({
    kind: "question",
    label: t("trace.approval"),
    about: calls.some(isPlan) ? t("plan.title") : namesOf(calls),
    details: [[t("call.arguments"), calls]],
  }),
  approval_given: ({ verdicts }) => ({
    kind: "check",
    label: t("trace.verdict"),
    about: verdicts
      .map((/** @type {Verdict} */ each) =>
        [textOf(`verdict.${each.verdict}`, each.verdict), decidedBy(each)].filter(Boolean).join(" · "))
      .join(", "),
  }),
  question_asked: ({ question }) => ({ kind: "question", label: t("question.title"), about: question }),
  wait_started: ({ name, until }) => ({
    kind: "pause",
    label: t("wait.title"),
    about: [name, typeof until === "number" ? dateTime(until) : ""].filter(Boolean).join(" · "),
  }),
  question_answered: ({ answer }) => ({ kind: "check", label: t("turn.you"), about: answer }),
  steered: ({ message }) => ({ kind: "send", label: t("turn.steered"), about: message }),
  paused: ({ reason }) => ({ kind: "pause", label: t("status.paused"), about: reasonOf(reason) }),
  resumed: ({ agent_changed: changed }) => ({
    kind: "play",
    label: t("trace.resumed"),
    about: changed ? t("trace.agentChanged") : "",
  }),
  cancelled: () => ({ kind: "stop", label: t("status.cancelled") }),
  error: ({ message }) => ({ kind: "warning", label: t("call.error"), about: message, state: "failed" }),
  answer: ({ answer }) => ({
    kind: "check",
    label: t("turn.agent"),
    about: inline(unmarked(answer)),
    details: [["", answer]],
  }),
};

/**
 * The axis of the rows' times, without the gaps in which nothing ran.
 *
 * @param {Row[]} rows
 * @returns {Axis}
 */
export function axisOf(rows) {
  const { marks, width } = marksOf(rows);
  return (time) => {
    const mark = marks.findLast(([from]) => from <= time) ?? marks[0] ?? [0, 0, 0];
    const [from, until, at] = mark;
    return width ? (at + Math.min(time, until) - from) / width : 0;
  };
}

/**
 * The times in which something ran: when each begins, ends, and where on the axis it begins.
 *
 * @param {Row[]} rows
 */
function marksOf(rows) {
  /** @type {[number, number, number][]} */
  const marks = [];
  for (const { start, end } of rows.toSorted((one, other) => one.start - other.start)) {
    const last = marks.at(-1);
    if (last && start - last[1] <= GAP) last[1] = Math.max(last[1], end);
    else marks.push([start, end, last ? last[2] + last[1] - last[0] + GAP_WIDTH : 0]);
    const place = marks.length - 1;
    if (place > 0) marks[place][2] = marks[place - 1][2] + marks[place - 1][1] - marks[place - 1][0] + GAP_WIDTH;
  }
  const last = marks.at(-1);
  return { marks, width: last ? last[2] + last[1] - last[0] : 0 };
}

/** @param {Row[]} rows */
export function totalsOf(rows) {
  const { marks } = marksOf(rows);
  /** @param {(row: Row) => boolean} which */
  const count = (which) => rows.filter(which).length;
  /** @param {(row: Row) => number} value */
  const sum = (value) => rows.reduce((total, row) => total + (value(row) || 0), 0);
  return {
    seconds: marks.reduce((total, [from, until]) => total + until - from, 0),
    rounds: count((row) => row.kind === "head"),
    models: count((row) => row.kind === "model"),
    tools: count((row) => row.kind === "tool"),
    input: sum((row) => row.input),
    output: sum((row) => row.output),
    cost: rows.some((row) => row.cost === null) ? null : sum((row) => row.cost ?? 0),
  };
}
