// @ts-check
/** What the page knows, as signals. Actions change it, components read it with `useRead`. */
import { signal } from "../vendor/signals-core.js";
import { remembered } from "./storage.js";

/** @import { Agent, Branch, NextFile, SessionRow, Turn, WaitingTask } from "./types.js" */
/** @typedef {import("../vendor/signals-core.js").Signal<Turn>} TurnSignal */
/** @typedef {{ id: number, kind: "error" | "note", text: string }} Toast */
/** @typedef {{ state: "none" | "loading" | "ready" | "failed", older: string | null }} Paging */

export const store = {
  /** The session that is shown; empty for a new one. */
  session: signal(""),
  /** How many conversations were opened so far: new ones share the empty name. */
  opened: signal(0),
  /** @type {import("../vendor/signals-core.js").Signal<TurnSignal[]>} oldest first */
  turns: signal([]),
  /** The turn that is kept in view until the person scrolls; null for the latest one. */
  sought: signal(/** @type {import("./types.js").Sought | null} */ (null)),
  /** The number of the first turn that is shown, from 1; known where there are branches. */
  firstTurn: signal(1),
  /** Those of the shown conversation, the first one first. */
  /** @type {import("../vendor/signals-core.js").Signal<Branch[]>} */
  branches: signal([]),
  /** @type {import("../vendor/signals-core.js").Signal<Paging>} */
  paging: signal({ state: "none", older: null }),

  /** @type {import("../vendor/signals-core.js").Signal<SessionRow[] | null>} null until they are loaded */
  sessions: signal(null),
  /** How many pages of them are loaded, and whether there are more. */
  sessionPages: signal(1),
  areMoreSessions: signal(false),
  search: signal(""),
  /** Whether the archived sessions are listed instead of the others. */
  archived: signal(false),
  /** Whether there are any. */
  hasArchived: signal(false),
  /** @type {import("../vendor/signals-core.js").Signal<WaitingTask[]>} */
  waiting: signal([]),

  /** @type {import("../vendor/signals-core.js").Signal<Agent[]>} */
  agents: signal([]),

  draft: signal(""),
  /** The message on its way to the service as a new task. */
  sending: signal(""),
  /** The files that go with the next message. */
  /** @type {import("../vendor/signals-core.js").Signal<NextFile[]>} */
  files: signal([]),
  agent: signal(""),
  /** The mode that was chosen for the next messages; empty for the usual one. */
  mode: signal(""),
  /** Whether the next plans are reviewed. */
  reviewPlan: signal(false),
  /** The user's default mode. */
  preferred: signal(""),

  /** The task that a panel shows; empty for the latest one. */
  focus: signal(""),
  /** The panel that is open; empty for none. */
  panel: signal(""),
  /** Which dialog is open: "key", "inbox", "palette", "commands", "find", "keys", "settings", or with an id
   * "delete:SESSION", "share:SESSION". */
  dialog: signal(""),
  /** Whether the sidebar is open; on a narrow screen it is a drawer. */
  sidebar: signal(window.matchMedia("(min-width: 900px)").matches),
  /** @type {import("../vendor/signals-core.js").Signal<Toast[]>} */
  toasts: signal([]),
  /** Whether the service can be reached. */
  reachable: signal(true),
  theme: remembered("theme", ""),
  /** "on" where the desktop is notified while the page is hidden. */
  notify: remembered("notify", ""),
};
/** @typedef {typeof store} Store */

/**
 * The turn of a task, if the shown session has it.
 *
 * @param {string} taskId
 * @returns {TurnSignal | undefined}
 */
export function turnOf(taskId) {
  return store.turns.value.find((turn) => turn.value.id === taskId);
}

/** The row of the shown conversation in the list of sessions: that of the branch that was used last. */
export function shownRow() {
  const root = store.branches.value[0]?.session_id;
  return store.sessions.value?.find((row) => row.session_id === store.session.value || row.root === root);
}

/** The agent of the next message, once the agents are loaded. */
export function chosenAgent() {
  return store.agents.value.find((agent) => agent.agent_id === store.agent.value);
}

/** The mode of the next message: the one that was chosen, else the user's default, else the agent's. */
export function nextMode() {
  return store.mode.value || usualMode();
}

/** Whether the next message's task makes a plan that can be reviewed. */
export const isPlanned = () => ["auto", "react", "plan", "plan_react", "controller"].includes(nextMode());

/** The mode of a message for which none is chosen. */
export function usualMode() {
  return store.preferred.value || chosenAgent()?.mode || "";
}

let lastPanel = "details";

/**
 * Open a panel of the inspector: the named one, or the one that was open last.
 *
 * @param {string} [key]
 */
export function openPanel(key = lastPanel) {
  lastPanel = store.panel.value = key;
  if (window.matchMedia("(max-width: 1279px)").matches) store.sidebar.value = false;
}

/** The latest turn's task, or the one in focus. */
export function shownTask() {
  const latest = store.turns.value.at(-1);
  return store.focus.value || (latest ? latest.value.id : "");
}

let toasts = 0;

/**
 * @param {string} text
 * @param {"error" | "note"} [kind]
 */
export function toast(text, kind = "error") {
  const id = (toasts += 1);
  const others = store.toasts.value.filter((each) => each.text !== text);
  store.toasts.value = [...others.slice(-3), { id, kind, text }];
  setTimeout(() => dismiss(id), kind === "error" ? 12_000 : 4_000);
}

/** @param {number} id */
export function dismiss(id) {
  store.toasts.value = store.toasts.value.filter((each) => each.id !== id);
}
