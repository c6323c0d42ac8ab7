// @ts-check
/** One task's stream of events, which survives lost connections and restarts of the service. */
import { ApiError, request } from "./api.js";
import { parse } from "./json.js";

/** @import { Frame } from "./types.js" */
/**
 * @typedef {object} Listener
 * @property {() => void} joined a connection stands; deltas that streamed before it come again
 * @property {(frames: Frame[]) => void} frames
 * @property {() => void} lost the connection broke, and is tried again
 */

/** Milliseconds without a byte, heartbeats included, after which a connection counts as lost. */
const SILENCE = 45_000;
const FIRST_DELAY = 400;
const LONGEST_DELAY = 5_000;

/**
 * Follow a task until its `done` frame: every durable event after `after` exactly once.
 *
 * @param {string} taskId
 * @param {Listener} listener
 * @param {{ after: number, aborted: AbortSignal, response?: Response | null }} options `response` is an open stream
 */
export async function follow(taskId, listener, { after, aborted, response = null }) {
  const reached = { seq: after, delay: FIRST_DELAY };
  let open = response;
  while (!aborted.aborted) {
    try {
      if (!open) {
        open = await connect(taskId, reached.seq, aborted);
        listener.joined();
      }
      if (await read(open, listener, reached, aborted)) return;
    } catch (error) {
      if (aborted.aborted) return;
      if (error instanceof ApiError && !error.isTemporary) throw error;
    }
    open = null;
    listener.lost();
    await pause(reached.delay, aborted);
    reached.delay = Math.min(reached.delay * 2, LONGEST_DELAY);
  }
}

/**
 * Pass on what a connection sends, until it ends; returns whether the task's end came.
 *
 * @param {Response} open
 * @param {Listener} listener
 * @param {{ seq: number, delay: number }} reached
 * @param {AbortSignal} aborted
 */
async function read(open, listener, reached, aborted) {
  for await (const frames of framesOf(open, aborted)) {
    const fresh = frames.filter((frame) => !frame.seq || frame.seq > reached.seq);
    reached.seq = fresh.reduce((seq, frame) => Math.max(seq, frame.seq ?? 0), reached.seq);
    reached.delay = FIRST_DELAY;
    if (fresh.length) listener.frames(fresh);
    if (fresh.at(-1)?.type === "done") return true;
  }
  return false;
}

/**
 * @param {string} taskId
 * @param {number} after
 * @param {AbortSignal} aborted
 */
function connect(taskId, after, aborted) {
  /** @type {Record<string, string>} */
  const headers = after ? { "Last-Event-ID": `${taskId}:${after}` } : {};
  return request("GET", `/api/tasks/${encodeURIComponent(taskId)}/stream?so_far=true`, { headers, signal: aborted });
}

/**
 * The frames of a response, as many at once as arrived together.
 *
 * @param {Response} response
 * @param {AbortSignal} aborted
 * @returns {AsyncGenerator<Frame[], void, void>}
 */
async function* framesOf(response, aborted) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  const stop = () => void reader.cancel().catch(() => {});
  aborted.addEventListener("abort", stop);
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await withTimeout(reader.read(), stop);
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      const data = lines.filter((line) => line.startsWith("data: "));
      if (data.length) yield data.map((line) => parse(line.slice(6)));
    }
  } finally {
    aborted.removeEventListener("abort", stop);
    stop();
  }
}

/**
 * @template T
 * @param {Promise<T>} reading
 * @param {() => void} stop
 */
async function withTimeout(reading, stop) {
  const timer = setTimeout(stop, SILENCE);
  try {
    return await reading;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Wait, at most until the browser is online again.
 *
 * @param {number} milliseconds
 * @param {AbortSignal} aborted
 * @returns {Promise<void>}
 */
export function pause(milliseconds, aborted) {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      removeEventListener("online", finish);
      aborted.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, milliseconds);
    addEventListener("online", finish);
    aborted.addEventListener("abort", finish);
  });
}
