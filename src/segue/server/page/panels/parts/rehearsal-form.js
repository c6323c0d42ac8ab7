// @ts-check
/** A new batch of rehearsals: which workflow and scenarios, how many conversations, and which agent. */
import { get, send } from "../../state/api.js";
import { attempt } from "../../state/failures.js";
import { store } from "../../state/store.js";
import { language, t, textOf } from "../../texts/index.js";
import { html, useState } from "../../vendor/htm-preact.js";
import { Pending, useLoaded } from "./loaded.js";
import { Choice, newName } from "./runs.js";

/** @typedef {{ name: string, description: string, language: string, scenarios: string[] }} Workflow */

/** Modes that can be the bot of a conversation. */
const MODES = ["react", "plan", "plan_react", "direct"];
const USERS = ["rule_user", "llm_profile"];

/** @param {{ names: string[], started: (batch: any) => void, close: () => void }} props */
export function RehearsalForm({ names, started, close }) {
  const loaded = useLoaded(() => get("/api/workflows"), []);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  return html`<${Fields} workflows=${loaded.value.items} names=${names} started=${started} close=${close} />`;
}

/** One in the page's language, if there is one. @param {Workflow[]} workflows */
function usual(workflows) {
  return workflows.findLast((each) => each.language === language.value) ?? workflows[0];
}

/** @param {string} name @param {string} workflow */
function newForm(name, workflow) {
  const scenarios = /** @type {string[]} */ ([]);
  return { name, workflow, scenarios, n: "5", bot: "rule_bot", mode: "react", user: "rule_user" };
}

/** @param {{ workflows: Workflow[], names: string[], started: (batch: any) => void, close: () => void }} props */
function Fields({ workflows, names, started, close }) {
  const [form, setForm] = useState(() => newForm(newName("batch", names), usual(workflows).name));
  const [isBusy, setBusy] = useState(false);
  const workflow = workflows.find(({ name }) => name === form.workflow) ?? workflows[0];
  const set = (/** @type {object} */ change) => setForm({ ...form, ...change });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    const batch = await attempt(() => send("POST", "/api/rehearsals", bodyOf(form)));
    setBusy(false);
    if (batch) started(batch);
  };
  const bots = [["rule_bot", t("rehearsal.rule_bot")], ...store.agents.value.map(({ agent_id: id }) => [id, id])];
  return html`<form class="form" aria-label=${t("rehearsals.run")} onSubmit=${submit}>
    <label>
      <span>${t("rehearsal.name")}</span>
      <input required pattern="[\\w\\-]+" maxlength="60" value=${form.name}
        onInput=${(/** @type {any} */ event) => set({ name: event.target.value })} />
    </label>
    <${Choice} label=${t("rehearsal.workflow")} value=${form.workflow}
      values=${workflows.map(({ name }) => [name, name])}
      set=${(/** @type {string} */ value) => set({ workflow: value, scenarios: [] })} />
    <p class="about">${workflow.description}</p>
    <${Scenarios} all=${workflow.scenarios} chosen=${form.scenarios} set=${set} />
    <label>
      <span>${t("rehearsal.count")}</span>
      <input type="number" required min="1" max="200" value=${form.n}
        onInput=${(/** @type {any} */ event) => set({ n: event.target.value })} />
    </label>
    <${Choice} label=${t("rehearsal.bot")} value=${form.bot} values=${bots}
      set=${(/** @type {string} */ bot) => set({ bot })} />
    ${form.bot !== "rule_bot" &&
    html`<${Choice} label=${t("composer.mode")} value=${form.mode} values=${named(MODES, "mode")}
      set=${(/** @type {string} */ mode) => set({ mode })} />`}
    <${Choice} label=${t("rehearsal.user")} value=${form.user} values=${named(USERS, "rehearsal")}
      set=${(/** @type {string} */ user) => set({ user })} />
    <div class="decisions">
      <button type="submit" class="primary" disabled=${isBusy}>${t("rehearsal.start")}</button>
      <button type="button" onClick=${close}>${t("dialog.cancel")}</button>
    </div>
  </form>`;
}

/** The keys with their texts. @param {string[]} keys @param {"mode" | "rehearsal"} kind */
function named(keys, kind) {
  return keys.map((key) => [key, kind === "mode" ? textOf(`mode.${key}`, key) : textOf(`rehearsal.${key}`, key)]);
}

/** @param {ReturnType<typeof newForm>} form */
function bodyOf({ name, workflow, scenarios, n, bot, mode, user }) {
  const who = bot === "rule_bot" ? { bot_mode: bot } : { bot_mode: `segue:${mode}`, bot_agent: bot };
  return { name, workflow, scenarios, n: Number(n), user_mode: user, ...who };
}

/** @param {{ all: string[], chosen: string[], set: (change: object) => void }} props */
function Scenarios({ all, chosen, set }) {
  const toggle = (/** @type {string} */ name) =>
    set({ scenarios: chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name] });
  return html`<fieldset class="scenarios">
    <legend>${t(chosen.length ? "rehearsal.scenarios" : "rehearsal.allScenarios")}</legend>
    ${all.map(
      (name) => html`<label key=${name} class="check">
        <input type="checkbox" checked=${chosen.includes(name)} onChange=${() => toggle(name)} /><span>${name}</span>
      </label>`,
    )}
  </fieldset>`;
}
