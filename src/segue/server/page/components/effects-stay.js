// @ts-check
/** What is said before a branch begins: which calls stay in effect, and that they can be undone first. */
import { undoFrom } from "../state/branches.js";
import { loadMoreTexts, t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { inline } from "./argument-list.js";
import { Icon } from "./icon.js";
import { loadStyleSheets } from "./style-sheets.js";

/** @import { BranchPreview } from "../state/types.js" */

await Promise.all([loadStyleSheets("branches"), loadMoreTexts()]);

/**
 * Begins a branch, and shows first what stays in effect, where there is something.
 *
 * @param {() => Promise<boolean>} begin
 */
export function useBeginning(begin) {
  const [place, setPlace] = useState(/** @type {BranchPreview | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const start = async () => {
    setBusy(true);
    if (!(await begin())) setBusy(false);
    return true;
  };
  /** Whether it began, or there is something to show. @param {() => Promise<BranchPreview | undefined>} from */
  const look = async (from) => {
    setBusy(true);
    const found = await from();
    if (found && !found.effects.length) return start();
    setBusy(false);
    if (found) setPlace(found);
    return Boolean(found);
  };
  const undo = () => place && look(() => undoFrom(place));
  return { place, isBusy, start, look, undo, forget: () => setPlace(null) };
}

/** @param {{ place: BranchPreview }} props */
export function Effects({ place }) {
  return html`<div class="effects" role="alert">
    <p><${Icon} name="warning" />${t("branch.stays")}</p>
    <ul>
      ${place.effects.map(
        (effect) => html`<li key=${`${effect.task_id} ${effect.started_at} ${effect.name}`}>
          <code>${effect.name}</code> <span>${inline(effect.arguments)}</span>
          ${effect.undo === "available" && html` <span class="about">${t("branch.undoable")}</span>`}
          ${effect.undo === "failed" && html` <span class="about">${t("branch.undoFailed")}</span>`}
        </li>`,
      )}
    </ul>
  </div>`;
}

/** @param {{ place: BranchPreview | null, disabled: boolean, label: string, undo: () => void }} props */
export function Continue({ place, disabled, label, undo }) {
  const isUndoable = place?.effects.some((effect) => effect.undo === "available" || effect.undo === "failed");
  return html`${isUndoable &&
    html`<button type="button" class="primary" disabled=${disabled} onClick=${undo}>${t("branch.undo")}</button>`}
    <button type="submit" class=${isUndoable ? "" : "primary"} disabled=${disabled}>
      ${place ? t("branch.anyway") : label}
    </button>`;
}
