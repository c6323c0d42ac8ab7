// @ts-check
/** What the user said of themselves, and the memory files: what tasks noted for the ones after them. */
import { Value } from "../components/call.js";
import { Icon } from "../components/icon.js";
import { IconButton } from "../components/icon-button.js";
import { get, getAll, send } from "../state/api.js";
import { attempt } from "../state/failures.js";
import { USER } from "../state/sessions.js";
import { moment, t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { Pending, useChanges, useLoaded } from "./parts/loaded.js";

/** @typedef {{ name: string, bytes: number, entries: number, updated_at: number, error: string }} MemoryFile */
/** @typedef {{ key: string, subject: string, text: string, created_at: number, earlier: Fact[] }} Fact */
/** @typedef {{ key: string, round: number, branch: string, text: string, created_at: number }} MemoryEntry */

/** The file of what the user said of themselves. */
const FACTS = "user.md";

export default function Panel() {
  const loaded = useLoaded(() => getAll("/api/memory"), [useChanges()]);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  /** @type {MemoryFile[]} */
  const files = loaded.value.items;
  if (!files.length) return html`<p class="empty">${t("memory.none")}</p>`;
  const facts = files.find((file) => file.name === FACTS);
  return html`${facts && html`<${Facts} file=${facts} changed=${loaded.reload} />`}
    <p class="about">${t("memory.about")}</p>
    <ul class="memory">
      ${files.map((file) => html`<${FileView} key=${file.name} file=${file} changed=${loaded.reload} />`)}
    </ul>`;
}

/** @param {{ file: MemoryFile, changed: () => void }} props */
function Facts({ file, changed }) {
  const loaded = useLoaded(() => getAll(`/api/users/${USER}/facts`), [file.updated_at, file.entries]);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  /** @type {Fact[]} */
  const facts = loaded.value.items;
  const update = () => {
    loaded.reload();
    changed();
  };
  return html`<p class="about">${t("memory.said")}</p>
    <ul class="memory">
      ${facts.map((fact) => html`<${FactView} key=${fact.key} fact=${fact} changed=${update} />`)}
    </ul>`;
}

/** @param {{ fact: Fact, changed: () => void }} props */
function FactView({ fact, changed }) {
  const [text, setText] = useState(fact.text);
  const address = `/api/users/${USER}/facts/${encodeURIComponent(fact.key)}`;
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    await attempt(() => send("PUT", address, { text }));
    changed();
  };
  const remove = async () => {
    await attempt(() => send("DELETE", address));
    changed();
  };
  return html`<li class="memory-file">
    <form class="head" onSubmit=${save}>
      <input
        value=${text}
        maxlength="500"
        required
        aria-label=${t("memory.fact", { subject: fact.subject })}
        onInput=${(/** @type {any} */ event) => setText(event.target.value)}
      />
      ${text !== fact.text && html`<button class="primary">${t("memory.save")}</button>`}
      <${IconButton} icon="trash" label=${t("memory.delete", { name: fact.text })} onClick=${remove} />
    </form>
    <p class="about">${moment(fact.created_at)}</p>
    ${fact.earlier.map((before) => html`<p class="about"><s>${before.text}</s> · ${moment(before.created_at)}</p>`)}
  </li>`;
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
        <${Value} value=${entry.text} />
      </li>`,
    )}
  </ol>`;
}

/** @param {string} name */
function memoryAddress(name) {
  return `/api/memory/${name.split("/").map(encodeURIComponent).join("/")}`;
}
