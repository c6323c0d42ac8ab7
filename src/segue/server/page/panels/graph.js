// @ts-check
/** The state machine, with the node where the task is. */
import { get } from "../state/api.js";
import { ACTIVE } from "../state/turn.js";
import { t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { Drawing, labelOf } from "./parts/drawing.js";
import { Pending, useLoaded } from "./parts/loaded.js";
import { taskPanel } from "./parts/task.js";

/** @import { Turn } from "../state/types.js" */
/** @typedef {{ task_id: string | null, inside: string, nodes: string[], next: string[] }} Snapshot */

/** Nodes that run a graph of another name than theirs. */
const GRAPH_OF = /** @type {Record<string, string>} */ ({ EXECUTE_SUBTASK: "react", REACT: "react" });
const OUTERMOST = "chat";
/** How many of the session's newest snapshots are looked at. */
const NEWEST = 300;

export default taskPanel(Machine);

/** @param {{ task: Turn }} props */
function Machine({ task }) {
  const loaded = useLoaded(() => snapshotsOf(task), [task.id, task.seq, task.status]);
  const [chosen, choose] = useState(-1);
  const [isNamed, setNamed] = useState(false);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  const newest = loaded.value[0];
  const levels = levelsOf(task, loaded.value);
  const level = chosen >= 0 && chosen < levels.length ? chosen : levels.length - 1;
  const now = newest && ACTIVE.has(task.status) ? nodesAt(newest, level) : [];
  return html`
    <nav class="path" aria-label=${t("graph.levels")}>
      ${levels.map(
        (name, place) => html`<button
          type="button"
          key=${place}
          aria-current=${place === level ? "true" : undefined}
          onClick=${() => choose(place)}
        >
          ${labelOf(graphName(name))}
        </button>`,
      )}
    </nav>
    <p class="about" aria-live="polite">${sentence(task, newest, now)}</p>
    <${Machinery} key=${graphName(levels[level])} name=${graphName(levels[level])} now=${now} isNamed=${isNamed}
      visits=${visitsOf(loaded.value, levels.slice(1, level + 1).join("/"))} />
    <button type="button" class="quiet" aria-pressed=${isNamed} onClick=${() => setNamed(!isNamed)}>
      ${t("graph.names")}
    </button>
  `;
}

/** @param {{ name: string, now: string[], visits: Map<string, number>, isNamed: boolean }} props */
function Machinery({ name, now, visits, isNamed }) {
  const loaded = useLoaded(() => get(`/api/graphs/${encodeURIComponent(name)}`), [name]);
  if (loaded.error) return html`<p class="empty">${t("graph.noDrawing", { name })}</p>`;
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  return html`<${Drawing} graph=${loaded.value} now=${now} visits=${visits} isNamed=${isNamed} />`;
}

/**
 * The task's snapshots, newest first.
 *
 * @param {Turn} task
 * @returns {Promise<Snapshot[]>}
 */
async function snapshotsOf(task) {
  const page = await get(`/api/sessions/${encodeURIComponent(task.session)}/snapshots?limit=${NEWEST}`);
  return page.items.filter((/** @type {Snapshot} */ each) => each.task_id === task.id);
}

/**
 * The graphs that the task is in, from the outermost: `chat`, its mode, and what runs inside of that.
 *
 * @param {Turn} task
 * @param {Snapshot[]} snapshots
 */
function levelsOf(task, snapshots) {
  const inside = snapshots.find((each) => each.inside)?.inside ?? (task.mode === "auto" ? "" : task.mode);
  return [OUTERMOST, ...inside.split("/").filter(Boolean)];
}

/** @param {string} node */
function graphName(node) {
  return GRAPH_OF[node] ?? node.toLowerCase();
}

/**
 * The nodes of a level that run: the next ones, or the one that holds the inner graph.
 *
 * @param {Snapshot} newest
 * @param {number} level
 */
function nodesAt(newest, level) {
  const inside = newest.inside.split("/").filter(Boolean);
  return level < inside.length ? [inside[level]] : level === inside.length ? newest.next : [];
}

/**
 * How often each node of a graph ran.
 *
 * @param {Snapshot[]} snapshots
 * @param {string} inside
 */
function visitsOf(snapshots, inside) {
  const counted = new Map();
  for (const each of snapshots) {
    if (each.inside !== inside) continue;
    for (const node of each.nodes) counted.set(node, (counted.get(node) ?? 0) + 1);
  }
  return counted;
}

/**
 * @param {Turn} task
 * @param {Snapshot | undefined} newest
 * @param {string[]} now
 */
function sentence(task, newest, now) {
  if (now.length) return t("graph.now", { nodes: [...new Set(now)].map(labelOf).join(", ") });
  if (newest?.next.length && !ACTIVE.has(task.status)) return t("graph.before", { nodes: labelOf(newest.next[0]) });
  return t(newest ? "graph.ended" : "graph.none");
}
