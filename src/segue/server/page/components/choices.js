// @ts-check
/** Who answers the next message, and how. */
import { prefer } from "../state/sessions.js";
import { useRead } from "../state/signals.js";
import { chosenAgent, isPlanned, nextMode, store, toast, usualMode } from "../state/store.js";
import { t, textOf } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";
import { Menu } from "./menu.js";

/** @import { MenuItem } from "./menu.js" */

/** The modes that people choose most, first. */
const ORDER = ["auto", "direct", "react", "plan", "plan_react"];

export function AgentMenu() {
  const agents = useRead(() => store.agents.value);
  const chosen = useRead(() => store.agent.value);
  const items = agents.map(({ agent_id, description }) => ({
    key: agent_id,
    label: agent_id,
    about: description,
    checked: agent_id === chosen,
    act: () => {
      store.agent.value = agent_id;
    },
  }));
  const label = `${t("composer.agent")}: ${chosen}`;
  return html`<${Menu} up class="choice-menu" label=${label} items=${items} disabled=${!agents.length}
    button=${html`<${Icon} name="agent" /><span>${chosen}</span><${Icon} name="chevron" />`} />`;
}

export function ModeMenu() {
  const modes = useRead(() => chosenAgent()?.modes ?? []);
  const chosen = useRead(nextMode);
  const usual = useRead(usualMode);
  const isReviewed = useRead(() => store.reviewPlan.value && isPlanned());
  const disabled = !useRead(isPlanned);
  const rank = (/** @type {string} */ mode) => (ORDER.includes(mode) ? ORDER.indexOf(mode) : ORDER.length);
  /** @type {MenuItem[]} */
  const items = modes.toSorted((a, b) => rank(a) - rank(b)).map((mode) => ({
    key: mode,
    label: nameOf(mode),
    about: textOf(`modeAbout.${mode}`, t("modeAbout.other")),
    checked: mode === chosen,
    act: () => {
      store.mode.value = mode;
    },
  }));
  const act = () => void (store.reviewPlan.value = !isReviewed);
  items.push({ key: "review:", label: t("composer.reviewPlan"), checked: isReviewed, separate: true, disabled, act });
  if (chosen !== usual) items.push(makeDefault(chosen));
  const label = `${t("composer.mode")}: ${nameOf(chosen)}`;
  return html`<${Menu} up class="choice-menu" label=${label} items=${items} disabled=${!modes.length}
    button=${html`<${Icon} name="mode" /><span>${nameOf(chosen)}</span><${Icon} name="chevron" />`} />`;
}

/** @param {string} mode */
function nameOf(mode) {
  return textOf(`mode.${mode}`, mode);
}

/**
 * @param {string} mode
 * @returns {MenuItem}
 */
function makeDefault(mode) {
  return {
    key: "default:",
    label: t("composer.makeDefault"),
    icon: "star",
    separate: true,
    act: async () => {
      if (await prefer(mode)) toast(t("composer.prefers", { mode: nameOf(mode) }), "note");
    },
  };
}
