// @ts-check
/** The course of a turn: thoughts, calls, the plan, steering messages and questions, in the order of their coming. */
import { ACTIVE } from "../state/turn.js";
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Activity } from "./activity.js";
import { lazy } from "./lazy.js";
import { Thoughts } from "./thoughts.js";

/** @import { Entry, Turn } from "../state/types.js" */
/** @typedef {import("../state/store.js").TurnSignal} TurnSignal */

/** @type {Entry} */
const START = { note: "", asked: "", calls: 0, thinking: 0 };
const Asked = lazy(async () => (await import("./asked.js")).Asked);

/** @param {{ turn: TurnSignal, shown: Turn }} props */
export function Course({ turn, shown }) {
  const { thinking, calls, steps } = shown;
  const isThinking = ACTIVE.has(shown.status) && !shown.draft && !shown.answer;
  const end = { calls: calls.length, thinking: thinking.length };
  const isPlaced = !steps.length || shown.entries.some(({ plan }) => plan);
  const entries = isPlaced ? shown.entries : [{ ...START, plan: true }, ...shown.entries];
  const planned = entries.find(({ plan }) => plan)?.calls ?? end.calls; // the plan has the calls that came after it
  return html`${[...entries, null].map((entry, place) => {
    const [from, until] = [entries[place - 1] ?? START, entry ?? end];
    const own = calls.slice(from.calls, Math.min(until.calls, planned));
    return html`<${Thoughts} key=${`thoughts ${place}`} text=${thinking.slice(from.thinking, until.thinking)}
        isThinking=${isThinking && !entry} />
      <${Activity} key=${`calls ${place}`} shown=${{ ...shown, steps: [], calls: own }} />
      ${entry?.plan && html`<${Activity} key="plan" shown=${{ ...shown, calls: calls.slice(planned) }} />`}
      ${entry && html`<${Said} key=${`entry ${place}`} turn=${turn} shown=${shown} entry=${entry} />`}`;
  })}`;
}

/** @param {{ turn: TurnSignal, shown: Turn, entry: Entry }} props */
function Said({ turn, shown, entry }) {
  if (entry.asked) return html`<${Asked} turn=${turn} shown=${shown} id=${entry.asked} />`;
  return entry.note && html`<${Note} text=${entry.note} isPending=${false} />`;
}

/** A message to a task that runs. @param {{ text: string, isPending: boolean }} props */
export function Note({ text, isPending }) {
  return html`<div class="said note" data-pending=${isPending}>
    <span class="about">${t("turn.steered")}</span><p>${text}</p>
  </div>`;
}
