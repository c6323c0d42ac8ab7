// @ts-check
/** A question of the agent, and the field for its answer. */
import { answer } from "../state/conversation.js";
import { t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { Dialog } from "./dialog.js";

/** @import { Question } from "../state/types.js" */

/** @param {{ turn: import("../state/store.js").TurnSignal, question: Question, close: () => void }} props */
export function QuestionDialog({ turn, question, close }) {
  const [text, setText] = useState("");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (await answer(turn, { answer: text, interrupt_id: question.interrupt_id })) close();
  };
  return html`<${Dialog} title=${t("question.title")} onClose=${close}>
    <form onSubmit=${submit}>
      <p class="question">${question.question}</p>
      ${question.problem && html`<p class="problem" role="alert">${question.problem}</p>`}
      <label>
        ${t("question.answer")}
        <textarea
          rows="3"
          autofocus
          value=${text}
          onInput=${(/** @type {any} */ event) => setText(event.target.value)}
        ></textarea>
      </label>
      <footer>
        <button type="button" onClick=${close}>${t("dialog.later")}</button>
        <button type="submit" class="primary" disabled=${!text.trim()}>${t("question.send")}</button>
      </footer>
    </form>
  <//>`;
}
