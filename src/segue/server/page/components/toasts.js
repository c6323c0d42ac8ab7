// @ts-check
/** Short messages: what failed, and what to do. */
import { useRead } from "../state/signals.js";
import { dismiss, store } from "../state/store.js";
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";
import { IconButton } from "./icon-button.js";

export function Toasts() {
  const toasts = useRead(() => store.toasts.value);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.map(
      ({ id, kind, text }) => html`<div key=${id} class=${`toast ${kind}`}>
        <${Icon} name=${kind === "error" ? "warning" : "check"} />
        <p>${text}</p>
        <${IconButton} icon="close" label=${t("dialog.close")} onClick=${() => dismiss(id)} />
      </div>`,
    )}
  </div>`;
}
