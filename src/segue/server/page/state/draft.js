// @ts-check
/** The answer while it streams, without what does not count any more. */

/** @import { Frame, Turn } from "./types.js" */

export const NO_DRAFT = { written: "", draft: "", kept: 0, writer: "" };
/** Ends a text before calls, and a thought. */
const BREAK = "\n\n";

/** A round or a phase begins: what is thought next is a thought of its own. @param {Turn} turn */
export function withBreak(turn) {
  const { thinking } = turn;
  return thinking && !thinking.endsWith(BREAK) ? { ...turn, thinking: thinking + BREAK } : turn;
}

/** What other rounds than the `writer` wrote stays. @param {Turn} turn @param {string} [writer] */
function writtenBy(turn, writer = "") {
  const kept = turn.writer && turn.writer !== writer ? turn.written.length : turn.kept;
  return { ...turn, kept, writer };
}

/** Without the texts before calls; a resumed task has the latest. @param {string[]} said @param {string} text */
export function answerIn(said, text) {
  const first = said.findIndex((_, nth) => text.startsWith(said.slice(nth).join("")));
  return first < 0 ? text : text.slice(said.slice(first).join("").length);
}

/** @param {Turn} turn @param {string} written */
function withWritten(turn, written) {
  return { ...turn, written, draft: answerIn(turn.said, written) };
}

/** @param {Turn} turn @param {string} content @param {string} [writer] */
export function withToken(turn, content, writer) {
  const begun = writtenBy(turn, writer);
  return withWritten(begun, begun.written + content);
}

/** With a text before calls, streamed or not: a thought. @param {Turn} turn @param {Frame} called */
export function withCalled(turn, { reply, trace_id, step_id, parent_id }) {
  if (!reply?.streamed || step_id || parent_id) return turn;
  const begun = writtenBy(withBreak(turn), trace_id);
  const text = reply.text + BREAK;
  const written = begun.written.slice(0, begun.kept) + text;
  const said = [...turn.said, text];
  return withWritten({ ...begun, kept: written.length, said, thinking: begun.thinking + text, html: "" }, written);
}

/** Without what the round wrote that is repeated. @param {Turn} turn @param {string} [writer] */
export function withoutPending(turn, writer = turn.writer) {
  return turn.writer && writer !== turn.writer ? turn : withWritten(turn, turn.written.slice(0, turn.kept));
}
