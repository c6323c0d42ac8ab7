// @ts-check
/** Keys that work anywhere on the page. */
import { store } from "../state/store.js";
import { isComposing } from "./composing.js";
import { startNew } from "./sidebar.js";

document.addEventListener("keydown", (event) => {
  if (event.altKey || isComposing(event)) return;
  const act = actOf(event);
  if (!act) return;
  event.preventDefault();
  act();
});

/** @param {KeyboardEvent} event */
function actOf(event) {
  const key = event.key.toLowerCase();
  if (event.ctrlKey || event.metaKey) {
    if (key === "k" && !event.shiftKey) return () => (store.dialog.value = "palette");
    return key === "o" && event.shiftKey ? startNew : null;
  }
  const writes = /** @type {HTMLElement} */ (event.target).closest?.("input, textarea, select, dialog");
  return key === "?" && !writes ? () => (store.dialog.value = "keys") : null;
}
