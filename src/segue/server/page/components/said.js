// @ts-check
/** A message: its text and files, its versions, and a field to edit it and send it again. */
import { versionsOf } from "../state/branches.js";
import { goTo } from "../state/router.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { OPEN } from "../state/turn.js";
import { t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { copy } from "./copy.js";
import { IconButton } from "./icon-button.js";
import { lazy } from "./lazy.js";
import { MessageFiles } from "./message-files.js";

/** @import { Turn } from "../state/types.js" */

const BranchForm = lazy(async () => (await import("./branch-form.js")).BranchForm);

/** @param {{ shown: Turn, place: number }} props `place` among the shown turns, from 0 */
export function Said({ shown, place }) {
  const [isEditing, setEditing] = useState(false);
  const close = () => setEditing(false);
  if (isEditing) return html`<${BranchForm} task=${shown.id} message=${shown.message} close=${close} />`;
  return html`<div class="said">
      <h2 class="unseen">${t("turn.you")}</h2>
      <p>${shown.message}</p>
      <${MessageFiles} shown=${shown} />
    </div>
    <div class="said-actions">
      <${Versions} place=${place} />
      <${IconButton} icon="copy" label=${t("turn.copyMessage")} onClick=${() => copy(shown.message)} />
      ${!OPEN.has(shown.status) &&
      html`<${IconButton} icon="edit" label=${t("branch.edit")} onClick=${() => setEditing(true)} />`}
    </div>`;
}

/** @param {{ place: number }} props */
function Versions({ place: index }) {
  const first = useRead(() => store.firstTurn.value);
  const { sessions, place } = useRead(() => versionsOf(first + index), [first, index]);
  if (sessions.length < 2) return null;
  const show = (/** @type {number} */ to) => goTo(sessions[to]);
  return html`<span class="versions" role="group" aria-label=${t("branch.versions")}>
    <${IconButton} class="back" icon="chevron" label=${t("branch.previous")} disabled=${place <= 0}
      onClick=${() => show(place - 1)} />
    <span class="about">${t("branch.at", { n: place + 1, all: sessions.length })}</span>
    <${IconButton} class="on" icon="chevron" label=${t("branch.next")} disabled=${place >= sessions.length - 1}
      onClick=${() => show(place + 1)} />
  </span>`;
}
