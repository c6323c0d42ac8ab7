// @ts-check
/** A graph as SVG, as the service laid it out. */
import { t, textOf } from "../../texts/index.js";
import { html } from "../../vendor/htm-preact.js";

/**
 * @typedef {{ name: string, x: number, y: number, width: number, height: number }} Box
 * @typedef {{ source: string, target: string, path: string, conditional: boolean }} Edge
 * @typedef {{ name: string, width: number, height: number, nodes: Box[], edges: Edge[] }} Graph
 */

/** @type {Record<string, "graph.start" | "graph.end">} */
const ENDS = { __start__: "graph.start", __end__: "graph.end" };

/** What people call a node; one of a graph of one's own by its name. @param {string} name */
export function labelOf(name) {
  return textOf(`node.${name}`, textOf(`mode.${name}`, name));
}

/** @param {{ graph: Graph, now: string[], visits: Map<string, number>, isNamed: boolean }} props */
export function Drawing({ graph, now, visits, isNamed }) {
  const nodes = now.map(labelOf).join(", ");
  return html`<svg
    class="drawing"
    viewBox=${`0 0 ${graph.width} ${graph.height}`}
    width=${graph.width}
    role="img"
    aria-label=${t(now.length ? "graph.label" : "graph.labelIdle", { name: labelOf(graph.name), nodes })}
  >
    <defs>
      <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
        <path d="M0 0.5 7 4 0 7.5z" />
      </marker>
    </defs>
    ${graph.edges.map(
      (edge) => html`<path
        key=${`${edge.source}>${edge.target}`}
        class=${`edge${edge.conditional ? " conditional" : ""}`}
        d=${edge.path}
        marker-end="url(#arrow)"
      />`,
    )}
    ${graph.nodes.map(
      (box) => html`<${Node}
        key=${box.name}
        box=${box}
        isNamed=${isNamed}
        isNow=${now.includes(box.name)}
        visits=${visits.get(box.name) ?? 0}
      />`,
    )}
  </svg>`;
}

/** @param {{ box: Box, isNamed: boolean, isNow: boolean, visits: number }} props */
function Node({ box, isNamed, isNow, visits }) {
  const { name, x, y, width, height } = box;
  const end = ENDS[name];
  const kind = `node${end ? " end" : ""}${isNow ? " now" : ""}${visits ? " seen" : ""}`;
  return html`<g class=${kind} data-node=${name}>
    <rect x=${x - width / 2} y=${y - height / 2} width=${width} height=${height} rx=${end ? height / 2 : 9} />
    <text x=${x} y=${y + 4}>${end ? t(end) : isNamed ? name : labelOf(name)}</text>
    ${visits > 1 && html`<text class="visits" x=${x + width / 2 - 2} y=${y - height / 2 - 3}>${`×${visits}`}</text>`}
  </g>`;
}
