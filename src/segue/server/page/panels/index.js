// @ts-check
/**
 * The panels of the inspector, in the order of their tabs. A panel's module exports a component by default, which is
 * given the store; its label is the text `panel.KEY`, its icon a symbol of icons.svg.
 *
 * @typedef {{ key: string, icon: string, load: () => Promise<{ default: unknown }> }} PanelEntry
 */

/** @type {PanelEntry[]} */
export const panels = [
  { key: "details", icon: "info", load: () => import("./details.js") },
  { key: "graph", icon: "graph", load: () => import("./graph.js") },
  { key: "trace", icon: "timeline", load: () => import("./trace.js") },
  { key: "timeline", icon: "snapshots", load: () => import("./timeline.js") },
  { key: "lifecycle", icon: "lifecycle", load: () => import("./lifecycle.js") },
  { key: "rounds", icon: "rounds", load: () => import("./rounds.js") },
  { key: "memory", icon: "memory", load: () => import("./memory.js") },
  { key: "ratings", icon: "star", load: () => import("./ratings.js") },
  { key: "rehearsals", icon: "rehearsals", load: () => import("./rehearsals.js") },
];
