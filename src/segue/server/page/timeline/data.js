// @ts-check
/** The timeline of the shown session: loaded again as its tasks go on, and the points that were chosen on it. */
import { ApiError, get } from "../state/api.js";
import { sentence } from "../state/failures.js";
import { store } from "../state/store.js";
import { effect, signal, untracked } from "../vendor/signals-core.js";

/** @import { Json } from "../state/types.js" */
/**
 * @typedef {{ type: string, at: number, task_id: string | null, text?: string, name?: string, arguments?: Json,
 *   outcome?: string, kind?: string }} Happened
 * @typedef {{ task_id: string, name: string, arguments: Json, outcome: string, started_at: number,
 *   undo: "" | "available" | "done" | "failed" | "unknown" }} Effect
 * @typedef {{ id: string, checkpoint_id: string, created_at: number, task_id: string | null, turn: number,
 *   recursion: number, steps: string[], inside: string, next: string[], happened: Happened[],
 *   happened_since: Happened[], effects: Effect[], effects_since: number,
 *   forked_from: { session_id: string, checkpoint_id: string } | null }} Snapshot
 * @typedef {{ session: string, snapshot: Snapshot }} Place
 */

/** How many snapshots are loaded at first, of which a long session has far more. */
const FIRST = 500;
/** How many are loaded as a task goes on. */
const NEWEST = 40;
/** The most that the service gives at once. */
const MOST = 100_000;
/** Milliseconds between two requests, and how many times as long as the last one took. */
const PAUSE = 400;
const REST = 3;

/** `entries` are the oldest first; `more` says that there are older ones; `error` why they cannot be loaded. */
export const timeline = signal({ session: "", entries: /** @type {Snapshot[]} */ ([]), more: false, error: "" });
/** The snapshot whose state is shown, by its id; empty for none. */
export const selected = signal("");
/** The snapshot to compare with; it stays when another session is opened, so that two sessions can be compared. */
export const marked = signal(/** @type {Place | null} */ (null));
/** The snapshots whose difference is shown. */
export const compared = signal(/** @type {[Place, Place] | null} */ (null));

/** @param {string} session */
export const sessionPath = (session) => `/api/sessions/${encodeURIComponent(session)}`;

let limit = FIRST;
let isBusy = false;
let isStale = false;
let isWhole = false;

effect(() => {
  const session = store.session.value;
  const latest = store.turns.value.at(-1)?.value;
  const isShown = store.panel.value === "timeline";
  void [latest?.seq, latest?.status];
  untracked(() => {
    if (timeline.value.session !== session) begin(session);
    if (isShown) void load();
  });
});

/** @param {string} session */
function begin(session) {
  timeline.value = { session, entries: [], more: false, error: "" };
  selected.value = "";
  limit = FIRST;
}

/** Load everything again: what happened outside may have changed at any point. */
export function reloadTimeline() {
  isWhole = true;
  return load();
}

/** Load twice as many of the older ones. */
export function loadOlderPoints() {
  limit = Math.min(2 * limit, MOST);
  return reloadTimeline();
}

async function load() {
  isStale = true;
  if (isBusy) return;
  isBusy = true;
  while (isStale) {
    isStale = false;
    const begun = Date.now();
    await loadOnce(timeline.value.session);
    await new Promise((resolve) => setTimeout(resolve, Math.max(PAUSE, REST * (Date.now() - begun))));
  }
  isBusy = false;
}

/** @param {string} session */
async function loadOnce(session) {
  if (!session) return; // a new conversation has none yet
  const known = timeline.value.entries;
  const isPart = known.length > 0 && !isWhole;
  isWhole = false;
  const found = await read(`${sessionPath(session)}/timeline?limit=${isPart ? NEWEST : limit}`);
  if (timeline.value.session !== session) return;
  if ("error" in found) return void (timeline.value = { ...timeline.value, error: found.error });
  const entries = isPart ? joined(known, found.items) : found.items;
  if (!entries) return void reloadTimeline();
  timeline.value = { session, entries, more: isPart ? timeline.value.more : found.more, error: "" };
}

/** @param {string} path */
async function read(path) {
  try {
    return await get(path);
  } catch (error) {
    if (!(error instanceof ApiError)) reportError(error);
    return { error: sentence(error) };
  }
}

/**
 * The snapshots that are known, with the newest ones in their places; null where some lie between.
 *
 * @param {Snapshot[]} known
 * @param {Snapshot[]} newest
 */
function joined(known, newest) {
  const place = known.findIndex((entry) => entry.checkpoint_id === newest[0]?.checkpoint_id);
  return known.length && place < 0 ? null : [...known.slice(0, Math.max(place, 0)), ...newest];
}

/** The effects of the calls after a snapshot. @param {Snapshot[]} entries @param {string} checkpointId */
export function effectsAfter(entries, checkpointId) {
  const place = entries.findIndex((entry) => entry.checkpoint_id === checkpointId);
  return entries.slice(place + 1).flatMap((entry) => entry.effects);
}

/**
 * Choose a snapshot to compare with, or show its difference from the one that was chosen.
 *
 * @param {string} session
 * @param {Snapshot} snapshot
 */
export function mark(session, snapshot) {
  const first = marked.value;
  if (!first) marked.value = { session, snapshot };
  else if (isMarked(session, snapshot)) marked.value = null;
  else compared.value = [first, { session, snapshot }];
}

/** @param {string} session @param {Snapshot} snapshot */
export function isMarked(session, snapshot) {
  const first = marked.value;
  return first?.session === session && first.snapshot.checkpoint_id === snapshot.checkpoint_id;
}
