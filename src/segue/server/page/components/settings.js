// @ts-check
/** Language, theme and key, at the foot of the sidebar. */
import { key } from "../state/api.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { chosenLanguage, t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";
import { Menu } from "./menu.js";

export function Settings() {
  const theme = useRead(() => store.theme.value);
  const language = useRead(() => chosenLanguage.value);
  const hasKey = useRead(() => Boolean(key.value));
  return html`<footer class="sidebar-foot">
    <${Menu}
      up
      label=${t("settings.theme")}
      button=${html`<${Icon} name="settings" />${t("settings.theme")}`}
      items=${choices(store.theme, theme, [
        ["", t("settings.system")],
        ["light", t("settings.light")],
        ["dark", t("settings.dark")],
      ])}
    />
    <${Menu}
      up
      label=${t("settings.language")}
      button=${html`<${Icon} name="language" />${t("settings.language")}`}
      items=${choices(chosenLanguage, language, [
        ["", t("settings.system")],
        ["en", "English"],
        ["zh", "中文"],
      ])}
    />
    ${hasKey &&
    html`<button type="button" class="row" onClick=${() => (store.dialog.value = "key")}>
      <${Icon} name="key" />${t("sidebar.key")}
    </button>`}
  </footer>`;
}

/**
 * @param {{ value: string }} setting
 * @param {string} current
 * @param {[string, string][]} values
 */
function choices(setting, current, values) {
  return values.map(([value, label]) => ({
    key: value,
    label,
    checked: value === current,
    act: () => {
      setting.value = value;
    },
  }));
}
