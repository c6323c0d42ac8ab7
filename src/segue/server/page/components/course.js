// @ts-check
/** The course of a turn: thoughts, calls, steering messages and questions, in the order in which they came. */
import { ACTIVE } from "../state/turn.js";
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Activity } from "./activity.js";
import { lazy } from "./lazy.js";
import { Thoughts } from "./thoughts.js";

/** @import { Entry, Turn } from "../state/types.js" */
/** @typedef {import("../state/store.js").TurnSignal} TurnSignal */

const Asked = lazy(async () => (await import("./asked.js")).Asked);

/** @param {{ turn: TurnSignal, shown: Turn }} props */
export function Course({ turn, shown }) {
  const { entries, thinking, calls, steps } = shown;
  const isThinking = ACTIVE.has(shown.status) && !shown.draft && !shown.answer;
  const end = { calls: calls.length, thinking: thinking.length };
  return html`${[...entries, null].map((entry, place) => {
    const [from, until] = [entries[place - 1] ?? { calls: 0, thinking: 0 }, entry ?? end];
    const own = calls.slice(from.calls, until.calls);
    const part = place ? { steps: [], calls: steps.length ? [] : own } : { steps, calls: steps.length ? calls : own };
    return html`<${Thoughts} key=${`thoughts ${place}`} text=${thinking.slice(from.thinking, until.thinking)}
        isThinking=${isThinking && !entry} />
      <${Activity} key=${`calls ${place}`} shown=${{ ...shown, ...part }} />
      ${entry && html`<${Said} key=${`entry ${place}`} turn=${turn} shown=${shown} entry=${entry} />`}`;
  })}`;
}

/** @param {{ turn: TurnSignal, shown: Turn, entry: Entry }} props */
function Said({ turn, shown, entry }) {
  if (entry.asked) return html`<${Asked} turn=${turn} shown=${shown} id=${entry.asked} />`;
  return html`<${Note} text=${entry.note} isPending=${false} />`;
}

/** A message to a task that runs. @param {{ text: string, isPending: boolean }} props */
export function Note({ text, isPending }) {
  return html`<div class="said note" data-pending=${isPending}>
    <span class="about">${t("turn.steered")}</span><p>${text}</p>
  </div>`;
}
