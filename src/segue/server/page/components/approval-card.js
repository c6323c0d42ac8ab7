// @ts-check
/** Calls that wait for approval, in the conversation: each is approved, edited or rejected with one click, or one key
 * while the card has the focus. */
import { offerComposer } from "../state/focus.js";
import { answer } from "../state/task-actions.js";
import { loadMoreTexts, t } from "../texts/index.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { CallChoice, decisionsOf, KEYS } from "./call-choice.js";
import { isPlan } from "./call-names.js";
import { Icon } from "./icon.js";

await loadMoreTexts();

/** @import { AskedCall, Question } from "../state/types.js" */
/** @import { Decide, Decision } from "./call-choice.js" */
/** @typedef {Record<number, Decision>} Decisions by the call's index */

/** @param {{ turn: import("../state/store.js").TurnSignal, question: Question }} props */
export function ApprovalCard({ turn, question }) {
  const calls = question.calls ?? [];
  const own = calls.filter(({ refused }) => !refused);
  const [decisions, setDecisions] = useState(/** @type {Decisions} */ ({}));
  const [opened, open] = useState({ index: -1, what: "" });
  const { state, card, send } = useSending(turn, question);
  const undecided = own.filter(({ index }) => !decisions[index]);
  /** The card has the focus once the control that had it goes away. */
  const close = () => {
    if (card.current?.contains(document.activeElement)) card.current.focus();
    open({ index: -1, what: "" });
  };
  const decide = (/** @type {AskedCall[]} */ which, /** @type {Decision} */ decision) => {
    const all = { ...decisions, ...Object.fromEntries(which.map(({ index }) => [index, decision])) };
    close();
    setDecisions(all);
    if (own.length === 1 || which === undecided) void send(own, all);
  };
  const undecide = (/** @type {AskedCall} */ { index }) => {
    const others = { ...decisions };
    delete others[index];
    close();
    setDecisions(others);
  };
  const isSending = state === "sending";
  const current = opened.index < 0 && !isSending ? undecided[0] : undefined;
  const onKeyDown = useKeys(current ? Object.fromEntries(decisionsOf(current).map((kind) => [
    KEYS[kind].toLowerCase(),
    () => (kind === "approve" ? decide([current], { verdict: kind }) : open({ index: current.index, what: kind })),
  ])) : {});
  const isReview = calls.some(isPlan);
  const title = isReview ? t("plan.title") : titleOf(calls.length);
  return html`<section class="ask" ref=${card} tabindex="0" aria-label=${title} onKeyDown=${onKeyDown}>
    <h3 role="status"><${Icon} name=${isReview ? "plan" : "tool"} />${title}</h3>
    ${question.problem && html`<p class="problem" role="alert">${question.problem}</p>`}
    ${calls.map((call) => html`<${CallChoice}
      key=${call.index}
      call=${call}
      decision=${decisions[call.index]}
      opened=${opened.index === call.index ? opened.what : ""}
      hasKeys=${call === current}
      isSending=${isSending}
      open=${(/** @type {string} */ what) => (what ? open({ index: call.index, what }) : close())}
      decide=${(/** @type {Decision} */ decision) => decide([call], decision)}
      undecide=${() => undecide(call)}
    />`)}
    ${state === "failed" && html`<p class="problem" role="alert">${t("approval.notSent")}</p>`}
    <${Footer} n=${own.length} left=${undecided} state=${state} send=${() => send(own, decisions)}
      decide=${(/** @type {Decision} */ decision) => decide(undecided, decision)} />
  </section>`;
}

/** @param {number} n */
const titleOf = (n) => (n === 1 ? t("approval.title") : t("approval.titleMany", { n }));

/** @typedef {"" | "sending" | "failed"} State of the decisions */

/** @param {{ n: number, left: AskedCall[], state: State, send: () => void, decide: Decide }} props */
function Footer({ n, left, state, send, decide }) {
  if (!n || (n === 1 && (left.length || state !== "failed"))) return null;
  const isSending = state === "sending";
  return html`<footer class="decisions">
    ${left.length
      ? html`<${All} left=${left} hasSome=${left.length < n} isSending=${isSending} decide=${decide} />`
      : html`<button type="button" class="primary" disabled=${isSending} onClick=${send}>
          ${n === 1 ? t("approval.sendOne") : t("approval.send", { n })}
        </button>`}
  </footer>`;
}

/** @param {{ left: AskedCall[], hasSome: boolean, isSending: boolean, decide: Decide }} props */
function All({ left, hasSome, isSending, decide }) {
  const may = (/** @type {Decision["verdict"]} */ kind) => left.every((call) => decisionsOf(call).includes(kind));
  return html`${may("approve") &&
    html`<button
      type="button" class="primary" disabled=${isSending} onClick=${() => decide({ verdict: "approve" })}
    >
      ${t(hasSome ? "approval.approveRest" : "approval.approveAll")}
    </button>`}
    ${may("reject") &&
    html`<button type="button" disabled=${isSending} onClick=${() => decide({ verdict: "reject" })}>
      ${t(hasSome ? "approval.rejectRest" : "approval.rejectAll")}
    </button>`}`;
}

/**
 * Sends the decisions, and offers the composer once the card that had the focus is gone because of them.
 *
 * @param {import("../state/store.js").TurnSignal} turn
 * @param {Question} question
 */
function useSending(turn, question) {
  const card = useRef(/** @type {HTMLElement | null} */ (null));
  const isOwn = useRef(false);
  const [state, setState] = useState(/** @type {State} */ (""));
  useEffect(() => () => void requestAnimationFrame(() => isOwn.current && offerComposer()), []);
  const send = async (/** @type {AskedCall[]} */ own, /** @type {Decisions} */ all) => {
    setState("sending");
    isOwn.current = true;
    const verdicts = own.map(({ index }) => ({ index, ...all[index] }));
    isOwn.current = await answer(turn, { verdicts, interrupt_id: question.interrupt_id });
    setState(isOwn.current ? "" : "failed");
  };
  return { state, card, send };
}

/** Milliseconds in which a card that appears takes no keys: they were meant for what was there before. */
const UNSEEN = 500;

/**
 * Single keys that count while the card itself has the focus, which only the person gives it.
 *
 * A key that is held counts once.
 *
 * @param {Record<string, () => void>} acts
 */
function useKeys(acts) {
  const [appeared] = useState(() => performance.now());
  return (/** @type {KeyboardEvent} */ event) => {
    const act = acts[event.key.toLowerCase()];
    const isModified = event.ctrlKey || event.metaKey || event.altKey || event.shiftKey;
    if (!act || isModified || event.target !== event.currentTarget) return;
    event.preventDefault();
    if (!event.repeat && event.timeStamp - appeared >= UNSEEN) act();
  };
}
