// @ts-check
/** What the task asked a person: how they answered, or the card that waits for them. */
import { isUtterance } from "../state/participants.js";
import { decidedBy } from "../state/persons.js";
import { dateTime, t, textOf } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { ApprovalCard } from "./approval-card.js";
import { inline } from "./argument-list.js";
import { allowance } from "./call-choice.js";
import { isPlan } from "./call-names.js";
import { Icon } from "./icon.js";
import { QuestionCard } from "./question-card.js";
import { loadStyleSheets } from "./style-sheets.js";

/** @import { AskedCall, Exchange, Question, Turn, Verdict } from "../state/types.js" */

await loadStyleSheets("ask");

/** @param {{ turn: import("../state/store.js").TurnSignal, shown: Turn, id: string }} props `id` of the interrupt */
export function Asked({ turn, shown, id }) {
  const { question, status, exchanges } = shown;
  const Card = question?.kind === "approval" ? ApprovalCard : QuestionCard;
  const isOpen = question?.interrupt_id.split("-")[0] === id && status === "waiting" && !isUtterance(shown);
  if (isOpen && question.kind === "wait") return html`<${Waiting} question=${question} />`;
  if (isOpen) return html`<${Card} key=${question.interrupt_id} turn=${turn} question=${question} />`;
  const exchange = exchanges.find((each) => each.question.interrupt_id === id);
  return exchange && html`<${Answered} exchange=${exchange} />`;
}

/** What ends the wait of a task by itself. @param {{ question: Question }} props */
function Waiting({ question: { until, event } }) {
  const moment = typeof until === "number" ? dateTime(until) : "";
  const text = t(event ? (moment ? "wait.both" : "wait.event") : "wait.until", { event: event ?? "", moment });
  return html`<p class="answered" role="status"><${Icon} name="timeline" />${text}</p>`;
}

/** @param {{ exchange: Exchange }} props */
function Answered({ exchange: { question, verdicts, answer } }) {
  if (answer !== null) {
    return html`<dl class="answered">
      <dt>${question.question}</dt>
      <dd>${answer}</dd>
    </dl>`;
  }
  if (!verdicts) return null;
  const calls = new Map((question.calls ?? []).map((call) => [call.index, call]));
  return html`<ul class="answered">
    ${verdicts.map(
      (verdict) => html`<${Decided} key=${verdict.index} verdict=${verdict} call=${calls.get(verdict.index)} />`,
    )}
  </ul>`;
}

const ICONS = { approve: "check", edit: "edit", reject: "close", respond: "edit" };

/** @param {{ verdict: Verdict, call?: AskedCall }} props */
function Decided({ verdict: decision, call }) {
  const { verdict, arguments: edited, reason } = decision;
  const note = [reason || allowance(decision), decidedBy(decision)].filter(Boolean).join(" · ");
  return html`<li data-verdict=${verdict}>
    <${Icon} name=${ICONS[verdict]} />
    <span>
      ${textOf(`approvalDone.${verdict}`, verdict)} ${call && isPlan(call)
        ? html`${t("turn.plan")} <span class="about">${call.arguments.goal}</span>`
        : html`<code>${call?.name}</code> <span class="about">${inline(edited ?? call?.arguments ?? {})}</span>`}
      ${note && html`<span class="reason">${note}</span>`}
    </span>
  </li>`;
}
