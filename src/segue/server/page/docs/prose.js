// @ts-check
/** A description, with what stands between backticks as code. */
import { html } from "../vendor/htm-preact.js";

/** @param {{ text: string }} props */
export function Prose({ text }) {
  return text.split("`").map((part, place) => (place % 2 ? html`<code key=${place}>${part}</code>` : part));
}
