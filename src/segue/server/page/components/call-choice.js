// @ts-check
/** One call that waits for approval: its arguments, and what a person decides about it. */
import { isRounded, parse } from "../state/json.js";
import { loadMoreTexts, t, textOf } from "../texts/index.js";
import { html, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";
import { ArgumentFields, ArgumentList, fieldsOf, valuesOf, written } from "./argument-list.js";
import { isPlan } from "./call-names.js";
import { Icon } from "./icon.js";
import { Menu } from "./menu.js";
import { PlanForm, PlanList } from "./plan-draft.js";

await loadMoreTexts();

/** @import { AskedCall, Json, Verdict } from "../state/types.js" */
/** @typedef {Omit<Verdict, "index">} Decision */
/** @typedef {(decision: Decision) => void} Decide */

/**
 * @param {{ call: AskedCall, decision?: Decision, opened: string, hasKeys: boolean, isSending: boolean, decide: Decide,
 *   open: (what: string) => void, undecide: () => void }} props
 */
export function CallChoice({ call, decision, opened, hasKeys, isSending, open, decide, undecide }) {
  const close = () => open("");
  return html`<div class="asked" role="group" aria-label=${call.name} data-verdict=${decision?.verdict}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && opened && close()}>
    <${Name} call=${call} />
    ${opened === "edit"
      ? html`<${Edit} call=${call} close=${close} decide=${decide} />`
      : html`<${Proposed} call=${call} edited=${decision?.arguments} />`}
    ${["reject", "respond"].includes(opened) && html`<${Words} kind=${opened} close=${close} decide=${decide} />`}
    ${decision && html`<${Chosen} decision=${decision} isSending=${isSending} undecide=${undecide} />`}
    ${call.refused && html`<p class="problem">${call.refused}</p>`}
    ${!decision &&
    !opened &&
    !call.refused &&
    html`<${Choices} call=${call} hasKeys=${hasKeys} isSending=${isSending} open=${open} decide=${decide} />`}
  </div>`;
}

/** @param {{ call: AskedCall }} props */
const Name = ({ call }) => !isPlan(call) && html`<h4><code>${call.name}</code></h4>`;

/**
 * @param {{ call: AskedCall, hasKeys: boolean, isSending: boolean, decide: Decide,
 *   open: (what: string) => void }} props
 */
function Choices({ call, hasKeys, isSending, open, decide }) {
  return html`<div class="decisions">
    ${decisionsOf(call).map((kind) => html`<${Choice}
      key=${kind} kind=${kind} hasKey=${hasKeys} disabled=${isSending}
      act=${() => (kind === "approve" ? decide({ verdict: kind }) : open(kind))} />`)}
    <${Always} call=${call} disabled=${isSending} decide=${decide} />
  </div>`;
}

/** The keys of decisions. @type {Record<Verdict["verdict"], string>} */
export const KEYS = { approve: "A", edit: "E", reject: "R", respond: "W" };
const USUAL = ["approve", "edit", "reject"];

/** What may be decided about a call. @param {AskedCall} call */
export function decisionsOf({ decisions = USUAL }) {
  return /** @type {Verdict["verdict"][]} */ (Object.keys(KEYS)).filter((kind) => decisions.includes(kind));
}

/** What would run, with its sources until it is edited. @param {{ call: AskedCall, edited?: Json }} props */
function Proposed({ call, edited }) {
  if (isPlan(call)) return html`<${PlanList} plan=${edited ?? call.arguments} />`;
  if (edited) return html`<${ArgumentList} values=${edited} />`;
  const why = call.reason && textOf(`approvalReason.${call.reason}`, "");
  return html`<${ArgumentList} values=${call.arguments} sources=${call.sources} />
    ${why && html`<p class="about">${why}</p>`}`;
}

/** What a decision allows for good. @param {Decision} decision */
export function allowance({ always, only, flow }) {
  return always && textOf(`approvalAlways.${flow ? "flow" : only ? "only" : always}`, always);
}

/** A decision that was not sent yet. @param {{ decision: Decision, isSending: boolean, undecide: () => void }} props */
function Chosen({ decision, isSending, undecide }) {
  const { verdict, reason } = decision;
  const state = t(isSending ? "approval.sending" : "approval.unsent");
  const said = [textOf(`approvalChosen.${verdict}`, verdict), reason, allowance(decision), state].filter(Boolean);
  return html`<p class="decisions">
    <span role="status">${said.join(" · ")}</span>
    <button type="button" class="quiet" disabled=${isSending} onClick=${undecide}>${t("approval.change")}</button>
  </p>`;
}

/** @param {{ kind: Verdict["verdict"], hasKey: boolean, disabled: boolean, act: () => void }} props */
function Choice({ kind, hasKey, disabled, act }) {
  const letter = KEYS[kind];
  return html`<button
    type="button"
    class=${kind === "approve" && hasKey ? "primary" : ""}
    disabled=${disabled}
    aria-keyshortcuts=${hasKey ? letter : undefined}
    onClick=${act}
  >
    ${t(`approval.${kind}`)}${hasKey && html`<kbd aria-hidden="true">${letter}</kbd>`}
  </button>`;
}

/**
 * What can be allowed for good: nothing if each call needs approvals of its own.
 *
 * @param {{ call: AskedCall, disabled: boolean, decide: Decide }} props
 */
function Always({ call, disabled, decide }) {
  if ((call.approvals ?? 1) > 1 || call.not_by_asker || call.decisions) return null;
  return html`<${Menu}
    up
    label=${t("approval.alwaysOf", { name: call.name })}
    disabled=${disabled}
    button=${html`${t("approval.allow")}<${Icon} name="chevron" />`}
    items=${allowances(call, decide)}
  />`;
}

/** @param {AskedCall} call @param {Decide} decide */
function allowances({ arguments: only, sources = {}, doubted = [] }, decide) {
  /** @type {[string, Partial<Decision>][]} */
  const scopes = [
    ["approvalAlways.task", { always: "task" }],
    ["approvalAlways.session", { always: "session" }],
  ];
  if (Object.keys(only).length && !isRounded(only)) scopes.push(["approvalAlways.only", { always: "session", only }]);
  const flows = doubted.length && doubted.every((name) => sources[name]?.some(({ trusted }) => !trusted));
  if (flows) scopes.push(["approvalAlways.flow", { always: "session", flow: true }]);
  return scopes.map(([key, allowed]) => ({
    key,
    label: textOf(key, key),
    act: () => decide({ verdict: "approve", ...allowed }),
  }));
}

/**
 * A rejection with its reason, or the result.
 *
 * @param {{ kind: "reject" | "respond", close: () => void, decide: Decide }} props
 */
function Words({ kind, close, decide }) {
  const [reason, setReason] = useState("");
  const isResult = kind === "respond";
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useLayoutEffect(() => field.current?.focus(), []);
  return html`<form onSubmit=${submitting(() => decide({ verdict: kind, reason: reason.trim() }))}>
    <label class="argument"><span>${t(isResult ? "approval.result" : "approval.reason")}</span>
      <input ref=${field} required=${isResult} pattern=${isResult ? ".*\\S.*" : ".*"} value=${reason}
        onInput=${(/** @type {any} */ event) => setReason(event.target.value)} />
    </label>
    <div class="decisions">
      <button type="submit" class=${isResult ? "primary" : "primary danger"}>${t(`approval.${kind}`)}</button>
      <button type="button" onClick=${close}>${t("dialog.cancel")}</button>
    </div>
  </form>`;
}

/** @param {{ call: AskedCall, close: () => void, decide: Decide }} props */
function Edit({ call, close, decide }) {
  const save = (/** @type {Json} */ plan) => decide({ verdict: "edit", arguments: plan });
  if (isRounded(call.arguments)) {
    return html`<p class="problem" role="alert">${t("approval.rounded")}</p>
      <div class="decisions"><button type="button" onClick=${close}>${t("dialog.cancel")}</button></div>`;
  }
  if (isPlan(call)) return html`<${PlanForm} plan=${call.arguments} close=${close} save=${save} />`;
  return html`<${EditForm} call=${call} close=${close} decide=${decide} />`;
}

/** @param {{ call: AskedCall, close: () => void, decide: Decide }} props */
function EditForm({ call, close, decide }) {
  const [fields, setFields] = useState(() => fieldsOf(call.arguments));
  const [json, setJson] = useState(/** @type {string | null} */ (null));
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useLayoutEffect(() => {
    /** @type {HTMLElement | null | undefined} */ (form.current?.querySelector("input, textarea, select"))?.focus();
  }, [json === null]);
  const edited = json === null ? valuesOf(call.arguments, fields) : readJson(json);
  const isWrong = Object.keys(edited.problems).length > 0;
  const save = () => isWrong || decide({ verdict: "edit", arguments: edited.values });
  return html`<form ref=${form} onSubmit=${submitting(save)}>
    ${json === null
      ? html`<${ArgumentFields}
          before=${call.arguments}
          fields=${fields}
          problems=${edited.problems}
          change=${setFields}
        />`
      : html`<label class="argument">
          <span>${t("approval.arguments")}</span>
          <textarea
            rows=${Math.min(16, json.split("\n").length + 1)}
            spellcheck=${false}
            data-type="object"
            value=${json}
            aria-invalid=${isWrong}
            onInput=${(/** @type {any} */ event) => setJson(event.target.value)}
          ></textarea>
          ${isWrong && html`<span class="problem" role="alert">${edited.problems.json}</span>`}
        </label>`}
    <div class="decisions">
      <button type="submit" class="primary" disabled=${isWrong}>${t("approval.runEdited")}</button>
      <button type="button" onClick=${close}>${t("dialog.cancel")}</button>
      ${json === null &&
      html`<button type="button" class="quiet" onClick=${() => setJson(written(edited.values, 2))}>
        ${t("approval.asJson")}
      </button>`}
    </div>
  </form>`;
}

/** @param {string} text @returns {{ values: import("../state/types.js").Json, problems: Record<string, string> }} */
function readJson(text) {
  try {
    const values = parse(text);
    const isObject = values && typeof values === "object" && !Array.isArray(values);
    return { values, problems: isObject ? {} : { json: t("approval.notObject") } };
  } catch (error) {
    return { values: {}, problems: { json: t("approval.notJson", { problem: /** @type {Error} */ (error).message }) } };
  }
}

/** @param {() => unknown} act */
function submitting(act) {
  return (/** @type {Event} */ event) => {
    event.preventDefault();
    act();
  };
}
