// @ts-check
/** Language, theme, default mode, notifications and key, and what the service says about itself. */
import { get, key } from "../state/api.js";
import { allowed } from "../state/notify.js";
import { prefer } from "../state/sessions.js";
import { useRead } from "../state/signals.js";
import { chosenAgent, store } from "../state/store.js";
import { chosenLanguage, t, textOf } from "../texts/index.js";
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";
import { loadStyleSheets } from "./style-sheets.js";

/**
 * @typedef {{ version: string, model: string, limits: Record<string, number> }} About
 * @typedef {[string, string]} Choice its value, and what it is called
 */

await loadStyleSheets("settings");

/** @param {{ close: () => void }} props */
export function SettingsDialog({ close }) {
  const hasKey = useRead(() => Boolean(key.value));
  return html`<${Dialog} title=${t("settings.title")} onClose=${close} class="settings">
    <section aria-label=${t("settings.page")}>
      <${Chosen} label=${t("settings.language")} setting=${chosenLanguage} choices=${languages()} />
      <${Chosen} label=${t("settings.theme")} setting=${store.theme} choices=${themes()} />
      <${Mode} />
      <${Notifications} />
      ${hasKey &&
      html`<p class="setting">
        <span>${t("settings.key")}</span>
        <button type="button" onClick=${() => (store.dialog.value = "key")}>
          <${Icon} name="key" />${t("settings.changeKey")}
        </button>
      </p>`}
    </section>
    <${Service} />
  <//>`;
}

/** @returns {Choice[]} */
const languages = () => [["", t("settings.system")], ["en", "English"], ["zh", "中文"]];

/** @returns {Choice[]} */
const themes = () => [["", t("settings.system")], ["light", t("settings.light")], ["dark", t("settings.dark")]];

/**
 * @param {{ label: string, setting: import("../vendor/signals-core.js").Signal<string>, choices: Choice[] }} props
 */
function Chosen({ label, setting, choices }) {
  const current = useRead(() => setting.value);
  return html`<${Select} label=${label} value=${current} choices=${choices}
    choose=${(/** @type {string} */ value) => (setting.value = value)} />`;
}

/** @param {{ label: string, value: string, choices: Choice[], choose: (value: string) => void }} props */
function Select({ label, value, choices, choose }) {
  return html`<label class="setting">
    <span>${label}</span>
    <select value=${value} onChange=${(/** @type {any} */ event) => choose(event.target.value)}>
      ${choices.map(([each, name]) => html`<option key=${each} value=${each}>${name}</option>`)}
    </select>
  </label>`;
}

/** The mode of messages for which none is chosen. */
function Mode() {
  const preferred = useRead(() => store.preferred.value);
  const modes = useRead(() => chosenAgent()?.modes ?? []);
  const names = preferred && !modes.includes(preferred) ? [preferred, ...modes] : modes;
  /** @type {Choice[]} */
  const choices = names.map((mode) => [mode, textOf(`mode.${mode}`, mode)]);
  return html`<${Select} label=${t("settings.mode")} value=${preferred} choose=${prefer}
    choices=${[["", t("settings.ofAgent")], ...choices]} />`;
}

function Notifications() {
  const isOn = useRead(() => Boolean(store.notify.value));
  const [isBlocked, setBlocked] = useState(false);
  const change = async (/** @type {any} */ event) => {
    store.notify.value = event.target.checked ? await allowed() : "";
    setBlocked(event.target.checked && !store.notify.value);
    event.target.checked = Boolean(store.notify.value);
  };
  return html`<label class="setting">
      <span>${t("notify.on")}</span>
      <input type="checkbox" checked=${isOn} onChange=${change} />
    </label>
    ${isBlocked && html`<p class="problem" role="alert">${t("settings.blocked")}</p>`}`;
}

function Service() {
  const agents = useRead(() => store.agents.value);
  const [about, setAbout] = useState(/** @type {About | null} */ (null));
  useEffect(() => void get("/api/service").then(setAbout, () => {}), []); // the agents are shown all the same
  return html`<section aria-label=${t("settings.service")}>
    <h3>${t("settings.service")} ${about && html`<span class="about">Segue ${about.version}</span>`}</h3>
    <table>
      <thead>
        <tr><th scope="col">${t("composer.agent")}</th><th scope="col">${t("settings.model")}</th></tr>
      </thead>
      <tbody>
        ${agents.map(
          (agent) => html`<tr key=${agent.agent_id}>
            <th scope="row">
              ${agent.agent_id} ${agent.default && html`<span class="about">${t("settings.default")}</span>`}
            </th>
            <td>${agent.model}${agent.error && html`<span class="problem">${agent.error}</span>`}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    ${about && html`<${Limits} limits=${about.limits} />`}
    <p class="links">
      <a href="docs">${t("settings.api")}</a>
    </p>
  </section>`;
}

/** The limits that a person may meet. @type {[string, import("../texts/index.js").TextKey][]} */
const LIMITS = [
  ["messages_a_minute", "settings.messages"],
  ["requests_a_minute", "settings.requests"],
  ["tasks", "settings.tasks"],
  ["upload_bytes", "settings.upload"],
];

/** @param {{ limits: Record<string, number> }} props */
function Limits({ limits }) {
  return html`<h3>${t("settings.limits")}</h3>
    <dl>
      ${LIMITS.map(
        ([name, label]) => html`<div key=${name}><dt>${t(label)}</dt><dd>${sizeOf(name, limits[name])}</dd></div>`,
      )}
    </dl>`;
}

/** @param {string} name @param {number} value */
function sizeOf(name, value) {
  const shown = name.endsWith("bytes") ? value / 2 ** 20 : value;
  return `${shown.toLocaleString(document.documentElement.lang)}${name.endsWith("bytes") ? " MiB" : ""}`;
}
