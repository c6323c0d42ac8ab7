// @ts-check
/** A button that shows an icon, with its name as label and tooltip. */
import { html } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";

/**
 * @param {{ icon: string, label: string, onClick: (event: MouseEvent) => void, class?: string, disabled?: boolean,
 *   pressed?: boolean, badge?: number }} props
 */
export function IconButton({ icon, label, onClick, class: kind = "", disabled = false, pressed, badge = 0 }) {
  return html`<button
    type="button"
    class=${`icon-button ${kind}`}
    aria-label=${label}
    title=${label}
    aria-pressed=${pressed}
    disabled=${disabled}
    onClick=${onClick}
  >
    <${Icon} name=${icon} />
    ${badge > 0 && html`<span class="badge" aria-hidden="true">${badge}</span>`}
  </button>`;
}
