// @ts-check
/** Who has the focus: it is moved only where nothing else has it, and never out of a field that a person uses. */

/** Whether nothing has the focus; a control that was disabled keeps it in name only. */
function isNothingFocused() {
  const focused = document.activeElement;
  return !focused || focused === document.body || focused.matches(":disabled");
}

/** The field that a person writes in, if there is one. @returns {HTMLElement | null} */
export function writtenField() {
  const focused = /** @type {HTMLInputElement | null} */ (document.activeElement);
  return focused?.matches("input, textarea") && focused.value ? focused : null;
}

export function focusComposer() {
  /** @type {HTMLElement | null} */ (document.querySelector(".composer textarea"))?.focus();
}

/** Focus the composer where nothing has the focus, unless the keyboard that it opens would cover the screen. */
export function offerComposer() {
  if (isNothingFocused() && matchMedia("(hover: hover)").matches) focusComposer();
}
