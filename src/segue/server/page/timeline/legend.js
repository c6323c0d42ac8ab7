// @ts-check
/** What the marks of the strip mean, and a point in words. */
import { inline } from "../panels/parts/text.js";
import { placeOf, saidOf } from "../panels/parts/snapshot-entry.js";
import { moment, t, textOf } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { kindOf } from "./layout.js";

/** @import { Happened, Snapshot } from "./data.js" */
/** @import { Point, Stop } from "./layout.js" */

/** What is counted below the strip, in this order. */
const COUNTED = ["read", "effect", "undone", "unknown", "skipped", "question", "approval", "error"];
/** Happenings of which a point's name says at most so many. */
const MOST = 4;

/** @param {{ entries: Snapshot[] }} props */
export function Legend({ entries }) {
  const counts = new Map();
  for (const { happened, happened_since: since } of entries) {
    for (const each of [...happened, ...since]) counts.set(kindOf(each), (counts.get(kindOf(each)) ?? 0) + 1);
  }
  return html`<ul class="timeline-legend" aria-label=${t("timeline.legend")}>
    ${COUNTED.filter((kind) => counts.has(kind)).map(
      (kind) => html`<li key=${kind}>
        <span class="timeline-mark" data-kind=${kind}></span>
        ${textOf(`timeline.${kind}`, kind).replace("{n}", String(counts.get(kind)))}
      </li>`,
    )}
  </ul>`;
}

/** @param {Point | Stop} point */
export function describe(point) {
  if ("session" in point) return t("timeline.version", { n: point.turn });
  const { entry, marks } = point;
  const said = marks.slice(0, MOST).map(({ happened }) => lineOf(happened));
  if (marks.length > MOST) said.push(t("timeline.others", { n: marks.length - MOST }));
  return [t("snapshots.turn", { n: point.turn }), placeOf(entry), moment(entry.created_at), ...said].join(" · ");
}

/** @param {Happened} happened */
function lineOf(happened) {
  const { type, name = "", arguments: given, kind = "", outcome } = happened;
  const label = textOf(`happened.${type}`, type);
  if (type !== "call") return inline([label, name || saidOf(happened)].filter(Boolean).join(": "), 80);
  const how = [textOf(`kind.${kind}`, kind), outcome === "error" ? t("timeline.failed") : ""].filter(Boolean);
  return `${name}(${inline(Object.values(given ?? {}).map(String).join(", "), 50)}): ${how.join(", ")}`;
}
