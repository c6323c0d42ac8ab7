// @ts-check
/** The button that adds files to the next message. */
import { attach } from "../state/files.js";
import { t } from "../texts/index.js";
import { html, useRef } from "../vendor/htm-preact.js";
import { IconButton } from "./icon-button.js";

export function AttachButton() {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  return html`<input
      type="file"
      multiple
      hidden
      ref=${input}
      onChange=${(/** @type {any} */ event) => {
        void attach([...event.target.files]);
        event.target.value = "";
      }}
    />
    <${IconButton} icon="attach" label=${t("composer.attach")} onClick=${() => input.current?.click()} />`;
}
