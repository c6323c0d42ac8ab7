// @ts-check
/** Where a person writes: a new message, something for the running task, or an answer. */
import { openTurn, say } from "../state/conversation.js";
import { offerComposer } from "../state/focus.js";
import { cancel, pause } from "../state/task-actions.js";
import { attach, forgetFiles, withTables } from "../state/files.js";
import { CONVERSATION } from "../state/participants.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { ACTIVE } from "../state/turn.js";
import { t } from "../texts/index.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { AttachButton } from "./attach-button.js";
import { AgentMenu, ModeMenu } from "./choices.js";
import { isComposing } from "./composing.js";
import { Icon } from "./icon.js";
import { lazy } from "./lazy.js";

const Attachments = lazy(async () => (await import("./attachments.js")).Attachments);

export function Composer() {
  const draft = useRead(() => store.draft.value);
  const status = useRead(() => openTurn()?.value.status ?? "");
  const closed = useRead(whyClosed);
  const agent = useRead(() => store.agent.value);
  const hasFiles = useRead(() => store.files.value.length > 0);
  const opened = useRead(() => store.opened.value);
  const [sending, setSending] = useState(-1);
  const isSending = sending === opened;
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useEffect(() => grow(field.current), [draft]);
  useEffect(offerComposer, []);
  const { held, begin, isHeld } = useAddressee();
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const message = store.draft.value.trim();
    if (!message || isSending || whyClosed() || isHeld()) return;
    setSending(opened);
    store.draft.value = "";
    const { value: files } = store.files;
    if (await say(withTables(message))) forgetFiles(files);
    else store.draft.value ||= message;
    setSending((now) => (now === opened ? -1 : now));
  };
  const onInput = (/** @type {any} */ event) => {
    if (!store.draft.value) begin();
    write(event);
  };
  const asked = useRead(() => Boolean(openTurn()?.value.question));
  const placeholder = closed ? t(closed) : promptOf(status, asked, agent);
  return html`<form class="composer" onSubmit=${submit} onPaste=${paste}>
    ${hasFiles && html`<${Attachments} />`}
    <textarea
      ref=${field}
      rows="1"
      aria-label=${status ? placeholder : t("composer.label")}
      placeholder=${placeholder}
      title=${t("composer.hint")}
      value=${draft}
      onInput=${onInput}
      onKeyDown=${sendOnEnter}
    ></textarea>
    ${draft && html`<${Note} text=${closed ?? held} />`}
    <${Buttons} isReady=${Boolean(draft.trim()) && !isSending && !closed} />
  </form>`;
}

/** Why the draft was not sent. @param {{ text: import("../texts/index.js").TextKey | null }} props */
function Note({ text }) {
  return html`<p class="about" role="status">${text && t(text)}</p>`;
}

/** @param {{ isReady: boolean }} props */
function Buttons({ isReady }) {
  const turn = useRead(() => openTurn());
  const status = useRead(() => openTurn()?.value.status ?? "");
  return html`<div class="composer-row">
    ${!turn && html`<${AttachButton} /><${AgentMenu} /><${ModeMenu} />`}
    <span class="gap"></span>
    ${turn && ACTIVE.has(status) && html`<button type="button" disabled=${status === "pausing"}
      onClick=${() => pause(turn)}><${Icon} name="pause" />${t("composer.pause")}</button>`}
    ${turn && html`<button type="button" onClick=${() => cancel(turn)}>
      <${Icon} name="stop" />${t("composer.stop")}</button>`}
    <button type="submit" class="send" aria-label=${t("composer.send")} title=${t("composer.send")}
      disabled=${!isReady}>
      <${Icon} name="send" />
    </button>
  </div>`;
}

/**
 * What a draft is meant for: what was asked when it was begun.
 *
 * A question that came later is answered with it only once the person, who is told, sends it again.
 */
function useAddressee() {
  const asked = useRead(askedNow);
  const meant = useRef("");
  const [held, hold] = useState("");
  return {
    held: held && held === asked ? /** @type {const} */ ("composer.asked") : null,
    begin: () => void (meant.current = askedNow()),
    isHeld: () => {
      const now = askedNow();
      if (!now || meant.current === now) return false;
      meant.current = now;
      hold(now);
      return true;
    },
  };
}

/** The id of the question that a message would answer. */
const askedNow = () => openTurn()?.value.question?.interrupt_id ?? "";

/** @param {ClipboardEvent} event */
const paste = (event) => void attach(event.clipboardData?.files ?? []);

/** Why nothing can be sent now. */
function whyClosed() {
  const turn = openTurn()?.value;
  const kind = turn?.question?.kind;
  if (kind === "approval") return "composer.decide";
  if (kind === "wait") return "composer.waits";
  return turn?.mode === CONVERSATION && !kind ? "transcript.watched" : null;
}

/**
 * @param {string} status
 * @param {boolean} asked
 * @param {string} agent
 */
function promptOf(status, asked, agent) {
  if (ACTIVE.has(status)) return t("composer.steer");
  if (status === "paused") return t("composer.resumeWith");
  return status === "waiting" && asked ? t("composer.answer") : t("composer.message", { agent });
}

/** A slash alone offers the commands. @param {any} event */
function write({ target }) {
  store.draft.value = target.value;
  if (target.value === "/") store.dialog.value = "commands";
}

/** Enter sends, but not while an input method composes a character. @param {KeyboardEvent} event */
function sendOnEnter(event) {
  if (event.key !== "Enter" || event.shiftKey || isComposing(event)) return;
  event.preventDefault();
  /** @type {HTMLTextAreaElement} */ (event.target).form?.requestSubmit();
}

/** As tall as its text. @param {HTMLTextAreaElement | null} field */
function grow(field) {
  if (!field) return;
  field.style.height = "auto";
  field.style.height = `${Math.min(field.scrollHeight, 240)}px`;
}
