// @ts-check
/** The user's memory files: what tasks noted for the ones after them. */
import { Icon } from "../components/icon.js";
import { IconButton } from "../components/icon-button.js";
import { get, getAll, send } from "../state/api.js";
import { attempt } from "../state/failures.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { moment, t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { Pending, useLoaded } from "./parts/loaded.js";
import { Text } from "./parts/text.js";

/** @typedef {{ name: string, bytes: number, entries: number, updated_at: number, error: string }} MemoryFile */
/** @typedef {{ key: string, round: number, branch: string, text: string, created_at: number }} MemoryEntry */

export default function Panel() {
  const latest = useRead(() => store.turns.value.at(-1)?.value);
  const loaded = useLoaded(() => getAll("/api/memory"), [latest?.id, latest?.status]);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  /** @type {MemoryFile[]} */
  const files = loaded.value.items;
  if (!files.length) return html`<p class="empty">${t("memory.none")}</p>`;
  return html`<p class="about">${t("memory.about")}</p>
    <ul class="memory">
      ${files.map((file) => html`<${FileView} key=${file.name} file=${file} changed=${loaded.reload} />`)}
    </ul>`;
}

/** @param {{ file: MemoryFile, changed: () => void }} props */
function FileView({ file, changed }) {
  const [isOpen, setOpen] = useState(false);
  const [isAsking, ask] = useState(false);
  const remove = async () => {
    ask(false);
    await attempt(() => send("DELETE", memoryAddress(file.name)));
    changed();
  };
  return html`<li class="memory-file">
    <div class="head">
      <button type="button" class="quiet" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        <${Icon} name="file" /><span>${file.name}</span>
      </button>
      <${IconButton} icon="trash" label=${t("memory.delete", { name: file.name })} onClick=${() => ask(true)} />
    </div>
    <p class="about">
      ${t("memory.facts", { n: file.entries, kb: (file.bytes / 1024).toFixed(1) })} · ${moment(file.updated_at)}
    </p>
    ${file.error && html`<p class="warning">${file.error}</p>`}
    ${isAsking &&
    html`<p class="confirm" role="alert">
      <span>${t("memory.confirm")}</span>
      <button type="button" onClick=${() => ask(false)}>${t("dialog.cancel")}</button>
      <button type="button" class="primary danger" onClick=${remove}>${t("session.delete")}</button>
    </p>`}
    ${isOpen && html`<${Entries} file=${file} />`}
  </li>`;
}

/** @param {{ file: MemoryFile }} props */
function Entries({ file }) {
  const loaded = useLoaded(() => get(memoryAddress(file.name)), [file.name, file.updated_at]);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  /** @type {MemoryEntry[]} */
  const entries = loaded.value.entries;
  return html`<ol class="entries">
    ${entries.map(
      (entry) => html`<li key=${entry.key}>
        <p class="place">
          <b>${t("trace.round", { n: entry.round })} · ${entry.branch}</b>
          <span class="about">${moment(entry.created_at)}</span>
        </p>
        <${Text} value=${entry.text} />
      </li>`,
    )}
  </ol>`;
}

/** @param {string} name */
function memoryAddress(name) {
  return `/api/memory/${name.split("/").map(encodeURIComponent).join("/")}`;
}
