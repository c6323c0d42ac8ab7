// @ts-check
/** A turn as its task's events describe it. */
import { answerIn, NO_DRAFT, withBreak, withCalled, withoutPending, withToken } from "./draft.js";
import { entryOf, EXCHANGES } from "./exchanges.js";

/** @import { Call, Frame, LedgerCall, TaskRow, Trace, Turn } from "./types.js" */

/** Statuses in which a process works on the task. */
export const ACTIVE = new Set(["pending", "running", "pausing"]);
/** Statuses in which the session takes no other message. */
export const OPEN = new Set([...ACTIVE, "waiting", "paused"]);

/** How a call ended. @param {Record<string, unknown>} result */
export function endOf(result) {
  const failed = "error" in result;
  return { failed, value: failed ? result.error : result.success };
}

/**
 * A turn that is known by its task's row only.
 *
 * @param {TaskRow} row
 * @returns {Turn}
 */
export function turnOfRow(row) {
  const result = row.result ?? {};
  return {
    id: row.task_id,
    session: row.session_id,
    message: row.message,
    attachments: row.attachments ?? [],
    agent: row.agent_id,
    mode: result.mode || row.mode,
    model: row.model,
    status: row.status,
    answer: answerIn([result.preamble ?? ""], result.answer ?? ""),
    html: row.html ?? "",
    ...NO_DRAFT,
    said: [],
    thinking: "",
    mark: 0,
    calls: [],
    utterances: [],
    goal: "",
    steps: (result.plan ?? []).map(stepOf),
    pending: [],
    question: null,
    exchanges: [],
    entries: [],
    error: row.error ?? result.error ?? "",
    rating: row.rating,
    usage: result.usage ?? null,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    idle: 0,
    waiting: "",
    fallback: "",
    malformed: Boolean(result.malformed),
    seq: 0,
    connection: "",
    detailed: false,
  };
}

/**
 * A turn with everything that is stored of its task.
 *
 * @param {Trace} trace
 * @returns {Turn}
 */
export function turnOfTrace({ task, events, calls, question }) {
  const started = turnOfRow(task);
  const folded = foldAll({ ...started, steps: [] }, events);
  return {
    ...folded,
    draft: "",
    calls: folded.calls.map((call) => withOutcome(call, calls)),
    steps: folded.steps.length ? folded.steps : started.steps,
    answer: started.answer || folded.answer,
    error: started.error,
    status: task.status,
    question,
    detailed: true,
  };
}

/**
 * The call with its whole result, which an event holds only in part.
 *
 * @param {Call} call
 * @param {LedgerCall[]} ledger
 * @returns {Call}
 */
function withOutcome(call, ledger) {
  const { scope, index, name, result } = call;
  const found = result && ledger.find((each) => each.scope === scope && each.idx === index && each.name === name);
  return found?.outcome ? { ...call, result: found.outcome, truncated: false } : call;
}

/**
 * @param {Turn} turn
 * @param {Frame[]} frames
 */
export function foldAll(turn, frames) {
  return frames.reduce((folded, frame) => {
    const next = FOLDS[frame.type]?.(folded, frame) ?? folded;
    return frame.seq ? { ...next, seq: frame.seq, mark: next.thinking.length } : next;
  }, turn);
}

/**
 * A connection stands: what had streamed of the running call comes again.
 *
 * @param {Turn} turn
 * @returns {Turn}
 */
export function joined(turn) {
  return { ...turn, connection: "live", ...NO_DRAFT, thinking: turn.thinking.slice(0, turn.mark) };
}

/** @type {Record<string, (turn: Turn, frame: Frame) => Turn>} */
const FOLDS = {
  task_started: (turn, { message, agent_id, model }) => ({ ...turn, message, agent: agent_id, model }),
  mode_selected: (turn, { mode }) => ({ ...turn, mode }),
  state_changed: (turn, frame) => {
    const updatedAt = frame.timestamp ?? turn.updatedAt;
    const idle = ACTIVE.has(frame.old) ? turn.idle : turn.idle + updatedAt - turn.updatedAt;
    return { ...turn, status: frame.new, waiting: "", updatedAt, idle };
  },
  fallback: (turn, { from_mode: from, to_mode: to, reason }) => ({
    ...turn,
    mode: to,
    ...NO_DRAFT,
    steps: [],
    entries: turn.entries.filter(({ plan }) => !plan),
    fallback: JSON.stringify({ from, to, reason }),
  }),
  paused: (turn, { forked }) => ({ ...turn, ...NO_DRAFT, ...(forked && begunNow(turn)) }),
  resumed: (turn) => ({ ...withoutPending(turn), question: null, error: "", answer: "" }),
  cancelled: (turn, { partial }) => ({ ...turn, answer: answerIn(turn.said, partial) || turn.answer, draft: "" }),
  steered: (turn, { message }) => ({
    ...turn,
    entries: [...turn.entries, entryOf(turn, { note: message })],
    pending: without(turn.pending, message),
  }),
  notes_moved: (turn, { count }) => {
    const late = turn.entries.filter(({ note }) => note).slice(count);
    return { ...turn, entries: turn.entries.filter((entry) => !late.includes(entry)) };
  },
  ...EXCHANGES,
  thought: (turn, { text }) => withThought(turn, text),
  tool_call: (turn, frame) => ({ ...turn, calls: withCall(turn.calls, frame, null) }),
  tool_result: (turn, frame) => ({ ...turn, calls: withCall(turn.calls, frame, frame.result ?? {}) }),
  agent_called: (turn, frame) => {
    const called = frame.called_task_id;
    return { ...turn, calls: turn.calls.map((call) => (call.key === keyOf(frame) ? { ...call, called } : call)) };
  },
  plan_update: (turn, { goal, steps }) => ({
    ...turn,
    goal,
    steps: (steps ?? []).map(stepOf),
    entries: turn.entries.some(({ plan }) => plan) ? turn.entries : [...turn.entries, entryOf(turn, { plan: true })],
  }),
  step_update: (turn, frame) => ({ ...turn, steps: withStep(turn.steps, frame) }),
  utterance: (turn, { utterance }) => ({
    ...turn,
    utterances: [...turn.utterances.slice(0, utterance.index), utterance],
  }),
  answer: (turn, { answer }) => ({ ...turn, answer: answerIn(turn.said, answer), draft: "" }),
  error: (turn, { message, final }) => (final ? { ...turn, error: message } : turn),
  recursion_start: withBreak,
  thinking: (turn, { content, phase, call }) => {
    if (call) return turn;
    return phase ? withBreak(turn) : { ...turn, thinking: turn.thinking + content, waiting: "" };
  },
  token: (turn, { content, trace_id }) =>
    turn.answer ? turn : { ...withToken(turn, content, trace_id), waiting: "" },
  model_called: (turn, frame) => withCalled(withThought(turn, frame.reply?.reasoning), frame),
  attempt_restarted: (turn, { trace_id }) => ({
    ...withoutPending(turn, trace_id),
    thinking: turn.thinking.slice(0, turn.mark),
  }),
  waiting: (turn, { reason }) => ({ ...turn, waiting: reason }),
};

/** With a whole thought, which is streamed where the task is followed. @param {Turn} turn @param {string} [text] */
function withThought(turn, text) {
  if (!text) return turn;
  const thinking = turn.connection ? turn.thinking : withBreak(turn).thinking + text;
  return { ...turn, thinking };
}

/** What a fork took over does not count as its time. @param {Turn} turn */
const begunNow = (turn) => ({ createdAt: turn.updatedAt, idle: 0 });

/**
 * The texts without the first that is this one.
 *
 * @param {string[]} texts
 * @param {string} text
 */
export function without(texts, text) {
  const place = texts.indexOf(text);
  return place < 0 ? texts : texts.toSpliced(place, 1);
}

/**
 * The calls, with this one begun or ended.
 *
 * @param {Call[]} calls
 * @param {Frame} frame
 * @param {Record<string, unknown> | null} result
 */
function withCall(calls, frame, result) {
  const key = keyOf(frame);
  /** @type {Call} */
  const call = {
    key,
    scope: frame.scope ?? "",
    index: frame.index,
    name: frame.name,
    arguments: frame.arguments ?? {},
    result,
    seconds: frame.seconds ?? 0,
    step: frame.step_id ?? "",
    truncated: Boolean(frame.truncated),
  };
  const place = calls.findIndex((each) => each.key === key && each.result === null);
  return place < 0 ? [...calls, call] : calls.with(place, { ...calls[place], ...call });
}

/** @param {Frame} frame */
const keyOf = (frame) => `${frame.trace_id || frame.step_id}:${frame.index}`;

/** @param {Record<string, any>} step */
function stepOf(step) {
  const { step_id: id, description = "", status = "pending", note = "" } = step;
  return { id: String(id), description, status, note };
}

/**
 * @param {Turn["steps"]} steps
 * @param {Frame} frame
 */
function withStep(steps, frame) {
  const place = steps.findIndex((step) => step.id === frame.step_id);
  if (place < 0) return [...steps, stepOf(frame)];
  const old = steps[place];
  const description = old.description || frame.description;
  return steps.with(place, { ...old, description, status: frame.status, note: frame.note ?? "" });
}
