// @ts-check
/** The conversation that is shown: loading it, and what a person does in it. */
import { signal } from "../vendor/signals-core.js";
import { get, request } from "./api.js";
import { readBranches } from "./branches.js";
import { attempt } from "./failures.js";
import { showFilesOf, uploads } from "./files.js";
import { leaveAll, refresh, watch } from "./live.js";
import { requestKey } from "./message-key.js";
import { goTo, nameSession, route } from "./router.js";
import { refreshLists } from "./sessions.js";
import { isPlanned, shownRow, store, turnOf } from "./store.js";
import { answer } from "./task-actions.js";
import { ACTIVE, OPEN, turnOfRow, without } from "./turn.js";

/** @import { Attachment, Json, TaskRow } from "./types.js" */
/** @typedef {import("./store.js").TurnSignal} TurnSignal */

const PAGE = 20;
const sentKey = requestKey();

/**
 * Show a session; an empty name is a new conversation.
 *
 * @param {string} session
 */
export async function open(session) {
  leaveAll();
  showFilesOf(session, store.session.value);
  store.paging.value = { state: session ? "loading" : "none", older: null };
  store.session.value = session;
  store.opened.value += 1;
  if (store.sought.value?.session !== session) store.sought.value = null;
  store.turns.value = [];
  if (!store.branches.value.some((each) => each.session_id === session)) store.branches.value = [];
  store.focus.value = "";
  store.sending.value = "";
  if (!session) return;
  await attempt(() => load(session));
  const isLoading = store.session.value === session && store.paging.value.state === "loading";
  if (isLoading) store.paging.value = { state: "failed", older: null };
}

/** @param {string} session */
async function load(session) {
  const [page, branches] = await Promise.all([get(pageAddress(session)), readBranches(session)]);
  if (store.session.value !== session) return;
  leaveAll();
  const known = branches.find((each) => each.session_id === session)?.turns ?? page.items.length;
  store.firstTurn.value = known - page.items.length + 1;
  store.branches.value = branches;
  store.turns.value = page.items.toReversed().map(shown);
  store.paging.value = { state: "ready", older: page.next };
  const row = shownRow();
  store.agent.value = row?.default_agent || store.turns.value.at(-1)?.value.agent || store.agent.value;
}

/**
 * Show the session that a task belongs to.
 *
 * @param {string} taskId
 */
export async function openTask(taskId) {
  const trace = await attempt(() => get(`/api/tasks/${encodeURIComponent(taskId)}?limit=1`));
  if (route.value.task !== taskId) return;
  if (!trace) return goTo("");
  store.focus.value = taskId;
  goTo(trace.task.session_id);
}

/** Show turns before the oldest that is shown. @param {number} [limit] */
export async function loadOlder(limit = PAGE) {
  const { session, paging } = store;
  const { older } = paging.value;
  if (!older || paging.value.state === "loading") return;
  const of = session.value;
  paging.value = { state: "loading", older };
  const page = await attempt(() => get(`${pageAddress(of, limit)}&before=${encodeURIComponent(older)}`));
  if (session.value !== of) return;
  if (page) {
    store.turns.value = [...page.items.toReversed().map(shown), ...store.turns.value];
    store.firstTurn.value -= page.items.length;
  }
  paging.value = { state: "ready", older: page ? page.next : older };
}

/** @param {string} session @param {number} [limit] */
function pageAddress(session, limit = PAGE) {
  return `/api/sessions/${encodeURIComponent(session)}/tasks?html=true&limit=${limit}`;
}

/**
 * @param {TaskRow} row
 * @returns {TurnSignal}
 */
function shown(row) {
  const turn = signal(turnOfRow(row));
  if (ACTIVE.has(row.status)) watch(turn);
  return turn;
}

/** Load what is stored of a turn, once. @param {TurnSignal} turn */
export async function loadDetails(turn) {
  if (turn.value.detailed || turn.value.connection) return;
  turn.value = { ...turn.value, detailed: true };
  await attempt(() => refresh(turn));
}

/** Load a turn anew: a stream truncates what is long. @param {string} taskId */
export async function reload(taskId) {
  const turn = turnOf(taskId);
  if (turn) await attempt(() => refresh(turn));
}

/** The turn that has not come to an end, if there is one. */
export function openTurn() {
  const latest = store.turns.value.at(-1);
  return latest && OPEN.has(latest.value.status) ? latest : undefined;
}

/**
 * Send a message: to the task that is open, else as a new one.
 *
 * @param {string} message
 * @returns {Promise<boolean>} whether it was taken
 */
export async function say(message) {
  const turn = openTurn();
  const { question } = turn?.value ?? {};
  if (turn && question && question.kind !== "approval") {
    return answer(turn, { answer: message, interrupt_id: question.interrupt_id });
  }
  if (!turn) {
    const opened = store.opened.value;
    store.sending.value = message;
    const taken = await submit(newTask(message));
    if (store.opened.value === opened) store.sending.value = "";
    return taken;
  }
  turn.value = { ...turn.value, pending: [...turn.value.pending, message] };
  const taken = await submit({ message, session_id: store.session.value, steer: true });
  if (!taken) turn.value = { ...turn.value, pending: without(turn.value.pending, message) };
  return taken;
}

/**
 * @param {Json & { message: string }} said
 * @returns {Promise<boolean>} whether it was taken
 */
async function submit(said) {
  const attachments = uploads();
  const body = { ...said, attachments: attachments.map((file) => file.upload_id) };
  const headers = { "Idempotency-Key": sentKey.of(JSON.stringify(body)) };
  const opened = store.opened.value;
  const response = await attempt(() => request("POST", "/api/chat", { body, headers }));
  if (!response) return false;
  sentKey.forget();
  if (store.opened.value === opened) adopt(response, said.message, attachments);
  else {
    void response.body?.cancel(); // another conversation was opened meanwhile
    void refreshLists();
  }
  return true;
}

/** @param {string} message */
function newTask(message) {
  const { session, agent, mode, reviewPlan } = store;
  const chosen = { agent_id: agent.value || null, mode: mode.value || null };
  const review = reviewPlan.value && isPlanned() && { review_plan: true };
  return { message, session_id: session.value || null, ...chosen, ...review, origin: "page" };
}

/** Show a stream's task. @param {Response} response @param {string} message @param {Attachment[]} attachments */
function adopt(response, message, attachments) {
  const taskId = response.headers.get("X-Task-Id") ?? "";
  const session = decodeURIComponent(response.headers.get("X-Session-Id") ?? "");
  const known = turnOf(taskId);
  if (known) return watch(known, response);
  const now = Date.now() / 1000;
  const turn = signal({
    ...turnOfRow({
      task_id: taskId,
      session_id: session,
      agent_id: store.agent.value,
      user_id: "",
      mode: store.mode.value,
      model: "",
      status: "running",
      message,
      attachments,
      error: null,
      result: null,
      rating: null,
      created_at: now,
      updated_at: now,
    }),
    detailed: true,
  });
  store.turns.value = [...store.turns.value, turn];
  store.focus.value = "";
  if (store.session.value !== session) {
    store.session.value = session;
    store.paging.value = { state: "ready", older: null };
    nameSession(session);
  }
  watch(turn, response);
  void refreshLists();
}

/** Look again at a session that changed elsewhere: another tab, the terminal, a restart. */
export async function lookAgain() {
  const session = store.session.value;
  if (store.paging.value.state === "failed") return load(session).catch(() => {}); // it is looked again anyway
  if (!hasChanged(session)) return;
  const page = await get(pageAddress(session)).catch(() => null);
  if (!page || store.session.value !== session) return;
  for (const task of /** @type {TaskRow[]} */ (page.items.toReversed())) merge(task);
}

/** Whether the list of sessions knows more of the session than is shown. @param {string} session */
function hasChanged(session) {
  const row = store.sessions.value?.find((each) => each.session_id === session);
  const latest = store.turns.value.at(-1)?.value;
  if (!row || !latest || latest.connection || store.paging.value.state !== "ready") return false;
  return row.status !== latest.status || row.updated_at > latest.updatedAt;
}

/** @param {TaskRow} task */
function merge(task) {
  const known = turnOf(task.task_id);
  if (!known) store.turns.value = [...store.turns.value, shown(task)];
  else if (known.value.connection || known.value.updatedAt >= task.updated_at) return;
  else if (ACTIVE.has(task.status)) watch(known);
  else void attempt(() => refresh(known));
}
