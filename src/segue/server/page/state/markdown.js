// @ts-check
/** Markdown, rendered and sanitised by the service: also of an answer that is being written. */
import { ApiError, send } from "./api.js";
import { store } from "./store.js";

/** @typedef {import("./store.js").TurnSignal} TurnSignal */

/** Milliseconds between the starts of two requests for one turn. */
const INTERVAL = 250;
/** Milliseconds to the attempt after one that failed; they double with each, up to this many times. */
const RETRY_AFTER = 1_000;
const DOUBLINGS = 5;

/** @typedef {{ next: number, busy: boolean, timer: number, failures: number }} Rendering */
/** @type {WeakMap<TurnSignal, Rendering>} */
const rendering = new WeakMap();

/**
 * Bring the turn's `html` up to its text, at most one request at a time.
 *
 * @param {TurnSignal} turn
 */
export function renderSoon(turn) {
  const state = rendering.get(turn) ?? { next: 0, busy: false, timer: 0, failures: 0 };
  rendering.set(turn, state);
  if (state.busy || state.timer) return;
  const wait = Math.max(0, state.next - performance.now());
  state.timer = window.setTimeout(() => void renderNow(turn, state), wait);
}

/**
 * @param {TurnSignal} turn
 * @param {Rendering} state
 */
async function renderNow(turn, state) {
  const text = textOf(turn);
  let isRetried = false;
  Object.assign(state, { timer: 0, busy: true, next: performance.now() + INTERVAL });
  try {
    const html = text ? (await send("POST", "/api/markdown", { text })).html : "";
    if (textOf(turn).startsWith(text)) turn.value = { ...turn.value, html };
    state.failures = 0;
  } catch (error) {
    const { retryAfter, isTemporary } = error instanceof ApiError ? error : { retryAfter: 0, isTemporary: false };
    const wait = Math.max(retryAfter * 1000, RETRY_AFTER * 2 ** Math.min(state.failures, DOUBLINGS));
    state.next = performance.now() + wait; // the plain text is shown meanwhile
    state.failures += 1;
    isRetried = isTemporary && store.turns.value.includes(turn);
  } finally {
    state.busy = false;
  }
  if (isRetried || textOf(turn) !== text) renderSoon(turn);
}

/** @param {TurnSignal} turn */
function textOf({ value: { draft, answer } }) {
  return draft || answer;
}
