// @ts-check
/** A new backtest: which recorded sessions, which agent, and what is different about it. */
import { get, send } from "../../state/api.js";
import { attempt } from "../../state/failures.js";
import { store } from "../../state/store.js";
import { t } from "../../texts/index.js";
import { html, useState } from "../../vendor/htm-preact.js";
import { Pending, useLoaded } from "./loaded.js";
import { Choice, newName } from "./runs.js";

const PERIODS = /** @type {const} */ (["1d", "7d", "30d", "all"]);
/** The choice of a model that is not in the list. */
const OTHER = "other";

/** @param {{ names: string[], started: (name: string) => void, close: () => void }} props */
export function BacktestForm({ names, started, close }) {
  const loaded = useLoaded(() => get("/api/models"), []);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  /** @type {string[]} */
  const models = loaded.value.items.map((/** @type {{ model: string }} */ each) => each.model);
  return html`<${Fields} models=${models} names=${names} started=${started} close=${close} />`;
}

/** @param {string} name @param {string} agent */
const newForm = (name, agent) => ({
  ...{ name, agent, period: "7d", sample: "50", prompt: "", model: "", other: "" },
  ...{ steps: false, baseline: false, confirm: false },
});

/** @param {ReturnType<typeof newForm>} form */
function bodyOf({ name, agent, period, sample, prompt, model, other, steps, baseline, confirm }) {
  const named = model === OTHER ? other.trim() : model;
  const changed = { agent_id: agent, ...(prompt.trim() && { prompt }), ...(named && { model: named }) };
  return {
    ...{ name, since: period === "all" ? "" : period, sample: Number(sample), agents: [changed] },
    ...(steps && { steps }),
    ...(baseline && { baseline }),
    ...(confirm && { confirm }),
  };
}

/**
 * @param {{ models: string[], names: string[], started: (name: string) => void, close: () => void }} props
 */
function Fields({ models, names, started, close }) {
  const agents = store.agents.value.map(({ agent_id: id }) => id);
  const usual = store.agents.value.find((agent) => agent.default)?.agent_id ?? "";
  const [form, setForm] = useState(() => newForm(newName("backtest", names), usual));
  const [isBusy, setBusy] = useState(false);
  const [estimate, setEstimate] = useState("");
  const set = (/** @type {object} */ change) => void (setForm({ ...form, ...change }), setEstimate(""));
  const input = (/** @type {string} */ field) => (/** @type {any} */ event) => set({ [field]: event.target.value });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    if (form.confirm && !estimate) {
      const cost = await attempt(() => send("POST", "/api/backtests/estimate", bodyOf(form)));
      if (cost) setEstimate(cost.text);
    } else if (await attempt(() => send("POST", "/api/backtests", bodyOf(form)))) started(form.name);
    setBusy(false);
  };
  return html`<form class="form" aria-label=${t("backtests.run")} onSubmit=${submit}>
    <label>
      <span>${t("rehearsal.name")}</span>
      <input required pattern="[\\w\\-]+" maxlength="60" value=${form.name} onInput=${input("name")} />
    </label>
    <${Choice} label=${t("backtest.period")} value=${form.period}
      values=${PERIODS.map((period) => [period, t(`period.${period}`)])}
      set=${(/** @type {string} */ period) => set({ period })} />
    <label>
      <span>${t("backtest.sample")}</span>
      <input type="number" required min="1" max="1000" value=${form.sample} onInput=${input("sample")} />
    </label>
    <${Choice} label=${t("rehearsal.bot")} value=${form.agent} values=${agents.map((id) => [id, id])}
      set=${(/** @type {string} */ agent) => set({ agent })} />
    <label>
      <span>${t("backtest.prompt")}</span>
      <textarea rows="4" value=${form.prompt} placeholder=${t("backtest.promptKept")} onInput=${input("prompt")} />
    </label>
    <${Choice} label=${t("backtest.model")} value=${form.model}
      values=${[["", t("backtest.modelKept")], ...models.map((each) => [each, each]), [OTHER, t("backtest.other")]]}
      set=${(/** @type {string} */ model) => set({ model })} />
    ${form.model === OTHER &&
    html`<label>
      <span>${t("backtest.otherName")}</span>
      <input required placeholder="openai:gpt-4.1-mini" value=${form.other} onInput=${input("other")} />
    </label>`}
    <${Check} label=${t("backtest.steps")} value=${form.steps}
      set=${(/** @type {boolean} */ steps) => set({ steps })} />
    <${Check} label=${t("backtest.baseline")} value=${form.baseline}
      set=${(/** @type {boolean} */ baseline) => set({ baseline })} />
    <${Check} label=${t("backtest.confirm")} value=${form.confirm}
      set=${(/** @type {boolean} */ confirm) => set({ confirm })} />
    ${estimate && html`<p role="status">${estimate}</p>`}
    <div class="decisions">
      <button type="submit" class="primary" disabled=${isBusy}>
        ${t(form.confirm && !estimate ? "backtest.estimate" : "rehearsal.start")}
      </button>
      <button type="button" onClick=${close}>${t("dialog.cancel")}</button>
    </div>
  </form>`;
}

/** @param {{ label: string, value: boolean, set: (value: boolean) => void }} props */
function Check({ label, value, set }) {
  return html`<label class="check">
    <input type="checkbox" checked=${value} onChange=${(/** @type {any} */ event) => set(event.target.checked)} />
    <span>${label}</span>
  </label>`;
}
