// @ts-check
/** An icon of the sprite, for sighted people only: what it means stands beside it, or in a label. */
import { html } from "../vendor/htm-preact.js";

/** @param {{ name: string }} props */
export function Icon({ name }) {
  return html`<svg class="icon" aria-hidden="true" focusable="false"><use href=${`#icon-${name}`} /></svg>`;
}

/** Put the icons into the page: a reference to a file is fetched again, and the service may be away by then. */
export async function showIcons() {
  const sprite = await (await fetch(new URL("../icons.svg", import.meta.url))).text();
  const { documentElement } = new DOMParser().parseFromString(sprite, "image/svg+xml");
  documentElement.style.display = "none";
  document.body.append(documentElement);
}
