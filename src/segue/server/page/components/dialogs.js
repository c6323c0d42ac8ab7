// @ts-check
/** The dialog that is open. A question that comes up in the shown session opens its own. */
import { refusedKey } from "../state/api.js";
import { CONVERSATION } from "../state/participants.js";
import { useRead } from "../state/signals.js";
import { store, turnOf } from "../state/store.js";
import { html, useEffect } from "../vendor/htm-preact.js";
import { lazy } from "./lazy.js";

const ApprovalDialog = lazy(async () => (await import("./approval-dialog.js")).ApprovalDialog);
const DeleteDialog = lazy(async () => (await import("./delete-dialog.js")).DeleteDialog);
const Inbox = lazy(async () => (await import("./inbox.js")).Inbox);
const KeyDialog = lazy(async () => (await import("./key-dialog.js")).KeyDialog);
const QuestionDialog = lazy(async () => (await import("./question-dialog.js")).QuestionDialog);

/** Questions that were put in front of the person once; closing the dialog leaves them for later. */
const put = new Set();

export function Dialogs() {
  const dialog = useRead(() => store.dialog.value);
  const isRefused = useRead(() => refusedKey.value !== null);
  const asked = useRead(openQuestion);
  useEffect(() => {
    if (!asked || put.has(asked.interrupt) || store.dialog.value) return;
    put.add(asked.interrupt);
    store.dialog.value = `question:${asked.task}`;
  }, [asked?.interrupt]);
  const close = () => {
    store.dialog.value = "";
  };
  if (isRefused || dialog === "key") return html`<${KeyDialog} close=${close} />`;
  const [kind, id] = [dialog.split(":")[0], dialog.slice(dialog.indexOf(":") + 1)];
  if (kind === "inbox") return html`<${Inbox} close=${close} />`;
  if (kind === "delete") return html`<${DeleteDialog} session=${id} close=${close} />`;
  if (kind === "question") return html`<${Question} key=${id} task=${id} close=${close} />`;
  return null;
}

/** @returns {{ task: string, interrupt: string } | null} */
function openQuestion() {
  const latest = store.turns.value.at(-1)?.value;
  if (!latest?.question || latest.status !== "waiting") return null;
  if (latest.mode === CONVERSATION && latest.question.kind !== "approval") return null; // it is read above the composer
  return { task: latest.id, interrupt: latest.question.interrupt_id };
}

/** @param {{ task: string, close: () => void }} props */
function Question({ task, close }) {
  const turn = useRead(() => turnOf(task));
  const question = useRead(() => turnOf(task)?.value.question ?? null);
  useEffect(() => {
    if (!question) close();
  }, [question]);
  if (!turn || !question) return null;
  const Body = question.kind === "approval" ? ApprovalDialog : QuestionDialog;
  return html`<${Body} key=${question.interrupt_id} turn=${turn} question=${question} close=${close} />`;
}
