// @ts-check
/** Undoing the calls that were made after a snapshot. */
import { send } from "../../state/api.js";
import { attempt } from "../../state/failures.js";
import { t, textOf } from "../../texts/index.js";
import { reloadTimeline, sessionPath } from "../../timeline/data.js";
import { html, useState } from "../../vendor/htm-preact.js";
import { inline } from "./text.js";

/** @import { Json } from "../../state/types.js" */
/** @import { Effect, Snapshot } from "../../timeline/data.js" */

const UNDOABLE = ["available", "failed"];

/** @param {{ session: string, entry: Snapshot, later: Effect[], close: () => void }} props */
export function UndoForm({ session, entry, later, close }) {
  const [undone, setUndone] = useState(/** @type {(Effect & { result: Json })[] | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const count = countOf(later, UNDOABLE);
  const undo = async () => {
    setBusy(true);
    const path = `${sessionPath(session)}/undo`;
    const found = await attempt(() => send("POST", path, { checkpoint_id: entry.checkpoint_id }));
    setBusy(false);
    if (!found) return;
    setUndone(found.undone);
    await reloadTimeline();
  };
  return html`<section class="form" aria-label=${t("snapshots.undo", { n: later.length })}>
    <p role="status">${undone ? t("undo.done", { n: countOf(undone, ["done"]) }) : t("undo.about", { n: count })}</p>
    <ul>
      ${[...(undone ?? later.toReversed())].map(
        (effect, place) => html`<li key=${place}>
          <code>${effect.name}</code> <span>${inline(effect.arguments, 60)}</span>
          <span class="kind" data-undo=${effect.undo}>${textOf(`undo.${effect.undo || "none"}`, effect.undo)}</span>
          ${"result" in effect && html`<span class="about">${outcomeOf(effect.result)}</span>`}
        </li>`,
      )}
    </ul>
    <div class="decisions">
      ${!undone &&
      count > 0 &&
      html`<button type="button" class="primary" disabled=${isBusy} onClick=${undo}>
        ${t("undo.do", { n: count })}
      </button>`}
      <button type="button" onClick=${close}>${t(undone ? "dialog.close" : "dialog.cancel")}</button>
    </div>
  </section>`;
}

/** @param {Effect[]} effects @param {string[]} states */
function countOf(effects, states) {
  return effects.filter((effect) => states.includes(effect.undo)).length;
}

/** What came of an undo. @param {unknown} result */
function outcomeOf(result) {
  return inline(Object.values(/** @type {Json} */ (result))[0], 80);
}
