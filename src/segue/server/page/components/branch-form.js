// @ts-check
/** Beginning a turn again, with an edited message or the same; first it says which calls stay in effect. */
import { branch, preview } from "../state/branches.js";
import { t } from "../texts/index.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";
import { isComposing } from "./composing.js";
import { Continue, Effects, useBeginning } from "./effects-stay.js";

/** @param {{ task: string, message: string | null, close: () => void }} props no `message` to edit: the same again */
export function BranchForm({ task, message, close }) {
  const [text, setText] = useState(message ?? "");
  const { place, isBusy, start, look, undo } = useBeginning(() => branch(task, text.trim()));
  const again = async () => (await look(() => preview(task))) || close();
  useEffect(() => void (message === null && again()), []);
  const isEmpty = message !== null && !text.trim();
  return html`<form
    class="branch-form"
    aria-label=${t(message === null ? "branch.regenerate" : "branch.edit")}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && !isComposing(event) && close()}
    onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      if (!isEmpty) void (place ? start() : look(() => preview(task)));
    }}
  >
    ${message !== null && html`<${Field} text=${text} change=${setText} />`}
    ${place && html`<${Effects} place=${place} />`}
    <div class="decisions">
      ${isBusy && html`<span class="spinner"></span>`}
      ${(place || message !== null) &&
      html`<${Continue} place=${place} disabled=${isBusy || isEmpty} label=${t("composer.send")} undo=${undo} />`}
      <button type="button" onClick=${close}>${t("dialog.cancel")}</button>
    </div>
  </form>`;
}

/** @param {{ text: string, change: (text: string) => void }} props */
function Field({ text, change }) {
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useLayoutEffect(() => {
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
