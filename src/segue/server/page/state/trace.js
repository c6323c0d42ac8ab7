// @ts-check
/** What is stored of a task, page by page. */
import { get } from "./api.js";

/** @import { Trace } from "./types.js" */

/** Pages of a thousand events that are read of one task. */
const PAGES = 10;

/**
 * A task with its events and calls; `next` says that there are more than the page reads.
 *
 * @param {string} taskId
 * @returns {Promise<Trace>}
 */
export async function readTrace(taskId) {
  const path = `/api/tasks/${encodeURIComponent(taskId)}`;
  /** @type {Trace} */
  let trace = await get(`${path}?html=true`);
  for (let read = 1; trace.next && read < PAGES; read++) {
    const { after_event, after_call } = trace.next;
    /** @type {Trace} */
    const page = await get(`${path}?after_event=${after_event}&after_call=${after_call}`);
    const events = [...trace.events, ...page.events];
    trace = { ...page, task: trace.task, events, calls: [...trace.calls, ...page.calls] };
  }
  return trace;
}
