// @ts-check
/**
 * The panels of the inspector, in the order of their tabs: those of the session, and those of the workspace. A panel's
 * module exports a component by default, which is given the store; its label is the text `panel.KEY`.
 *
 * @typedef {{ key: string, load: () => Promise<{ default: unknown }>, fits?: (turn: Turn) => boolean,
 *   isEmpty?: () => Promise<boolean> }} PanelEntry `fits` is asked of the session's turns, `isEmpty` of the
 *   service: the tab of a panel that has nothing to show is left out.
 */
import { get } from "../state/api.js";
import { USER } from "../state/sessions.js";

/** @import { Turn } from "../state/types.js" */

/** Modes that have no rounds of a controller; flows of one's own have names of their own. */
const NO_ROUNDS = new Set(["", "auto", "direct", "react", "plan", "plan_react", "lifecycle", "conversation"]);

/** @type {{ session: PanelEntry[], workspace: PanelEntry[] }} */
export const panels = {
  session: [
    { key: "details", load: () => import("./details.js") },
    { key: "timeline", load: () => import("./timeline.js") },
    { key: "trace", load: () => import("./trace.js") },
    { key: "graph", load: () => import("./graph.js") },
    { key: "lifecycle", load: () => import("./lifecycle.js"), fits: ({ mode }) => mode === "lifecycle" },
    { key: "rounds", load: () => import("./rounds.js"), fits: ({ mode }) => !NO_ROUNDS.has(mode) },
  ],
  workspace: [
    { key: "usage", load: () => import("./usage.js") },
    {
      key: "schedules",
      load: () => import("./schedules.js"),
      isEmpty: async () => !(await get("/api/schedules")).items.length,
    },
    { key: "rehearsals", load: () => import("./rehearsals.js") },
    { key: "backtests", load: () => import("./backtests.js") },
    {
      key: "memory",
      load: () => import("./memory.js"),
      isEmpty: async () => !(await get("/api/memory")).items.length,
    },
    {
      key: "ratings",
      load: () => import("./ratings.js"),
      isEmpty: async () => !(await get(`/api/users/${USER}/preferences`)).mode_history.length,
    },
  ],
};

/** The keys of the panels that have nothing of the workspace to show. */
export async function emptyPanels() {
  const asked = panels.workspace.flatMap(({ key, isEmpty }) => (isEmpty ? [{ key, isEmpty }] : []));
  const found = await Promise.all(asked.map(({ isEmpty }) => isEmpty().catch(() => false)));
  return new Set(asked.filter((_, place) => found[place]).map(({ key }) => key));
}
