// @ts-check
/** What the agent thought, folded above what came of it; its last line is shown while it thinks. */
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";

/** @param {{ text: string, isThinking: boolean }} props */
export function Thoughts({ text: thought, isThinking }) {
  const text = thought.replace(/\n{3,}/g, "\n\n").trim();
  if (!text) return null;
  return html`<details class="thoughts">
    <summary>
      <${Icon} name="thought" /><span>${t("turn.thought")}</span>
      ${isThinking && html`<span class="about latest">${text.split("\n").at(-1)}</span>`}
      <${Icon} name="chevron" />
    </summary>
    <div class="text">${text}</div>
  </details>`;
}
