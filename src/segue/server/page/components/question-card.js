// @ts-check
/** A question of the agent: its choices are buttons, any other answer is written below. */
import { answer } from "../state/task-actions.js";
import { t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";

/** @import { Question } from "../state/types.js" */

/** @param {{ turn: import("../state/store.js").TurnSignal, question: Question }} props */
export function QuestionCard({ turn, question }) {
  const [isSending, setSending] = useState(false);
  const { choices = [], interrupt_id } = question;
  const choose = async (/** @type {string} */ choice) => {
    setSending(true);
    if (!(await answer(turn, { answer: choice, interrupt_id }))) setSending(false);
  };
  return html`<section class="ask" tabindex="-1" aria-label=${t("question.title")}>
    <h3><${Icon} name="question" />${t("question.title")}</h3>
    <p class="question" role="status">${question.question}</p>
    ${question.problem && html`<p class="problem" role="alert">${question.problem}</p>`}
    ${choices.length > 0 &&
    html`<div class="decisions">
      ${choices.map(
        (choice) => html`<button type="button" key=${choice} disabled=${isSending} onClick=${() => choose(choice)}>
          ${choice}
        </button>`,
      )}
    </div>`}
    <p class="about">${t(choices.length ? "question.orWrite" : "question.write")}</p>
  </section>`;
}
