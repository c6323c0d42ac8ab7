// @ts-check
/** The dialog that is open. */
import { asksForKey } from "../state/key-asked.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { html } from "../vendor/htm-preact.js";
import { lazy } from "./lazy.js";

const DeleteDialog = lazy(async () => (await import("./delete-dialog.js")).DeleteDialog);
const Inbox = lazy(async () => (await import("./inbox.js")).Inbox);
const ShareDialog = lazy(async () => (await import("../sharing/dialog.js")).ShareDialog);
const KeysDialog = lazy(async () => (await import("./keys-dialog.js")).KeysDialog);
const SettingsDialog = lazy(async () => (await import("./settings-dialog.js")).SettingsDialog);
const Palette = lazy(async () => (await import("./palette.js")).Palette);
const KeyDialog = lazy(async () => (await import("./key-dialog.js")).KeyDialog);

/** Those that are given nothing, by their kind. @type {Record<string, unknown>} */
const PLAIN = { inbox: Inbox, keys: KeysDialog, settings: SettingsDialog, palette: Palette };

export function Dialogs() {
  const dialog = useRead(() => store.dialog.value);
  const isAsked = useRead(() => asksForKey.value);
  const close = () => {
    store.dialog.value = "";
  };
  if (isAsked || dialog === "key") return html`<${KeyDialog} close=${close} />`;
  const [kind, id] = [dialog.split(":")[0], dialog.slice(dialog.indexOf(":") + 1)];
  if (kind in PLAIN) return html`<${PLAIN[kind]} key=${kind} close=${close} />`;
  if (kind === "find") return html`<${Palette} key=${kind} close=${close} within=${store.session.value} />`;
  if (kind === "commands") return html`<${Palette} key=${kind} close=${close} begin="/" />`;
  if (kind === "delete") return html`<${DeleteDialog} session=${id} close=${close} />`;
  if (kind === "share") return html`<${ShareDialog} session=${id} close=${close} />`;
  return null;
}
