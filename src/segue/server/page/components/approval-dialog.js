// @ts-check
/** Calls that wait for approval: each is approved, edited or rejected. */
import { answer } from "../state/conversation.js";
import { t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { Dialog } from "./dialog.js";

/** @import { AskedCall, Question } from "../state/types.js" */
/** @typedef {{ verdict: "approve" | "edit" | "reject", text: string, reason: string, always: string }} Choice */

/** @param {{ turn: import("../state/store.js").TurnSignal, question: Question, close: () => void }} props */
export function ApprovalDialog({ turn, question, close }) {
  const calls = question.calls ?? [];
  const [choices, setChoices] = useState(() => calls.map(undecided));
  const [isSending, setSending] = useState(false);
  const problems = choices.map((choice) => (choice.verdict === "edit" ? problemOf(choice.text) : ""));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setSending(true);
    const verdicts = calls.map((call, place) => verdictOf(call, choices[place]));
    if (await answer(turn, { verdicts, interrupt_id: question.interrupt_id })) close();
    setSending(false);
  };
  const title = calls.length === 1 ? t("approval.title") : t("approval.titleMany", { n: calls.length });
  return html`<${Dialog} title=${title} onClose=${close} class="wide">
    <form onSubmit=${submit}>
      <p class="about">${t("approval.text")}</p>
      ${question.problem && html`<p class="problem" role="alert">${question.problem}</p>`}
      ${calls.map(
        (call, place) => html`<${CallChoice}
          key=${call.index}
          call=${call}
          choice=${choices[place]}
          problem=${problems[place]}
          change=${(/** @type {Partial<Choice>} */ part) =>
            setChoices(choices.with(place, { ...choices[place], ...part }))}
        />`,
      )}
      <footer>
        <button type="button" onClick=${close}>${t("dialog.later")}</button>
        <button type="submit" class="primary" disabled=${isSending || problems.some(Boolean)}>
          ${t("approval.send")}
        </button>
      </footer>
    </form>
  <//>`;
}

/** @param {{ call: AskedCall, choice: Choice, problem: string, change: (part: Partial<Choice>) => void }} props */
function CallChoice({ call, choice, problem, change }) {
  const name = `verdict-${call.index}`;
  return html`<fieldset class="asked">
    <legend><code>${call.name}</code></legend>
    ${choice.verdict === "edit"
      ? html`<label>
          ${t("approval.arguments")}
          <textarea
            rows=${Math.min(16, choice.text.split("\n").length + 1)}
            spellcheck=${false}
            value=${choice.text}
            aria-invalid=${Boolean(problem)}
            onInput=${(/** @type {any} */ event) => change({ text: event.target.value })}
          ></textarea>
        </label>`
      : html`<pre tabindex="0">${JSON.stringify(call.arguments, null, 2)}</pre>`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <div class="choices" role="radiogroup" aria-label=${t("approval.verdict", { name: call.name })}>
      ${/** @type {const} */ (["approve", "edit", "reject"]).map(
        (verdict) => html`<label key=${verdict} class="choice">
          <input
            type="radio"
            name=${name}
            autofocus=${verdict === "approve"}
            checked=${choice.verdict === verdict}
            onChange=${() => change({ verdict })}
          />${t(`approval.${verdict}`)}
        </label>`,
      )}
    </div>
    ${choice.verdict === "reject" &&
    html`<label>
          ${t("approval.reason")}
          <input
            value=${choice.reason}
            onInput=${(/** @type {any} */ event) => change({ reason: event.target.value })}
          />
        </label>`}
    ${choice.verdict === "approve" &&
    html`<label>
          ${t("approval.always", { name: call.name })}
          <select
            value=${choice.always}
            onChange=${(/** @type {any} */ event) => change({ always: event.target.value })}
          >
            <option value="">${t("approval.alwaysNot")}</option>
            <option value="task">${t("approval.alwaysTask")}</option>
            <option value="session">${t("approval.alwaysSession")}</option>
            ${Object.keys(call.arguments).length > 0 && html`<option value="only">${t("approval.alwaysOnly")}</option>`}
          </select>
        </label>`}
  </fieldset>`;
}

/**
 * @param {AskedCall} call
 * @returns {Choice}
 */
function undecided(call) {
  return { verdict: "approve", text: JSON.stringify(call.arguments, null, 2), reason: "", always: "" };
}

/** What is wrong with edited arguments; empty if nothing. @param {string} text */
function problemOf(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? "" : t("approval.notObject");
  } catch (error) {
    return t("approval.notJson", { problem: /** @type {Error} */ (error).message });
  }
}

/**
 * @param {AskedCall} call
 * @param {Choice} choice
 */
function verdictOf({ index, arguments: only }, { verdict, text, reason, always }) {
  if (verdict === "reject") return { index, verdict, reason };
  if (verdict === "edit") return { index, verdict, arguments: JSON.parse(text) };
  if (always === "only") return { index, verdict, always: "session", only };
  return always ? { index, verdict, always } : { index, verdict };
}
