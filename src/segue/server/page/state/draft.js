// @ts-check
/** The answer while it streams, without what does not count any more. */

/** @import { Frame, Turn } from "./types.js" */

export const NO_DRAFT = { draft: "", kept: 0, writer: "" };
/** Stands between a text before calls and what follows it, and between two thoughts. */
export const BREAK = "\n\n";

/** What other rounds than the `writer` wrote stays. @param {Turn} turn @param {string} [writer] */
function writtenBy(turn, writer = "") {
  const kept = turn.writer && turn.writer !== writer ? turn.draft.length : turn.kept;
  return { ...turn, kept, writer };
}

/** @param {Turn} turn @param {string} content @param {string} [writer] */
export function withToken(turn, content, writer) {
  const begun = writtenBy(turn, writer);
  return { ...begun, draft: begun.draft + content };
}

/** With a text before calls, streamed or not. @param {Turn} turn @param {Frame} called */
export function withCalled(turn, { reply, trace_id, step_id, parent_id }) {
  if (!reply?.streamed || step_id || parent_id) return turn;
  const begun = writtenBy(turn, trace_id);
  const draft = begun.draft.slice(0, begun.kept) + reply.text + BREAK;
  return { ...begun, draft, kept: draft.length };
}

/** Without what the round wrote that is repeated. @param {Turn} turn @param {string} [writer] */
export function withoutPending(turn, writer = turn.writer) {
  return turn.writer && writer !== turn.writer ? turn : { ...turn, draft: turn.draft.slice(0, turn.kept) };
}
