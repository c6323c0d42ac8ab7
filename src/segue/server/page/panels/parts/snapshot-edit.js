// @ts-check
/** Continuing from a snapshot with another message, or with a field of its state changed. */
import { send } from "../../state/api.js";
import { attempt } from "../../state/failures.js";
import { goTo } from "../../state/router.js";
import { refreshLists } from "../../state/sessions.js";
import { turnOf } from "../../state/store.js";
import { t } from "../../texts/index.js";
import { sessionPath } from "../../timeline/data.js";
import { html, useState } from "../../vendor/htm-preact.js";

/** @import { Snapshot } from "../../timeline/data.js" */
/** @import { Held } from "./snapshot-state.js" */

/** What stands for the turn's message among the fields. */
const MESSAGE = "";

/** @param {{ session: string, entry: Snapshot, held: Held, later: number, close: () => void }} props */
export function EditForm({ session, entry, held, later, close }) {
  const [field, setField] = useState(MESSAGE);
  const [text, setText] = useState(() => textOf(field, entry, held));
  const [problem, setProblem] = useState("");
  const choose = (/** @type {string} */ name) => {
    setField(name);
    setText(textOf(name, entry, held));
    setProblem("");
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const change = changeOf(field, text, held);
    if (!change) return setProblem(t("edit.notJson"));
    const body = { checkpoint_id: entry.checkpoint_id, ...change };
    const row = await attempt(() => send("POST", `${sessionPath(session)}/edit`, body));
    if (!row) return;
    await refreshLists();
    goTo(row.session_id);
  };
  return html`<form class="form" aria-label=${t("snapshots.edit")} onSubmit=${submit}>
    <label>
      <span>${t("edit.field")}</span>
      <select value=${field} onChange=${(/** @type {any} */ event) => choose(event.target.value)}>
        <option value=${MESSAGE}>${t("edit.message", { n: entry.turn })}</option>
        ${held.editable.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select>
    </label>
    <textarea
      rows=${Math.min(14, text.split("\n").length + 1)}
      class=${typeof valueOf(field, held) === "string" ? "" : "code"}
      aria-label=${t("edit.value")}
      aria-invalid=${Boolean(problem)}
      value=${text}
      onInput=${(/** @type {any} */ event) => setText(event.target.value)}
    ></textarea>
    ${problem && html`<p class="warning" role="alert">${problem}</p>`}
    <p class="about">
      ${t(field === MESSAGE ? "edit.aboutMessage" : "edit.aboutState")}
      ${later > 0 && ` ${t("snapshots.effectsSince", { n: later })}`}
    </p>
    <div class="decisions">
      <button type="submit" class="primary" disabled=${!text.trim()}>${t("edit.do")}</button>
      <button type="button" onClick=${close}>${t("dialog.cancel")}</button>
    </div>
  </form>`;
}

/** A field's value; the message is a text. @param {string} field @param {Held} held @returns {unknown} */
function valueOf(field, { plan, state }) {
  return field === MESSAGE ? "" : field === "plan" ? plan : state[field];
}

/** A field's value as it is edited. @param {string} field @param {Snapshot} entry @param {Held} held */
function textOf(field, entry, held) {
  if (field === MESSAGE) return turnOf(entry.task_id ?? "")?.value.message ?? "";
  const value = valueOf(field, held);
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** What to send; null where the text cannot be read. @param {string} field @param {string} text @param {Held} held */
function changeOf(field, text, held) {
  if (field === MESSAGE) return { message: text };
  if (typeof valueOf(field, held) === "string") return { state: { [field]: text } };
  try {
    return { state: { [field]: JSON.parse(text) } };
  } catch {
    return null;
  }
}
