// @ts-check
/** Copying to the clipboard. */
import { toast } from "../state/store.js";
import { t } from "../texts/index.js";

/**
 * Copy a text and say so. Browsers have no clipboard on a page that came over plain HTTP from another machine.
 *
 * @param {string} text
 */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copySelected(text);
  }
  toast(t("turn.copied"), "note");
}

/** @param {string} text */
function copySelected(text) {
  const before = /** @type {HTMLElement | null} */ (document.activeElement);
  const field = document.body.appendChild(document.createElement("textarea"));
  field.value = text;
  field.className = "unseen";
  field.select();
  document.execCommand("copy");
  field.remove();
  before?.focus();
}
