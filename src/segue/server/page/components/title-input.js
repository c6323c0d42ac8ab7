// @ts-check
/** The title of a session while it is renamed. */
import { change, titleOf } from "../state/sessions.js";
import { t } from "../texts/index.js";
import { html, useEffect, useRef } from "../vendor/htm-preact.js";
import { isComposing } from "./composing.js";

/** @import { SessionRow } from "../state/types.js" */

/** @param {{ row: SessionRow, close: () => void }} props */
export function TitleInput({ row, close }) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => input.current?.select(), []);
  const save = () => {
    const title = input.current?.value.trim();
    close();
    if (title && title !== titleOf(row)) void change(row.session_id, { title });
  };
  return html`<form
    class="rename"
    onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      save();
    }}
  >
    <input
      ref=${input}
      value=${titleOf(row)}
      maxlength="200"
      aria-label=${t("session.title")}
      onBlur=${save}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && !isComposing(event) && close()}
    />
  </form>`;
}
