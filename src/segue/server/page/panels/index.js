// @ts-check
/**
 * The panels of the inspector, in the order of their tabs, and those that are pages of the workspace. A panel's module
 * exports a component by default; its label is the text `panel.KEY`.
 *
 * @typedef {{ key: string, load: () => Promise<{ default: unknown }>, fits?: (turn: Turn) => boolean }} PanelEntry
 *   `fits` is asked of the session's turns: the tab of a panel that has nothing to show is left out.
 */
import { lazy } from "../components/lazy.js";

/** @import { Turn } from "../state/types.js" */

/** Modes that have no rounds of a controller; flows of one's own have names of their own. */
const NO_ROUNDS = new Set(["", "auto", "direct", "react", "plan", "plan_react", "lifecycle", "conversation"]);

/** @type {PanelEntry[]} */
export const panels = [
  { key: "details", load: () => import("./details.js") },
  { key: "timeline", load: () => import("./timeline.js") },
  { key: "trace", load: () => import("./trace.js") },
  { key: "graph", load: () => import("./graph.js") },
  { key: "lifecycle", load: () => import("./lifecycle.js"), fits: ({ mode }) => mode === "lifecycle" },
  { key: "rounds", load: () => import("./rounds.js"), fits: ({ mode }) => !NO_ROUNDS.has(mode) },
];

/** @type {PanelEntry[]} */
export const pages = [
  { key: "usage", load: () => import("./usage.js") },
  { key: "schedules", load: () => import("./schedules.js") },
  { key: "rehearsals", load: () => import("./rehearsals.js") },
  { key: "backtests", load: () => import("./backtests.js") },
  { key: "memory", load: () => import("./memory.js") },
  { key: "ratings", load: () => import("./ratings.js") },
];

/** Their components, by key, each loaded when it is first shown. @param {PanelEntry[]} entries */
export function componentsOf(entries) {
  return new Map(entries.map(({ key, load }) => [key, lazy(async () => (await load()).default)]));
}
