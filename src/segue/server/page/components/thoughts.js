// @ts-check
/** What the agent thought, folded under its answer; open while there is no answer yet. */
import { ACTIVE } from "../state/turn.js";
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";

/** @import { Turn } from "../state/types.js" */

/** @param {{ shown: Turn }} props */
export function Thoughts({ shown }) {
  const text = shown.thinking.replace(/\n{3,}/g, "\n\n").trim();
  const isThinking = ACTIVE.has(shown.status) && !shown.draft && !shown.answer;
  if (!text) return null;
  return html`<details class="thoughts">
    <summary>
      <${Icon} name="thought" /><span>${t(isThinking ? "turn.thinking" : "turn.thought")}</span>
      ${isThinking && html`<span class="about latest">${text.split("\n").at(-1)}</span>`}
      <${Icon} name="chevron" />
    </summary>
    <div class="text">${text}</div>
  </details>`;
}
