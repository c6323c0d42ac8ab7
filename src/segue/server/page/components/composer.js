// @ts-check
/** Where a person writes: a new message, something for the running task, or an answer. */
import { openTurn, say } from "../state/conversation.js";
import { cancel, pause } from "../state/task-actions.js";
import { attach, withTables } from "../state/files.js";
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

/** @import { Turn } from "../state/types.js" */

const Attachments = lazy(async () => (await import("./attachments.js")).Attachments);

export function Composer() {
  const draft = useRead(() => store.draft.value);
  const turn = useRead(() => openTurn());
  const status = useRead(() => openTurn()?.value.status ?? "");
  const closed = useRead(() => whyClosed(openTurn()?.value));
  const isClosed = closed !== null;
  const agent = useRead(() => store.agent.value);
  const hasFiles = useRead(() => store.files.value.length > 0);
  const [isSending, setSending] = useState(false);
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useEffect(() => grow(field.current), [draft]);
  useEffect(() => void (matchMedia("(hover: hover)").matches && field.current?.focus()), []);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const message = store.draft.value.trim();
    if (!message || isSending || isClosed) return;
    setSending(true);
    store.draft.value = "";
    if (await say(withTables(message))) store.files.value = [];
    else store.draft.value ||= message;
    setSending(false);
  };
  const placeholder = closed ? t(closed) : promptOf(status, agent);
  return html`<form class="composer" onSubmit=${submit} onPaste=${paste}>
    ${hasFiles && html`<${Attachments} />`}
    <textarea
      ref=${field}
      rows="1"
      aria-label=${status ? placeholder : t("composer.label")}
      placeholder=${placeholder}
      title=${t("composer.hint")}
      disabled=${isClosed}
      value=${draft}
      onInput=${write}
      onKeyDown=${sendOnEnter}
    ></textarea>
    <div class="composer-row">
      ${!turn && html`<${AttachButton} /><${AgentMenu} /><${ModeMenu} />`}
      <span class="gap"></span>
      ${turn && ACTIVE.has(status) && html`<button type="button" disabled=${status === "pausing"}
        onClick=${() => pause(turn)}><${Icon} name="pause" />${t("composer.pause")}</button>`}
      ${turn && html`<button type="button" onClick=${() => cancel(turn)}>
        <${Icon} name="stop" />${t("composer.stop")}</button>`}
      <button
        type="submit"
        class="send"
        aria-label=${t("composer.send")}
        title=${t("composer.send")}
        disabled=${!draft.trim() || isSending || isClosed}
      >
        <${Icon} name="send" />
      </button>
    </div>
  </form>`;
}

/** @param {ClipboardEvent} event */
const paste = (event) => void attach(event.clipboardData?.files ?? []);

/** Why nothing can be written now. @param {Turn | undefined} turn */
function whyClosed(turn) {
  if (turn?.question?.kind === "approval") return "composer.decide";
  if (turn?.question?.kind === "wait") return "composer.waits";
  return turn?.mode === CONVERSATION && !turn.question ? "transcript.watched" : null;
}

/**
 * @param {string} status
 * @param {string} agent
 */
function promptOf(status, agent) {
  if (ACTIVE.has(status)) return t("composer.steer");
  if (status === "paused") return t("composer.resumeWith");
  return status === "waiting" ? t("composer.answer") : t("composer.message", { agent });
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
