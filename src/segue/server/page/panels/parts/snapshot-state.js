// @ts-check
/** A point of the timeline: what happened up to it, what it holds, and what can be done from there. */
import { Value } from "../../components/call.js";
import { Icon } from "../../components/icon.js";
import { IconButton } from "../../components/icon-button.js";
import { get } from "../../state/api.js";
import { useRead } from "../../state/signals.js";
import { moment, t, textOf } from "../../texts/index.js";
import { effectsAfter, isMarked, mark, marked, selected, sessionPath } from "../../timeline/data.js";
import { html, useState } from "../../vendor/htm-preact.js";
import { messageLine, resultLine } from "./difference.js";
import { Pending, useLoaded } from "./loaded.js";
import { EditForm } from "./snapshot-edit.js";
import { fork, placeOf, Story } from "./snapshot-entry.js";
import { UndoForm } from "./snapshot-undo.js";
import { Digest } from "./digest.js";
import { inline } from "./text.js";

/** @import { Json } from "../../state/types.js" */
/** @import { Snapshot } from "../../timeline/data.js" */
/**
 * @typedef {{ next: string[], messages: any[], plan: { step_id: string, description: string, status: string }[],
 *   results: any[], state: Json, editable: string[], prompt: string,
 *   sources: Record<string, string> }} Held
 */

/** The fields that hold what was noted for later. */
const MEMORY = ["memory", "files", "before"];

/** @param {{ session: string, entries: Snapshot[], point: string }} props */
export function State({ session, entries, point }) {
  const place = entries.findIndex((entry) => entry.checkpoint_id === point);
  const entry = entries[place];
  const later = effectsAfter(entries, point);
  const loaded = useLoaded(() => get(`${sessionPath(session)}/snapshots/${point}`), [point]);
  const step = (/** @type {number} */ by) => (selected.value = entries[place + by].checkpoint_id);
  return html`<div class="point">
    <div class="point-head">
      <button type="button" class="back" onClick=${() => (selected.value = "")}>${t("snapshots.all")}</button>
      <${IconButton}
        icon="chevron"
        class="before"
        label=${t("snapshots.earlier")}
        disabled=${place === 0}
        onClick=${() => step(-1)}
      />
      <${IconButton}
        icon="chevron"
        class="after"
        label=${t("snapshots.later")}
        disabled=${place === entries.length - 1}
        onClick=${() => step(1)}
      />
    </div>
    <h3>${t("snapshots.turn", { n: entry.turn })} · ${placeOf(entry)}</h3>
    <p class="about"><code>${entry.id}</code> · ${moment(entry.created_at)}</p>
    <${Story} entry=${entry} />
    <${Actions} session=${session} entry=${entry} later=${later} held=${loaded.value} />
    ${loaded.value
      ? html`<${Contents} session=${session} held=${loaded.value} />`
      : html`<${Pending} loaded=${loaded} />`}
  </div>`;
}

/** @param {{ session: string, entry: Snapshot, later: Snapshot["effects"], held: Held | null }} props */
function Actions({ session, entry, later, held }) {
  const [form, open] = useState("");
  const hasMark = useRead(() => Boolean(marked.value));
  const isThis = useRead(() => Boolean(marked.value) && isMarked(session, entry), [session, entry]);
  const toggle = (/** @type {string} */ name) => open(form === name ? "" : name);
  const close = () => open("");
  return html`<div class="actions">
      <button type="button" onClick=${() => fork(session, entry)}><${Icon} name="fork" />${t("snapshots.fork")}</button>
      <button type="button" aria-pressed=${isThis} onClick=${() => mark(session, entry)}>
        <${Icon} name="compare" />
        ${t(isThis ? "snapshots.unmark" : hasMark ? "snapshots.compareWith" : "snapshots.compare")}
      </button>
      <button type="button" aria-expanded=${form === "edit"} disabled=${!held} onClick=${() => toggle("edit")}>
        <${Icon} name="edit" />${t("snapshots.edit")}
      </button>
      ${later.length > 0 &&
      html`<button type="button" aria-expanded=${form === "undo"} onClick=${() => toggle("undo")}>
        <${Icon} name="retry" />${t("snapshots.undo", { n: later.length })}
      </button>`}
    </div>
    ${form === "edit" &&
    held &&
    html`<${EditForm} session=${session} entry=${entry} held=${held} later=${later} close=${close} />`}
    ${form === "undo" && html`<${UndoForm} session=${session} entry=${entry} later=${later} close=${close} />`}`;
}

/** @param {{ session: string, held: Held }} props */
function Contents({ session, held: { messages, plan, results, state, prompt, sources } }) {
  const memory = MEMORY.filter((name) => name in state);
  const others = Object.entries(state).filter(([name]) => !memory.includes(name) && name !== "digest");
  return html`${plan.length > 0 && html`<${Plan} plan=${plan} />`}
    ${state.digest && html`<${Digest} session=${session} digest=${state.digest} sources=${sources} />`}
    <${Listed} title=${t("difference.messages")} items=${messages} line=${messageLine} />
    <${Listed} title=${t("difference.results")} items=${results} line=${resultLine} />
    ${memory.length > 0 &&
    html`<section>
      <h4>${t("panel.memory")}</h4>
      ${memory.map((name) => html`<${Value} key=${name} label=${name} value=${state[name]} />`)}
    </section>`}
    <${Listed} title=${t("difference.state")} items=${others}
      line=${(/** @type {[string, unknown]} */ [name, value]) => [`${name}: ${inline(value, 60)}`, value]} />
    ${prompt &&
    html`<section>
      <h4>${t("difference.prompt")}</h4>
      <details><summary>${inline(prompt, 70)}</summary><${Value} value=${prompt} /></details>
    </section>`}`;
}

/** @param {{ plan: Held["plan"] }} props */
function Plan({ plan }) {
  return html`<section>
    <h4>${t("turn.plan")}</h4>
    <ol class="steps-held">
      ${plan.map(
        (step) => html`<li key=${step.step_id}>
          <span>${step.description}</span>
          <span class="chip" data-status=${step.status}>${textOf(`status.${step.status}`, step.status)}</span>
        </li>`,
      )}
    </ol>
  </section>`;
}

/** @param {{ title: string, items: any[], line: (item: any) => [string, unknown] }} props */
function Listed({ title, items, line }) {
  if (!items.length) return null;
  return html`<section>
    <h4>${title} <span class="about">${items.length}</span></h4>
    ${items.map((item, place) => {
      const [summary, value] = line(item);
      return html`<details key=${place}><summary>${summary}</summary><${Value} value=${value} /></details>`;
    })}
  </section>`;
}
