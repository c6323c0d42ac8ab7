// @ts-check
/** What differs between two snapshots. */
import { Value } from "../../components/call.js";
import { t, textOf } from "../../texts/index.js";
import { html } from "../../vendor/htm-preact.js";
import { placeOf } from "./snapshot-entry.js";
import { inline } from "./text.js";

/** @import { Json } from "../../state/types.js" */
/** @import { Snapshot } from "../../timeline/data.js" */
/**
 * @typedef {{ a: any[], b: any[] }} Sides
 * @typedef {{ a: Json, b: Json, state: { name: string, a: unknown, b: unknown }[],
 *   plan: { step_id: string, description: string, a: string | null, b: string | null }[], messages: Sides,
 *   results: Sides, prompt: string[] }} Found
 */

/** @param {{ found: Found, a: Snapshot, b: Snapshot }} props */
export function Difference({ found, a, b }) {
  const { state, plan, messages, results, prompt } = found;
  const isOne = found.a.session_id === found.b.session_id;
  const isEqual = ![state, plan, messages.a, messages.b, results.a, results.b, prompt].some((list) => list.length);
  return html`<div class="difference">
    <dl class="sides">
      <div><dt>A</dt><dd>${sideOf(a, isOne ? null : found.a)}</dd></div>
      <div><dt>B</dt><dd>${sideOf(b, isOne ? null : found.b)}</dd></div>
    </dl>
    ${isEqual && html`<p class="empty">${t("difference.none")}</p>`}
    ${plan.length > 0 && html`<${Plan} plan=${plan} />`}
    <${OnlyOn} title=${t("difference.results")} sides=${results} line=${resultLine} />
    <${OnlyOn} title=${t("difference.messages")} sides=${messages} line=${messageLine} />
    ${state.length > 0 &&
    html`<section>
      <h3>${t("difference.state")}</h3>
      ${state.map(
        (each) => html`<details key=${each.name}>
          <summary>
            <b>${each.name}</b>
            <span class="about">${inline(each.a ?? "–", 40)} → ${inline(each.b ?? "–", 40)}</span>
          </summary>
          <${Value} label="A" value=${each.a ?? "–"} /><${Value} label="B" value=${each.b ?? "–"} />
        </details>`,
      )}
    </section>`}
    ${prompt.length > 0 && html`<${Prompt} lines=${prompt} />`}
  </div>`;
}

/**
 * @param {Snapshot} snapshot
 * @param {Json | null} side named where the two are of different sessions
 */
function sideOf(snapshot, side) {
  return html`${t("snapshots.turn", { n: snapshot.turn })}, ${placeOf(snapshot)}
    <span class="about"> <code>${snapshot.id}</code>${side && html` · <code>${side.session_id}</code>`}</span>`;
}

/** @param {{ plan: Found["plan"] }} props */
function Plan({ plan }) {
  /** @param {string | null} status */
  const shown = (status) =>
    html`<td data-status=${status ?? ""}>${status ? textOf(`status.${status}`, status) : "–"}</td>`;
  return html`<section>
    <h3>${t("turn.plan")}</h3>
    <table>
      <thead><tr><th scope="col">${t("difference.step")}</th><th scope="col">A</th><th scope="col">B</th></tr></thead>
      <tbody>
        ${plan.map(
          (step) => html`<tr key=${step.step_id}>
            <td>${step.description}</td>${shown(step.a)}${shown(step.b)}
          </tr>`,
        )}
      </tbody>
    </table>
  </section>`;
}

/** @param {{ title: string, sides: Sides, line: (entry: any) => [string, unknown] }} props */
function OnlyOn({ title, sides, line }) {
  const all = /** @type {const} */ (["a", "b"]).flatMap((side) => sides[side].map((entry) => ({ side, entry })));
  if (!all.length) return null;
  return html`<section>
    <h3>${title}</h3>
    ${all.map(({ side, entry }, place) => {
      const [summary, value] = line(entry);
      return html`<details key=${place} class="only" data-side=${side}>
        <summary><span class="side">${side.toUpperCase()}</span>${summary}</summary>
        <${Value} value=${value} />
      </details>`;
    })}
  </section>`;
}

/** @param {{ name: string, arguments: Json, result: unknown }} entry @returns {[string, unknown]} */
export function resultLine({ name, arguments: given, result }) {
  return [`${name} ${inline(given, 60)}`, result];
}

/**
 * @param {{ role: string, content: unknown, tool_calls?: { function: { name: string } }[] }} message
 * @returns {[string, unknown]}
 */
export function messageLine({ role, content, tool_calls: calls = [] }) {
  const named = calls.map((call) => call.function.name).join(", ");
  return [`${textOf(`role.${role}`, role)}: ${inline(content || named, 90)}`, content || calls];
}

/** @param {{ lines: string[] }} props */
function Prompt({ lines }) {
  return html`<section>
    <h3>${t("difference.prompt")}</h3>
    <pre class="lines" tabindex="0">
${lines.map((line, place) => html`<span key=${place} data-sign=${line[0] ?? ""}>${`${line}\n`}</span>`)}</pre>
  </section>`;
}
