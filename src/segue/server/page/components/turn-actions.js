// @ts-check
/** What a person does with an answer: copy it, rate it, look inside. */
import { rate } from "../state/task-actions.js";
import { CONVERSATION } from "../state/participants.js";
import { costText } from "../panels/parts/text.js";
import { openPanel, store } from "../state/store.js";
import { OPEN } from "../state/turn.js";
import { duration, moment, t, textOf } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { didRun, namesOf } from "./call-names.js";
import { copy } from "./copy.js";
import { IconButton } from "./icon-button.js";
import { lazy } from "./lazy.js";

/** @import { Turn } from "../state/types.js" */
/** @typedef {import("../state/store.js").TurnSignal} TurnSignal */

const BranchForm = lazy(async () => (await import("./branch-form.js")).BranchForm);

/** @param {{ turn: TurnSignal, shown: Turn }} props */
export function TurnActions({ turn, shown }) {
  const mode = textOf(`mode.${shown.mode}`, shown.mode);
  const took = shown.status === "done" ? duration(Math.max(0, shown.updatedAt - shown.createdAt - shown.idle)) : "";
  const tools = namesOf(shown.calls.filter(didRun));
  const about = [shown.agent, mode, tools, took, ...used(shown), moment(shown.createdAt)].filter(Boolean).join(" · ");
  const [isBranching, setBranching] = useState(false);
  const canBranch = !OPEN.has(shown.status) && shown.mode !== CONVERSATION;
  return html`<div class="turn-actions">
    ${shown.answer && html`<${IconButton} icon="copy" label=${t("turn.copy")} onClick=${() => copy(shown.answer)} />`}
    ${canBranch &&
    html`<${IconButton} icon="retry" label=${t("branch.regenerate")} onClick=${() => setBranching(true)} />`}
    ${shown.status === "done" && html`<${Thumbs} turn=${turn} rating=${shown.rating} />`}
    <${IconButton} icon="info" label=${t("turn.inspect")} onClick=${() => inspect(shown.id)} />
    <${IconButton} icon="fork" label=${t("turn.fork")} onClick=${() => openPanel("timeline")} />
    <span class="about">${about}</span>
  </div>
  ${isBranching && html`<${BranchForm} task=${shown.id} message=${null} close=${() => setBranching(false)} />`}`;
}

/** The tokens and the cost, where they are known. @param {Turn} shown */
function used({ usage }) {
  if (!usage) return [];
  const tokens = usage.input + usage.output;
  const count = tokens.toLocaleString(document.documentElement.lang);
  return [tokens ? t("turn.tokens", { n: count }) : "", costText(usage.cost, usage.currency, "")];
}

/** The ratings that the thumbs give, on the scale of 1 to 5. */
const THUMBS = /** @type {const} */ ([
  ["up", 5],
  ["down", 1],
]);

/** @param {{ turn: TurnSignal, rating: number | null }} props */
function Thumbs({ turn, rating }) {
  const shown = { up: (rating ?? 3) > 3, down: (rating ?? 3) < 3 };
  return html`<div class="thumbs" role="group" aria-label=${t("turn.rate")}>
    ${THUMBS.map(
      ([way, given]) => html`<${IconButton} key=${way} icon="thumb" class=${way} label=${t(`turn.${way}`)}
        pressed=${shown[way]} onClick=${() => rate(turn, given)} />`,
    )}
  </div>`;
}

/** @param {string} taskId */
function inspect(taskId) {
  store.focus.value = taskId;
  openPanel();
}
