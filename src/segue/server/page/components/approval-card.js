// @ts-check
/** Calls that wait for approval, in the conversation: each is approved, edited or rejected with one click or key. */
import { answer } from "../state/task-actions.js";
import { loadMoreTexts, t } from "../texts/index.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { CallChoice } from "./call-choice.js";
import { Icon } from "./icon.js";

await loadMoreTexts();

/** @import { AskedCall, Question } from "../state/types.js" */
/** @import { Decide, Decision } from "./call-choice.js" */
/** @typedef {Record<number, Decision>} Decisions by the call's index */

/** @param {{ turn: import("../state/store.js").TurnSignal, question: Question }} props */
export function ApprovalCard({ turn, question }) {
  const calls = question.calls ?? [];
  const [decisions, setDecisions] = useState(/** @type {Decisions} */ ({}));
  const [opened, open] = useState({ index: -1, what: "" });
  const [isSending, setSending] = useState(false);
  const card = useFocus();
  const own = calls.filter(({ refused }) => !refused);
  const undecided = own.filter(({ index }) => !decisions[index]);
  const send = async (/** @type {Decisions} */ all) => {
    setSending(true);
    const verdicts = own.map(({ index }) => ({ index, ...all[index] }));
    if (!(await answer(turn, { verdicts, interrupt_id: question.interrupt_id }))) setSending(false);
  };
  const decide = (/** @type {AskedCall[]} */ which, /** @type {Decision} */ decision) => {
    const all = { ...decisions, ...Object.fromEntries(which.map(({ index }) => [index, decision])) };
    open({ index: -1, what: "" });
    setDecisions(all);
    return all;
  };
  const decideOne = (/** @type {AskedCall} */ call, /** @type {Decision} */ decision) => {
    const all = decide([call], decision);
    if (own.length === 1) void send(all);
  };
  const undecide = (/** @type {AskedCall} */ { index }) => {
    const others = { ...decisions };
    delete others[index];
    setDecisions(others);
  };
  const current = opened.index < 0 ? undecided[0] : undefined;
  useKeys(card, !isSending && current ? {
    a: () => decideOne(current, { verdict: "approve" }),
    e: () => open({ index: current.index, what: "edit" }),
    r: () => open({ index: current.index, what: "reject" }),
  } : {});
  const title = calls.length === 1 ? t("approval.title") : t("approval.titleMany", { n: calls.length });
  return html`<section class="ask" ref=${card} tabindex="-1" aria-label=${title}>
    <h3 role="status"><${Icon} name="tool" />${title}</h3>
    ${question.problem && html`<p class="problem" role="alert">${question.problem}</p>`}
    ${calls.map((call) => html`<${CallChoice}
      key=${call.index}
      call=${call}
      decision=${decisions[call.index]}
      opened=${opened.index === call.index ? opened.what : ""}
      hasKeys=${call === current}
      isSending=${isSending}
      open=${(/** @type {string} */ what) => open({ index: what ? call.index : -1, what })}
      decide=${(/** @type {Decision} */ decision) => decideOne(call, decision)}
      undecide=${() => undecide(call)}
    />`)}
    ${own.length > 1 && html`<footer class="decisions">
      ${undecided.length === 0
        ? html`<button type="button" class="primary" disabled=${isSending} onClick=${() => send(decisions)}>
            ${t("approval.send", { n: own.length })}
          </button>`
        : html`<${All} hasSome=${undecided.length < own.length} isSending=${isSending}
            decide=${(/** @type {Decision} */ decision) => send(decide(undecided, decision))} />`}
    </footer>`}
  </section>`;
}

/** @param {{ hasSome: boolean, isSending: boolean, decide: Decide }} props */
function All({ hasSome, isSending, decide }) {
  return html`<button
      type="button" class="primary" disabled=${isSending} onClick=${() => decide({ verdict: "approve" })}
    >
      ${t(hasSome ? "approval.approveRest" : "approval.approveAll")}
    </button>
    <button type="button" disabled=${isSending} onClick=${() => decide({ verdict: "reject" })}>
      ${t(hasSome ? "approval.rejectRest" : "approval.rejectAll")}
    </button>`;
}

/** Take the focus where nothing else has it, and give it to the composer afterwards. */
function useFocus() {
  const card = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    requestAnimationFrame(() => isNothingFocused() && card.current?.focus());
    return () => requestAnimationFrame(() => isNothingFocused() && isPointed() && composer()?.focus());
  }, []);
  return card;
}

/** A field that was disabled keeps the focus in name only. */
function isNothingFocused() {
  const focused = document.activeElement;
  return !focused || focused === document.body || focused.matches(":disabled");
}

/** Whether no keyboard would cover the screen. */
const isPointed = () => matchMedia("(hover: hover)").matches;

/** @returns {HTMLElement | null} */
const composer = () => document.querySelector(".composer textarea");

/** Whether a letter is for the card: it, or nothing, has the focus, and no field. @param {HTMLElement | null} card */
function isFor(card) {
  const focused = document.activeElement;
  if (document.querySelector("dialog[open]") || focused?.matches("input, textarea:enabled, select")) return false;
  return isNothingFocused() || Boolean(card?.contains(focused));
}

/** Milliseconds in which a card that appears takes no keys: they were meant for what was there before. */
const UNSEEN = 500;

/**
 * Single keys that count while the card, or nothing, has the focus.
 *
 * A key that is held counts once.
 *
 * @param {{ current: HTMLElement | null }} card
 * @param {Record<string, () => void>} acts
 */
function useKeys(card, acts) {
  const latest = useRef(acts);
  latest.current = acts;
  useEffect(() => {
    const appeared = performance.now();
    const onKey = (/** @type {KeyboardEvent} */ event) => {
      const act = latest.current[event.key.toLowerCase()];
      if (!act || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || !isFor(card.current)) return;
      event.preventDefault();
      if (!event.repeat && event.timeStamp - appeared >= UNSEEN) act();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}
