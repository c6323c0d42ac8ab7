// @ts-check
/** Whether the page asks for a key because the service refused one. */
import { effect, signal } from "../vendor/signals-core.js";
import { t } from "../texts/index.js";
import { refusedKey } from "./api.js";
import { writtenField } from "./focus.js";
import { toast } from "./store.js";

/** True from when the service refuses the page's requests; a person who writes is asked after leaving the field. */
export const asksForKey = signal(false);

effect(() => {
  if (refusedKey.value === null) asksForKey.value = false;
  else if (!asksForKey.peek()) askOnceLeft(writtenField());
});

/** @param {HTMLElement | null} field */
function askOnceLeft(field) {
  const ask = () => void (asksForKey.value = refusedKey.value !== null);
  if (!field) return ask();
  toast(t("error.needsKey"));
  field.addEventListener("blur", ask, { once: true });
}
