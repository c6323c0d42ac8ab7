// @ts-check
/** Continuing from a snapshot in a branch, with another message or with a field of its state changed. */
import { Continue, Effects, useBeginning } from "../../components/effects-stay.js";
import { branch, editState, preview } from "../../state/branches.js";
import { turnOf } from "../../state/store.js";
import { t } from "../../texts/index.js";
import { html, useState } from "../../vendor/htm-preact.js";

/** @import { Effect, Snapshot } from "../../timeline/data.js" */
/** @import { Held } from "./snapshot-state.js" */

/** What stands for the turn's message among the fields. */
const MESSAGE = "";

/** @param {{ session: string, entry: Snapshot, held: Held, later: Effect[], close: () => void }} props */
export function EditForm({ session, entry, held, later, close }) {
  const [field, setField] = useState(MESSAGE);
  const [text, setText] = useState(() => textOf(field, entry, held));
  const [problem, setProblem] = useState("");
  const { checkpoint_id: point, task_id: task } = entry;
  const { place, isBusy, start, look, undo, forget } = useBeginning(() =>
    field === MESSAGE ? branch(task ?? "", text) : editState(session, point, valueIn(field, text, held) ?? {}),
  );
  const choose = (/** @type {string} */ name) => {
    setField(name);
    setText(textOf(name, entry, held));
    setProblem("");
    forget();
  };
  const stay = async () => ({
    session_id: session,
    checkpoint_id: point,
    effects: later.filter((effect) => effect.undo !== "done"),
  });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (field !== MESSAGE && !valueIn(field, text, held)) return setProblem(t("edit.notJson"));
    setProblem("");
    void (place ? start() : look(() => (field === MESSAGE ? preview(task ?? "") : stay())));
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
    <p class="about">${t(field === MESSAGE ? "edit.aboutMessage" : "edit.aboutState")}</p>
    ${place && html`<${Effects} place=${place} />`}
    <div class="decisions">
      ${isBusy && html`<span class="spinner"></span>`}
      <${Continue} place=${place} disabled=${isBusy || !text.trim()} label=${t("edit.do")} undo=${undo} />
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

/** A field's change; null where it cannot be read. @param {string} field @param {string} text @param {Held} held */
function valueIn(field, text, held) {
  if (typeof valueOf(field, held) === "string") return { [field]: text };
  try {
    return { [field]: JSON.parse(text) };
  } catch {
    return null;
  }
}
