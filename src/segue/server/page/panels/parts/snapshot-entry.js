// @ts-check
/** One snapshot of a session: what happened up to it, and what can be done from there. */
import { REVIEW } from "../../components/call-names.js";
import { Icon } from "../../components/icon.js";
import { brief } from "../../components/readable.js";
import { send } from "../../state/api.js";
import { attempt } from "../../state/failures.js";
import { goTo } from "../../state/router.js";
import { refreshLists } from "../../state/sessions.js";
import { toast } from "../../state/store.js";
import { moment, t, textOf } from "../../texts/index.js";
import { sessionPath } from "../../timeline/data.js";
import { html } from "../../vendor/htm-preact.js";
import { labelOf } from "./drawing.js";
import { inline, unmarked } from "./text.js";

/** @import { Happened, Snapshot } from "../../timeline/data.js" */

/** @type {Record<string, string>} */
const ICONS = { message: "send", plan: "plan", call: "tool", answer: "check", edited: "edit", branch: "mode",
  question: "question", approval: "key", error: "warning" };
/** What happened whose icon says enough. */
const PLAIN = new Set(["message", "answer"]);

/**
 * @param {{ entry: Snapshot, isFirst: boolean, isLast: boolean, isMarked: boolean, hasMark: boolean, open: () => void,
 *   fork: () => void, compare: () => void }} props `isFirst` and `isLast` of its turn
 */
export function Entry({ entry, isFirst, isLast, isMarked, hasMark, open, fork: act, compare }) {
  const label = isMarked ? "snapshots.unmark" : hasMark ? "snapshots.compareWith" : "snapshots.compare";
  return html`<li class="snapshot" data-marked=${isMarked} data-last=${isLast}>
    ${isFirst && html`<h3>${t("snapshots.turn", { n: entry.turn })}</h3>`}
    <div class="story">
      <p class="place">
        <button type="button" class="quiet" onClick=${open}><b>${placeOf(entry)}</b></button>
        <span class="about"><code>${entry.id}</code> · ${moment(entry.created_at)}</span>
      </p>
      ${entry.steps.length > 1 && html`<p class="about">${t("snapshots.together")}</p>`}
      <${Story} entry=${entry} />
      ${entry.effects_since > 0 &&
      html`<p class="warning"><${Icon} name="warning" />${t("snapshots.effectsSince", { n: entry.effects_since })}</p>`}
      <div class="actions">
        <button type="button" onClick=${act}><${Icon} name="fork" />${t("snapshots.fork")}</button>
        <button type="button" aria-pressed=${isMarked} onClick=${compare}><${Icon} name="compare" />${t(label)}</button>
      </div>
    </div>
  </li>`;
}

/** What happened up to a snapshot, and after the newest one. @param {{ entry: Snapshot }} props */
export function Story({ entry }) {
  return [...entry.happened, ...entry.happened_since].map(
    (each, place) => html`<${Line} key=${place} each=${each} />`,
  );
}

/** @param {{ each: Happened }} props */
function Line({ each }) {
  const { type, name, outcome, kind = "" } = each;
  const label = name ?? (PLAIN.has(type) ? "" : textOf(`happened.${type}`, type));
  return html`<p class="happened" data-outcome=${outcome}>
    <${Icon} name=${ICONS[type] ?? "info"} />
    <span>
      ${label && html`<b>${label}</b> `}${aboutOf(each)}
      ${kind &&
      kind !== "read_only" &&
      html` <span class="kind" data-kind=${kind}>${textOf(`kind.${kind}`, kind)}</span>`}
    </span>
  </p>`;
}

/** @param {Happened} each */
function aboutOf(each) {
  const { type, arguments: given = {} } = each;
  if (type === "call") return inline(brief(given), 90);
  return inline(type === "answer" ? unmarked(saidOf(each)) : saidOf(each), 160);
}

/** What was said or asked; the review of a plan by its title. @param {Happened} each */
export function saidOf({ type, text = "" }) {
  return type === "approval" && text === REVIEW ? t("plan.title") : text;
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
  return t("snapshots.before", { node: labelOf(next[0]) });
}

/**
 * Start a session from a snapshot, and show it.
 *
 * @param {string} session
 * @param {Snapshot} snapshot
 */
export async function fork(session, snapshot) {
  const body = { checkpoint_id: snapshot.checkpoint_id };
  const made = await attempt(() => send("POST", `${sessionPath(session)}/fork`, body));
  if (!made) return;
  await refreshLists();
  goTo(made.session_id);
  toast(forkedText(made), "note");
}

/** @param {{ status: string, effects: unknown[] }} made */
function forkedText({ status, effects }) {
  const stays = effects.length ? t("snapshots.effectsStay", { n: effects.length }) : "";
  return [t(status === "paused" ? "snapshots.forkedPaused" : "snapshots.forked"), stays].filter(Boolean).join(" ");
}
