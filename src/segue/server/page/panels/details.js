// @ts-check
/** A task at a glance: its ids, who answered it how, and what it cost. */
import { Icon } from "../components/icon.js";
import { useRead } from "../state/signals.js";
import { shownTask, turnOf } from "../state/store.js";
import { rate } from "../state/task-actions.js";
import { moment, t, textOf } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { SaveTest } from "./parts/save-test.js";
import { costText } from "./parts/text.js";

/** @import { Turn } from "../state/types.js" */
/** @typedef {import("../state/store.js").TurnSignal} TurnSignal */

export default function Panel() {
  const turn = useRead(() => turnOf(shownTask()));
  const shown = useRead(() => turn?.value, [turn]);
  if (!turn || !shown) return html`<p class="empty">${t("inspector.noTask")}</p>`;
  return html`<dl class="facts">
      ${facts(shown).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
    </dl>
    ${shown.status === "done" && html`<${Stars} turn=${turn} rating=${shown.rating} />`}
    <${SaveTest} key=${shown.session} session=${shown.session} />`;
}

/** The answer's rating, finer than its thumbs. @param {{ turn: TurnSignal, rating: number | null }} props */
function Stars({ turn, rating }) {
  return html`<h3>${t("turn.rate")}</h3>
    <div class="stars" role="group" aria-label=${t("turn.rate")}>
      ${[1, 2, 3, 4, 5].map(
        (n) => html`<button type="button" key=${n} aria-label=${t("ratings.rateN", { n })}
          title=${t("ratings.rateN", { n })} aria-pressed=${rating === n} data-on=${n <= (rating ?? 0)}
          onClick=${() => rate(turn, n)}>
          <${Icon} name="star" />
        </button>`,
      )}
    </div>`;
}

/**
 * @param {Turn} shown
 * @returns {[string, string][]}
 */
function facts(shown) {
  const { usage } = shown;
  const tokens = usage ? t("details.tokensValue", { input: usage.input, output: usage.output }) : "";
  /** @type {[string, string | number | undefined][]} */
  const found = [
    [t("details.status"), textOf(`status.${shown.status}`, shown.status)],
    [t("details.agent"), shown.agent],
    [t("details.mode"), textOf(`mode.${shown.mode}`, shown.mode)],
    [t("details.model"), shown.model],
    [t("details.started"), moment(shown.createdAt)],
    [t("details.calls"), usage?.calls],
    [t("details.tokens"), usage?.input || usage?.output ? tokens : ""],
    [t("details.cost"), usage ? costText(usage.cost, usage.currency) : ""],
    [t("details.task"), shown.id],
    [t("details.session"), shown.session],
  ];
  return found.flatMap(([name, value]) => (value === undefined || value === "" ? [] : [[name, String(value)]]));
}
