// @ts-check
/** Asks before a session is deleted. */
import { remove, titleOf } from "../state/sessions.js";
import { store, toast } from "../state/store.js";
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Dialog } from "./dialog.js";

/** @param {{ session: string, close: () => void }} props */
export function DeleteDialog({ session, close }) {
  const row = store.sessions.value?.find((each) => each.session_id === session);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    close();
    if (await remove(session)) toast(t("session.deleted"), "note");
  };
  return html`<${Dialog} title=${t("session.deleteTitle")} onClose=${close}>
    <form onSubmit=${submit}>
      <p>${t("session.deleteText", { title: row ? titleOf(row) : session })}</p>
      <footer>
        <button type="button" onClick=${close}>${t("dialog.cancel")}</button>
        <button type="submit" class="primary danger">${t("session.delete")}</button>
      </footer>
    </form>
  <//>`;
}
