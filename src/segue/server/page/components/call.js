// @ts-check
/** A tool call: its arguments and its result, always as text. */
import { duration, t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { reload } from "../state/conversation.js";
import { inline } from "./argument-list.js";

/** @import { Call } from "../state/types.js" */

/** Characters of a value that are shown at first. */
const SHORT = 1_200;

/** @param {{ call: Call, task: string, isActive: boolean }} props `isActive` says that its task runs */
export function CallView({ call, task, isActive }) {
  const failed = call.result !== null && "error" in call.result;
  const state = call.result === null ? (isActive ? "running" : "pending") : failed ? "failed" : "done";
  return html`<details class="call" data-state=${state}>
    <summary>
      <span class="mark" role="img" aria-label=${t(`call.${state}`)}></span>
      <code class="name">${call.name}</code>
      <span class="about">${inline(call.arguments)}</span>
      ${call.result !== null && html`<span class="took">${duration(call.seconds)}</span>`}
    </summary>
    <${Value} label=${t("call.arguments")} value=${call.arguments} />
    ${call.result !== null &&
    html`<${Value}
      label=${labelOf(call.result)}
      value=${failed ? call.result.error : call.result.success}
      whole=${call.truncated ? () => reload(task) : null}
    />`}
  </details>`;
}

/** What a call's result is called; the model sees no hidden one. @param {Record<string, unknown>} result */
function labelOf(result) {
  const name = "error" in result ? "call.error" : "call.result";
  return result.hidden ? t("call.hidden", { result: t(name) }) : t(name);
}

/** @param {{ label: string, value: unknown, whole?: (() => unknown) | null }} props `whole` loads what is missing */
function Value({ label, value, whole = null }) {
  const [isLong, setLong] = useState(false);
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
  const isCut = text.length > SHORT && !isLong;
  return html`<div class="value">
    <h4>${label}</h4>
    <pre tabindex="0">${isCut ? `${text.slice(0, SHORT)}…` : text}</pre>
    ${(isCut || isLong || whole) &&
    html`<button
      type="button"
      class="quiet"
      onClick=${() => {
        void whole?.();
        setLong(!isLong);
      }}
    >
      ${t(isLong ? "call.showLess" : "call.showAll")}
    </button>`}
  </div>`;
}
