// @ts-check
/** Asks for the service's key. */
import { key, refusedKey } from "../state/api.js";
import { useRead } from "../state/signals.js";
import { t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { Dialog } from "./dialog.js";

/** @param {{ close: () => void }} props */
export function KeyDialog({ close }) {
  const kept = useRead(() => key.value);
  const refused = useRead(() => refusedKey.value);
  const [text, setText] = useState("");
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    key.value = text.trim();
    close();
  };
  return html`<${Dialog} title=${t("key.title")} onClose=${close}>
    <form onSubmit=${submit}>
      <p>${t("key.text")}</p>
      ${kept && refused === kept && html`<p class="problem" role="alert">${t("key.wrong")}</p>`}
      <label>
        ${t("key.label")}
        <input
          type="password"
          autofocus
          autocomplete="current-password"
          value=${text}
          onInput=${(/** @type {any} */ event) => setText(event.target.value)}
        />
      </label>
      <footer>
        ${kept && html`<button type="button" onClick=${forget}>${t("key.forget")}</button>`}
        <button type="submit" class="primary" disabled=${!text.trim()}>${t("dialog.save")}</button>
      </footer>
    </form>
  <//>`;
}

function forget() {
  key.value = "";
  location.reload();
}
