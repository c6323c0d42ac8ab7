// @ts-check
/** Beginning a turn again, with an edited message or the same; first it says which calls stay in effect. */
import { branch, preview, undoFrom } from "../state/branches.js";
import { loadMoreTexts, t } from "../texts/index.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { inline } from "./argument-list.js";
import { isComposing } from "./composing.js";
import { Icon } from "./icon.js";
import { loadStyleSheets } from "./style-sheets.js";

/** @import { BranchPreview } from "../state/types.js" */

await Promise.all([loadStyleSheets("branches"), loadMoreTexts()]);

/** @param {{ task: string, message: string | null, close: () => void }} props no `message` to edit: the same again */
export function BranchForm({ task, message, close }) {
  const [text, setText] = useState(message ?? "");
  const [place, setPlace] = useState(/** @type {BranchPreview | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const begin = async () => {
    setBusy(true);
    if (!(await branch(task, text.trim()))) setBusy(false);
  };
  const show = async (/** @type {() => Promise<BranchPreview | undefined>} */ from) => {
    setBusy(true);
    const found = await from();
    if (found && !found.effects.length) return begin();
    setBusy(false);
    if (found) setPlace(found);
    else if (message === null) close();
  };
  useEffect(() => void (message === null && show(() => preview(task))), []);
  const isEmpty = message !== null && !text.trim();
  return html`<form
    class="branch-form"
    aria-label=${t(message === null ? "branch.regenerate" : "branch.edit")}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && !isComposing(event) && close()}
    onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      if (!isEmpty) void (place ? begin() : show(() => preview(task)));
    }}
  >
    ${message !== null && html`<${Field} text=${text} change=${setText} />`}
    ${place && html`<${Effects} place=${place} />`}
    <div class="decisions">
      ${isBusy && html`<span class="spinner"></span>`}
      ${(place || message !== null) &&
      html`<${Continue}
        place=${place}
        disabled=${isBusy || isEmpty}
        undo=${() => place && show(() => undoFrom(place))}
      />`}
      <button type="button" onClick=${close}>${t("dialog.cancel")}</button>
    </div>
  </form>`;
}

/** @param {{ place: BranchPreview | null, disabled: boolean, undo: () => void }} props */
function Continue({ place, disabled, undo }) {
  const isUndoable = place?.effects.some((effect) => effect.undo === "available" || effect.undo === "failed");
  return html`${isUndoable &&
    html`<button type="button" class="primary" disabled=${disabled} onClick=${undo}>${t("branch.undo")}</button>`}
    <button type="submit" class=${isUndoable ? "" : "primary"} disabled=${disabled}>
      ${t(place ? "branch.anyway" : "composer.send")}
    </button>`;
}

/** @param {{ text: string, change: (text: string) => void }} props */
function Field({ text, change }) {
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useEffect(() => {
    field.current?.focus();
    field.current?.setSelectionRange(text.length, text.length);
  }, []);
  return html`<textarea
    ref=${field}
    rows=${Math.min(12, text.split("\n").length + 1)}
    aria-label=${t("composer.label")}
    value=${text}
    onInput=${(/** @type {any} */ event) => change(event.target.value)}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" || event.shiftKey || isComposing(event)) return;
      event.preventDefault();
      field.current?.form?.requestSubmit();
    }}
  ></textarea>`;
}

/** @param {{ place: BranchPreview }} props */
function Effects({ place }) {
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
