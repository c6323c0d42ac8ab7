// @ts-check
/** What a task asked a person, and what they answered. */

/** @import { Entry, Exchange, Frame, Question, Turn } from "./types.js" */

/**
 * Where in its turn something stands that a person said, or was asked, and the plan.
 *
 * @param {Turn} turn
 * @param {{ note?: string, asked?: string, plan?: true }} what
 * @returns {Entry}
 */
export function entryOf({ calls, thinking }, what) {
  return { note: "", asked: "", ...what, calls: calls.length, thinking: thinking.length };
}

/** @param {Turn} turn @param {Question} question */
function withQuestion(turn, question) {
  const id = question.interrupt_id;
  const others = turn.exchanges.filter((each) => each.question.interrupt_id !== id);
  const entries = turn.entries.some(({ asked }) => asked === id)
    ? turn.entries
    : [...turn.entries, entryOf(turn, { asked: id })];
  return { ...turn, question, entries, exchanges: [...others, { question, verdicts: null, answer: null }] };
}

/**
 * With the answer to the question of this kind that was asked last.
 *
 * @param {Turn} turn
 * @param {string} kind
 * @param {Partial<Exchange>} given
 */
function withAnswer(turn, kind, given) {
  const place = turn.exchanges.findLastIndex((each) => each.question.kind === kind);
  const exchanges = place < 0 ? turn.exchanges : turn.exchanges.with(place, { ...turn.exchanges[place], ...given });
  return { ...turn, question: null, exchanges };
}

/** @type {Record<string, (turn: Turn, frame: Frame) => Turn>} */
export const EXCHANGES = {
  approval_requested: (turn, { calls, interrupt_id }) =>
    withQuestion(turn, { kind: "approval", calls, interrupt_id }),
  approval_given: (turn, { verdicts }) => withAnswer(turn, "approval", { verdicts }),
  question_asked: (turn, { question, choices, interrupt_id }) =>
    withQuestion(turn, { kind: "question", question, choices, interrupt_id }),
  wait_started: (turn, { until, name, interrupt_id }) =>
    withQuestion(turn, { kind: "wait", until, event: name, interrupt_id }),
  question_answered: (turn, { answer }) => withAnswer(turn, "question", { answer }),
};
