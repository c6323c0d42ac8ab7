// @ts-check
/** The settings, at the foot of the sidebar. */
import { store } from "../state/store.js";
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";

export function Settings() {
  return html`<footer class="sidebar-foot">
    <button type="button" class="row" onClick=${() => (store.dialog.value = "settings")}>
      <${Icon} name="settings" />${t("settings.title")}
    </button>
  </footer>`;
}
