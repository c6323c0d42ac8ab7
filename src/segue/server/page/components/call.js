// @ts-check
/** A tool call: its arguments and its result, always as text. */
import { duration, t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { reload } from "../state/conversation.js";
import { endOf } from "../state/turn.js";
import { inline } from "./argument-list.js";
import { lazy } from "./lazy.js";
import { isNested, Readable } from "./readable.js";
import { loadStyleSheets } from "./style-sheets.js";

await loadStyleSheets("calls");

/** @import { Call } from "../state/types.js" */

/** Characters of a value that are shown at first. */
const SHORT = 1_200;
const Called = lazy(async () => (await import("./called.js")).Called);

/** @param {{ call: Call, task: string, isActive: boolean }} props `isActive` says that its task runs */
export function CallView({ call, task, isActive }) {
  const end = call.result && endOf(call.result);
  const state = end ? (end.failed ? "failed" : "done") : isActive ? "running" : "pending";
  return html`<details class="call" data-state=${state} data-ref=${refOf(call, task)}>
    <summary>
      <span class="mark" role="img" aria-label=${t(`call.${state}`)}></span>
      <code class="name">${call.name}</code>
      <span class="about">${inline(call.arguments)}</span>
      ${call.result !== null && html`<span class="took">${duration(call.seconds)}</span>`}
    </summary>
    <${Value} label=${t("call.arguments")} value=${call.arguments} />
    ${call.called && html`<${Called} task=${call.called} isActive=${isActive && call.result === null} />`}
    ${call.result !== null &&
    html`<${Value}
      label=${labelOf(call.result)}
      value=${end?.value}
      whole=${call.truncated ? () => reload(task) : null}
    />`}
  </details>`;
}

/** The name under which `recall` and a digest have a call. @param {Call} call @param {string} task */
function refOf({ scope = "", index }, task) {
  return `${task.slice(0, 8)}.${scope.includes("#") ? scope : scope.slice(0, 8)}.${index}`;
}

/** What a call's result is called; the model sees no hidden one. @param {Record<string, unknown>} result */
function labelOf(result) {
  const name = endOf(result).failed ? "call.error" : "call.result";
  return result.hidden ? t("call.hidden", { result: t(name) }) : t(name);
}

/**
 * A value as people write it, and as JSON; a long one is short at first.
 *
 * @param {{ label?: string, value: unknown, whole?: (() => unknown) | null }} props `whole` loads what is missing
 */
export function Value({ label = "", value, whole = null }) {
  const [isJson, setJson] = useState(false);
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "";
  const isReadable = isNested(value) && text.length <= SHORT;
  return html`<div class="value">
    ${label && html`<h4>${label}</h4>`}
    ${isReadable && !isJson ? html`<${Readable} value=${value} />` : html`<${Raw} text=${text} whole=${whole} />`}
    ${isReadable &&
    html`<button type="button" class="quiet as-json" onClick=${() => setJson(!isJson)}>
      ${t(isJson ? "call.asList" : "call.asJson")}
    </button>`}
  </div>`;
}

/** @param {{ text: string, whole: (() => unknown) | null }} props */
function Raw({ text, whole }) {
  const [isLong, setLong] = useState(false);
  const isCut = text.length > SHORT && !isLong;
  const toggle = () => {
    void whole?.();
    setLong(!isLong);
  };
  return html`<pre tabindex="0">${isCut ? `${text.slice(0, SHORT)}…` : text}</pre>
    ${(isCut || isLong || whole) &&
    html`<button type="button" class="quiet" onClick=${toggle}>
      ${t(isLong ? "call.showLess" : "call.showAll")}
    </button>`}`;
}
