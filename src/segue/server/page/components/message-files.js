// @ts-check
/** The files of a message: images as thumbnails, the others by their names. */
import { html } from "../vendor/htm-preact.js";
import { Picture } from "./canvas.js";
import { Icon } from "./icon.js";

/** @import { Attachment, Turn } from "../state/types.js" */

/** @param {{ shown: Turn }} props */
export function MessageFiles({ shown }) {
  if (!shown.attachments.length) return null;
  return html`<ul class="attachments">
    ${shown.attachments.map((file, place) => html`<li key=${place}>${fileOf(shown.session, file)}</li>`)}
  </ul>`;
}

/** @param {string} session @param {Attachment} file */
function fileOf(session, { digest, name, media_type: type }) {
  const named = html`<${Icon} name="file" /><span>${name}</span>`;
  if (!type.startsWith("image/")) return named;
  const path = `/api/sessions/${encodeURIComponent(session)}/attachments/${digest}`;
  return html`<${Picture} path=${path} label=${name} name="thumbnail" instead=${named} />`;
}
