// @ts-check
/** The turns whose tasks run: each follows its task's stream until it ends. */
import { ApiError } from "./api.js";
import { attempt } from "./failures.js";
import { renderSoon } from "./markdown.js";
import { refreshLists } from "./sessions.js";
import { follow, pause } from "./stream.js";
import { readTrace } from "./trace.js";
import { ACTIVE, foldAll, joined, turnOfTrace } from "./turn.js";

/** @import { Frame } from "./types.js" */
/** @typedef {import("./store.js").TurnSignal} TurnSignal */

/** Milliseconds for which frames are gathered before they are shown. */
const GATHERING = 40;
/** Milliseconds between two attempts to learn how a task ended. */
const RETRY_AFTER = 1_000;
/** @type {Map<string, AbortController>} by task */
const following = new Map();

/** Stop following; the tasks go on. */
export function leaveAll() {
  for (const aborter of following.values()) aborter.abort();
  following.clear();
}

/**
 * Everything that is stored of the turn's task.
 *
 * @param {TurnSignal} turn
 */
export async function refresh(turn) {
  const fresh = turnOfTrace(await readTrace(turn.value.id));
  const { thinking, pending, entries } = turn.value;
  const placed = fresh.entries.map((entry, n) => ({ ...entry, thinking: entries[n]?.thinking ?? thinking.length }));
  const live = fresh.thinking ? {} : { thinking, mark: thinking.length, entries: placed };
  const said = fresh.entries.map((entry) => entry.note);
  turn.value = { ...fresh, ...live, pending: pending.filter((note) => !said.includes(note)) };
  if (turn.value.answer && !turn.value.html) renderSoon(turn); // only an outcome comes rendered
}

/**
 * Show a running task as it goes on; one that is followed already is left alone.
 *
 * @param {TurnSignal} turn
 * @param {Response | null} [response] its stream, where it is open
 */
export function watch(turn, response = null) {
  const { id } = turn.value;
  if (following.has(id)) return void response?.body?.cancel();
  const aborter = new AbortController();
  following.set(id, aborter);
  void attempt(() => run(turn, response, aborter.signal)).finally(() => {
    if (following.get(id) === aborter) following.delete(id);
    if (!aborter.signal.aborted) turn.value = { ...turn.value, connection: "" };
  });
}

/**
 * @param {TurnSignal} turn
 * @param {Response | null} response
 * @param {AbortSignal} aborted
 */
async function run(turn, response, aborted) {
  const gathered = gather(turn);
  if (!response) await untilReachable(() => refresh(turn), aborted, gathered.lose);
  if (aborted.aborted) return;
  turn.value = { ...turn.value, connection: "live" };
  await follow(turn.value.id, { joined: gathered.join, frames: gathered.add, lost: gathered.lose }, {
    after: turn.value.seq,
    aborted,
    response,
  });
  gathered.flush();
  if (aborted.aborted) return;
  await untilReachable(() => refresh(turn), aborted, gathered.lose);
  if (aborted.aborted) return;
  following.delete(turn.value.id); // what is asked of it from here on follows it anew
  void refreshLists();
  if (ACTIVE.has(turn.value.status)) watch(turn);
}

/**
 * Ask again until the service is back: it may stop before a stream is joined, and right after it ended.
 *
 * @param {() => Promise<void>} act
 * @param {AbortSignal} aborted
 * @param {() => void} lost
 */
async function untilReachable(act, aborted, lost) {
  while (!aborted.aborted) {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof ApiError) || !error.isTemporary) throw error;
      lost();
      await pause(RETRY_AFTER, aborted);
    }
  }
}

/**
 * Frames that are shown together, so that a fast stream draws no more often than a screen.
 *
 * @param {TurnSignal} turn
 */
function gather(turn) {
  /** @type {Frame[]} */
  let waiting = [];
  let timer = 0;
  const flush = () => {
    clearTimeout(timer);
    timer = 0;
    if (!waiting.length) return;
    const before = turn.value;
    turn.value = foldAll(before, waiting);
    waiting = [];
    if ((turn.value.draft || turn.value.answer) !== (before.draft || before.answer)) renderSoon(turn);
  };
  return {
    flush,
    /** @param {Frame[]} frames */
    add(frames) {
      waiting.push(...frames);
      timer ||= window.setTimeout(flush, GATHERING);
    },
    join() {
      flush();
      turn.value = joined(turn.value);
    },
    lose() {
      flush();
      turn.value = { ...turn.value, connection: "lost" };
    },
  };
}
