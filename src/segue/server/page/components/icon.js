// @ts-check
/** An icon of the sprite, for sighted people only: what it means stands beside it, or in a label. */
import { html } from "../vendor/htm-preact.js";

/** @param {{ name: string }} props */
export function Icon({ name }) {
  return html`<svg class="icon" aria-hidden="true" focusable="false"><use href=${`#icon-${name}`} /></svg>`;
}
