// @ts-check
/** A modal dialog: Escape closes it, and the focus goes back to where it was. */
import { loadMoreTexts, t } from "../texts/index.js";
import { html, useLayoutEffect, useRef } from "../vendor/htm-preact.js";
import { IconButton } from "./icon-button.js";
import { loadStyleSheets } from "./style-sheets.js";

await Promise.all([loadStyleSheets("dialogs"), loadMoreTexts()]);

/** @param {{ title: string, onClose: () => void, children?: unknown, class?: string }} props */
export function Dialog({ title, onClose, children, class: kind = "" }) {
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => {
    const dialog = element.current;
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog?.showModal();
    return () => {
      dialog?.close();
      before?.focus();
    };
  }, []);
  return html`<dialog
    ref=${element}
    class=${`dialog ${kind}`}
    aria-label=${title}
    onCancel=${(/** @type {Event} */ event) => {
      event.preventDefault();
      onClose();
    }}
  >
    <header>
      <h2>${title}</h2>
      <${IconButton} icon="close" label=${t("dialog.close")} onClick=${onClose} />
    </header>
    ${children}
  </dialog>`;
}
