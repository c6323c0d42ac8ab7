// @ts-check
/** What a person does with the task of a turn. */
import { send } from "./api.js";
import { attempt } from "./failures.js";
import { refresh, watch } from "./live.js";
import { refreshLists } from "./sessions.js";
import { ACTIVE } from "./turn.js";

/** @import { Json, TaskRow } from "./types.js" */
/** @typedef {import("./store.js").TurnSignal} TurnSignal */

/**
 * Ask something of a turn's task, then show what came of it.
 *
 * @param {TurnSignal} turn
 * @param {string} what pause, resume, cancel, answer or rating
 * @param {Json} [body]
 */
async function ask(turn, what, body) {
  const path = `/api/tasks/${encodeURIComponent(turn.value.id)}/${what}`;
  const row = await attempt(() => send("POST", path, body));
  if (!row) return false;
  const { status, rating, error } = /** @type {TaskRow} */ (row);
  const question = status === "waiting" ? turn.value.question : null;
  turn.value = { ...turn.value, status, rating, question, error: error ?? "" };
  if (ACTIVE.has(status)) watch(turn);
  else await attempt(() => refresh(turn));
  void refreshLists();
  return true;
}

/** @param {TurnSignal} turn */
export const pause = (turn) => ask(turn, "pause");
/** @param {TurnSignal} turn */
export const resume = (turn) => ask(turn, "resume");
/** @param {TurnSignal} turn */
export const cancel = (turn) => ask(turn, "cancel");
/** @param {TurnSignal} turn @param {number} rating */
export const rate = (turn, rating) => ask(turn, "rating", { rating });
/** @param {TurnSignal} turn @param {Json} body */
export const answer = (turn, body) => ask(turn, "answer", body);
