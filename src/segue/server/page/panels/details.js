// @ts-check
/** A task at a glance: its ids, who answered it how, and what it cost. */
import { useRead } from "../state/signals.js";
import { shownTask, turnOf } from "../state/store.js";
import { moment, t, textOf } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { SaveTest } from "./parts/save-test.js";
import { costText } from "./parts/text.js";

/** @import { Turn } from "../state/types.js" */

/** @param {{ store: import("../state/store.js").Store }} _ */
export default function Panel(_) {
  const shown = useRead(() => turnOf(shownTask())?.value);
  if (!shown) return html`<p class="empty">${t("inspector.noTask")}</p>`;
  return html`<dl class="facts">
      ${facts(shown).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
    </dl>
    <${SaveTest} key=${shown.session} session=${shown.session} />`;
}

/**
 * @param {Turn} shown
 * @returns {[string, string][]}
 */
function facts(shown) {
  const { usage } = shown;
  /** @type {[string, string | number | undefined][]} */
  const found = [
    [t("details.status"), textOf(`status.${shown.status}`, shown.status)],
    [t("details.agent"), shown.agent],
    [t("details.mode"), textOf(`mode.${shown.mode}`, shown.mode)],
    [t("details.model"), shown.model],
    [t("details.started"), moment(shown.createdAt)],
    [t("details.calls"), usage?.calls],
    [t("details.tokens"), usage ? t("details.tokensValue", { input: usage.input, output: usage.output }) : ""],
    [t("details.cost"), usage ? costText(usage.cost, usage.currency) : ""],
    [t("details.task"), shown.id],
    [t("details.session"), shown.session],
  ];
  return found.flatMap(([name, value]) => (value === undefined || value === "" ? [] : [[name, String(value)]]));
}
