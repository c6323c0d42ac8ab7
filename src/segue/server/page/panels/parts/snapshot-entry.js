// @ts-check
/** One snapshot of a session: what happened up to it, and what can be done from there. */
import { Icon } from "../../components/icon.js";
import { moment, t, textOf } from "../../texts/index.js";
import { html } from "../../vendor/htm-preact.js";
import { inline } from "./text.js";

/** @import { Json } from "../../state/types.js" */
/**
 * @typedef {{ type: string, text?: string, name?: string, arguments?: Json, outcome?: string }} Happened
 * @typedef {{ id: string, checkpoint_id: string, created_at: number, task_id: string | null, turn: number,
 *   recursion: number, steps: string[], inside: string, next: string[], happened: Happened[], effects: unknown[],
 *   effects_since: number, forked_from: { session_id: string, checkpoint_id: string } | null }} Snapshot
 */

/** @type {Record<string, string>} */
const ICONS = { message: "send", plan: "plan", call: "tool", answer: "check", edited: "edit", branch: "mode" };
/** What happened whose icon says enough. */
const PLAIN = new Set(["message", "answer"]);

/**
 * @param {{ entry: Snapshot, isFirst: boolean, isLast: boolean, isMarked: boolean, hasMark: boolean, fork: () => void,
 *   compare: () => void }} props `isFirst` and `isLast` of its turn
 */
export function Entry({ entry, isFirst, isLast, isMarked, hasMark, fork, compare }) {
  const label = isMarked ? "snapshots.unmark" : hasMark ? "snapshots.compareWith" : "snapshots.compare";
  return html`<li class="snapshot" data-marked=${isMarked} data-last=${isLast}>
    ${isFirst && html`<h3>${t("snapshots.turn", { n: entry.turn })}</h3>`}
    <div class="story">
      <p class="place">
        <b>${placeOf(entry)}</b>
        <span class="about"><code>${entry.id}</code> · ${moment(entry.created_at)}</span>
      </p>
      ${entry.steps.length > 1 && html`<p class="about">${t("snapshots.together")}</p>`}
      ${entry.happened.map((each, place) => html`<${Line} key=${place} each=${each} />`)}
      ${entry.effects_since > 0 &&
      html`<p class="warning"><${Icon} name="warning" />${t("snapshots.effectsSince", { n: entry.effects_since })}</p>`}
      <div class="actions">
        <button type="button" onClick=${fork}><${Icon} name="fork" />${t("snapshots.fork")}</button>
        <button type="button" aria-pressed=${isMarked} onClick=${compare}><${Icon} name="compare" />${t(label)}</button>
      </div>
    </div>
  </li>`;
}

/** @param {{ each: Happened }} props */
function Line({ each }) {
  const { type, name, outcome } = each;
  const label = name ?? (PLAIN.has(type) ? "" : textOf(`happened.${type}`, type));
  return html`<p class="happened" data-outcome=${outcome}>
    <${Icon} name=${ICONS[type] ?? "info"} />
    <span>${label && html`<b>${label}</b> `}${aboutOf(each)}</span>
  </p>`;
}

/** @param {Happened} each */
function aboutOf({ type, text = "", arguments: given = {} }) {
  if (type === "call") return inline(given, 90);
  return inline(type === "answer" ? text.replace(/\*\*|^#+ |`/gm, "") : text, 160);
}

/**
 * Where in its turn the snapshot was taken.
 *
 * @param {Snapshot} entry
 */
export function placeOf({ recursion, steps, next, happened }) {
  if (steps.length) return t(steps.length > 1 ? "snapshots.steps" : "snapshots.step", { n: steps.join(", ") });
  if (recursion) return t("trace.recursion", { n: recursion });
  if (!next.length) return t("snapshots.end");
  if (happened.some(({ type }) => type === "message")) return t("snapshots.start");
  if (happened.some(({ type }) => type === "plan")) return t("snapshots.planned");
  return t("snapshots.before", { node: next[0] });
}
