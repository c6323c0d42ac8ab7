// @ts-check
/** The files of the next message. */
import { detach } from "../state/files.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";
import { IconButton } from "./icon-button.js";

export function Attachments() {
  const files = useRead(() => store.files.value);
  return html`<ul class="attachments">
    ${files.map(
      (file) => html`<li key=${file.upload?.upload_id ?? file.name}>
        <${Icon} name="file" /><span>${file.name}</span>
        <${IconButton}
          icon="close" label=${t("composer.remove", { name: file.name })} onClick=${() => detach(file)} />
      </li>`,
    )}
  </ul>`;
}
