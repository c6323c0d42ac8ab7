// @ts-check
/** Rehearsals: batches of conversations with simulated users, their reports, and two of them side by side. */
import { Icon } from "../components/icon.js";
import { get, getAll, send } from "../state/api.js";
import { attempt } from "../state/failures.js";
import { pageAddress } from "../state/router.js";
import { t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { Pending, useLoaded } from "./parts/loaded.js";
import { BatchComparison } from "./parts/batch-comparison.js";
import { RehearsalForm } from "./parts/rehearsal-form.js";
import { Rate, Report } from "./parts/report.js";
import { ConversationForm, ImportForm } from "./parts/workflow-forms.js";
import { Back, Ended, Progress, useRunning } from "./parts/runs.js";

/** @import { ReportForm } from "./parts/report.js" */
/**
 * @typedef {{ name: string, workflow: string, created_at: string, conversations: number, ended: number,
 *   running: boolean, error: string, report: ReportForm | null }} Batch
 */

/** @param {string} name */
const addressOf = (name) => `/api/rehearsals/${encodeURIComponent(name)}`;

/** @param {{ names: string[] }} props those of a batch, or of two that are compared */
export default function Panel({ names: [name, other] }) {
  if (other) {
    return html`<${Back} label=${t("rehearsals.back")} page="rehearsals" />
      <${BatchComparison} a=${name} b=${other} />`;
  }
  return name ? html`<${Whole} key=${name} name=${name} />` : html`<${List} />`;
}

/** Show a batch, or two. @param {string[]} names */
const show = (names) => (location.hash = pageAddress("rehearsals", ...names));

function List() {
  const loaded = useLoaded(() => getAll("/api/rehearsals"), []);
  const [form, open] = useState("");
  const [chosen, choose] = useState(/** @type {string[]} */ ([]));
  /** @type {Batch[]} */
  const batches = loaded.value?.items ?? [];
  useRunning(batches.some((batch) => batch.running), loaded.reload);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  const close = () => open("");
  const toggle = (/** @type {string} */ name) => open(form === name ? "" : name);
  const names = batches.map(({ name }) => name);
  const started = (/** @type {Batch} */ batch) => show([batch.name]);
  const pick = (/** @type {string} */ name) => choose(toggled(chosen, name));
  return html`<p class="about">${t("rehearsals.about")}</p>
    <div class="rehearsal-actions">
      <button type="button" class="primary" aria-expanded=${form === "run"} onClick=${() => toggle("run")}>
        <${Icon} name="play" />${t("rehearsals.run")}
      </button>
      <button type="button" aria-expanded=${form === "talk"} onClick=${() => toggle("talk")}>
        ${t("workflows.talk")}
      </button>
      <button type="button" aria-expanded=${form === "import"} onClick=${() => toggle("import")}>
        ${t("workflows.import")}
      </button>
      ${batches.length > 1 &&
      html`<button type="button" disabled=${chosen.length !== 2} onClick=${() => show(chosen)}>
        <${Icon} name="compare" />${t("rehearsals.compare")}
      </button>`}
    </div>
    ${form === "run" && html`<${RehearsalForm} names=${names} started=${started} close=${close} />`}
    ${form === "talk" && html`<${ConversationForm} close=${close} />`}
    ${form === "import" && html`<${ImportForm} close=${close} />`}
    ${!batches.length && !form && html`<p class="empty">${t("rehearsals.none")}</p>`}
    ${batches.length > 1 && html`<p class="about">${t("rehearsals.choose")}</p>`}
    <ul class="batches">
      ${batches.map(
        (batch) => html`<${Row}
          key=${batch.name}
          batch=${batch}
          place=${chosen.indexOf(batch.name)}
          choose=${batches.length > 1 && (() => pick(batch.name))}
        />`,
      )}
    </ul>`;
}

/**
 * The chosen names with this one, or without it; of three the first one is left out.
 *
 * @param {string[]} chosen
 * @param {string} name
 */
function toggled(chosen, name) {
  return chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name].slice(-2);
}

/** @param {{ batch: Batch, place: number, choose: false | (() => void) }} props */
function Row({ batch, place, choose }) {
  return html`<li>
    <a href=${pageAddress("rehearsals", batch.name)}>
      <span><b>${batch.name}</b> <span class="about">${batch.workflow}</span></span>
      <${Ended} isRunning=${batch.running} text=${endedText(batch)} />
      ${batch.report?.summary.success && html`<${Rate} rate=${batch.report.summary.success} />`}
    </a>
    ${choose &&
    html`<label class="batch-choice">
      <input
        type="checkbox"
        checked=${place >= 0}
        onChange=${choose}
        aria-label=${t("rehearsals.pick", { name: batch.name })}
      />
      ${place >= 0 && html`<span class="about">${"AB"[place]}</span>`}
    </label>`}
  </li>`;
}

/** @param {Batch} batch */
const endedText = (batch) => t("rehearsals.ended", { done: batch.ended, n: batch.conversations });

/** @param {{ name: string }} props */
function Whole({ name }) {
  const loaded = useLoaded(() => get(addressOf(name)), [name]);
  useRunning(Boolean(loaded.value?.running), loaded.reload);
  return html`<${Back} label=${t("rehearsals.back")} page="rehearsals" />
    <h3>${name}</h3>
    ${loaded.value
      ? html`<${Shown} batch=${loaded.value} changed=${loaded.reload} />`
      : html`<${Pending} loaded=${loaded} />`}`;
}

/** @param {{ batch: Batch, changed: () => void }} props */
function Shown({ batch, changed }) {
  const stop = async () => {
    await attempt(() => send("POST", `${addressOf(batch.name)}/stop`));
    changed();
  };
  return html`${batch.running &&
    html`<${Progress}
      done=${batch.ended}
      total=${batch.conversations}
      label=${t("rehearsals.progress")}
      text=${endedText(batch)}
      stop=${stop}
    />`}
    ${batch.error && html`<p class="warning" role="alert">${batch.error}</p>`}
    ${batch.report
      ? html`<${Report} report=${batch.report} batch=${batch.name} />`
      : !batch.running && html`<p class="empty">${t("rehearsals.noReport")}</p>`}`;
}
