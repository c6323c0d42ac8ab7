// @ts-check
/** The branches of the shown conversation: sessions that repeat each other up to a turn. */
import { goTo } from "./router.js";
import { get, getAll, request, send, valueOf } from "./api.js";
import { attempt } from "./failures.js";
import { requestKey } from "./message-key.js";
import { refreshLists } from "./sessions.js";
import { store } from "./store.js";

/** @import { Branch, BranchPreview, Json } from "./types.js" */

const sentKey = requestKey();

/** @param {string} session @returns {Promise<Branch[]>} none where they cannot be read */
export async function readBranches(session) {
  const page = await getAll(`/api/sessions/${encodeURIComponent(session)}/branches`).catch(() => ({ items: [] }));
  return page.items;
}

/** The session that a turn of a branch was made in. @param {Branch} branch @param {number} turn */
function owner(branch, turn) {
  let made = branch;
  while (turn < made.turn) {
    const parent = store.branches.value.find((each) => each.session_id === made.parent);
    if (!parent) break;
    made = parent;
  }
  return made.session_id;
}

/**
 * The sessions to show for each version of a turn of the shown one, oldest first, and the place of the shown one.
 *
 * @param {number} turn from 1
 */
export function versionsOf(turn) {
  const { branches, session } = store;
  const shown = branches.value.find((each) => each.session_id === session.value);
  if (!shown) return { sessions: [], place: 0 };
  const before = turn > 1 ? owner(shown, turn - 1) : "";
  const alike = branches.value.filter((each) => each.turns >= turn && (turn === 1 || owner(each, turn - 1) === before));
  const versions = Map.groupBy(alike, (each) => owner(each, turn));
  const sessions = [...versions.values()].map((same) => (same.includes(shown) ? shown : latest(same)).session_id);
  return { sessions, place: sessions.indexOf(session.value) };
}

/** @param {Branch[]} branches */
function latest(branches) {
  return branches.reduce((a, b) => (b.updated_at > a.updated_at ? b : a));
}

/**
 * What stays in effect if a task's turn is run again, and where it begins.
 *
 * @param {string} task
 * @returns {Promise<BranchPreview | undefined>}
 */
export async function preview(task) {
  return attempt(() => get(`/api/tasks/${encodeURIComponent(task)}/branch-preview`));
}

/** Undo what can be; returns the place with the effects that stay. @param {BranchPreview} place */
export async function undoFrom(place) {
  const path = `/api/sessions/${encodeURIComponent(place.session_id)}/undo`;
  const done = await attempt(() => send("POST", path, { checkpoint_id: place.checkpoint_id }));
  return done && { ...place, effects: done.effects };
}

/**
 * Begin a task's turn again, and show that.
 *
 * @param {string} task
 * @param {string} message empty for the same
 */
export function branch(task, message) {
  return begin(`/api/tasks/${encodeURIComponent(task)}/branch`, message ? { message } : {});
}

/**
 * Go on from a snapshot with another state, in a branch, and show that.
 *
 * @param {string} session
 * @param {string} checkpoint
 * @param {Json} state the fields that change
 */
export function editState(session, checkpoint, state) {
  return begin(`/api/sessions/${encodeURIComponent(session)}/edit`, { checkpoint_id: checkpoint, state });
}

/** @param {string} path @param {Json} body */
async function begin(path, body) {
  const headers = { "Idempotency-Key": sentKey.of(JSON.stringify([path, body])) };
  const opened = store.opened.value;
  const row = await attempt(async () => valueOf(await request("POST", path, { body, headers })));
  if (!row) return false;
  sentKey.forget();
  await refreshLists();
  if (store.opened.value === opened) goTo(row.session_id);
  return true;
}
