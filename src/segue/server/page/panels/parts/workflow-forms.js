// @ts-check
/** What is done with workflows beside batches: a conversation about some of them, and the import of others. */
import { get, send } from "../../state/api.js";
import { save } from "../../state/export.js";
import { attempt, sentence } from "../../state/failures.js";
import { goTo } from "../../state/router.js";
import { language, t, textOf } from "../../texts/index.js";
import { html, useState } from "../../vendor/htm-preact.js";
import { Pending, useLoaded } from "./loaded.js";
import { Choice } from "./runs.js";

/** @typedef {{ name: string, description: string, language: string }} Workflow */

const USERS = ["rule_user", "input_user"];

/** @param {{ close: () => void }} props */
export function ConversationForm({ close }) {
  const loaded = useLoaded(() => get("/api/workflows"), []);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  return html`<${Fields} workflows=${loaded.value.items} close=${close} />`;
}

/** @param {{ workflows: Workflow[], close: () => void }} props */
function Fields({ workflows, close }) {
  const [chosen, choose] = useState(() => workflows.filter((each) => each.language === language.value).slice(-1));
  const [user, setUser] = useState("rule_user");
  const [isBusy, setBusy] = useState(false);
  const toggle = (/** @type {Workflow} */ one) =>
    choose(chosen.includes(one) ? chosen.filter((each) => each !== one) : [...chosen, one]);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    const [workflow, ...others] = chosen.map(({ name }) => name);
    const body = { workflow, workflows: others, user_mode: user, session_id: null };
    const made = await attempt(() => send("POST", "/api/conversations", body));
    setBusy(false);
    if (made) goTo(made.session_id);
  };
  return html`<form class="form" aria-label=${t("workflows.talk")} onSubmit=${submit}>
    <fieldset class="scenarios">
      <legend>${t("workflows.which")}</legend>
      ${workflows.map(
        (each) => html`<label key=${each.name} class="check" title=${each.description}>
          <input type="checkbox" checked=${chosen.includes(each)} onChange=${() => toggle(each)} />
          <span>${each.name}</span>
        </label>`,
      )}
    </fieldset>
    <p class="about">${t("workflows.several")}</p>
    <${Choice} label=${t("rehearsal.user")} value=${user} set=${setUser}
      values=${USERS.map((each) => [each, textOf(`rehearsal.${each}`, each)])} />
    <div class="decisions">
      <button type="submit" class="primary" disabled=${isBusy || !chosen.length}>${t("workflows.start")}</button>
      <button type="button" onClick=${close}>${t("dialog.cancel")}</button>
    </div>
  </form>`;
}

/** @param {{ close: () => void }} props */
export function ImportForm({ close }) {
  const [found, setFound] = useState(/** @type {{ text: string, warnings: string[] } | null} */ (null));
  const [name, setName] = useState("");
  const [problem, setProblem] = useState("");
  const read = async (/** @type {any} */ event) => {
    const [file] = event.target.files;
    if (!file) return;
    setName(file.name.replace(/\.\w+$/, ""));
    setFound(null);
    try {
      setFound(await send("POST", "/api/workflows/import", { name: file.name, text: await file.text() }));
      setProblem("");
    } catch (error) {
      setProblem(sentence(error));
    }
  };
  return html`<div class="form" role="group" aria-label=${t("workflows.import")}>
    <label>
      <span>${t("workflows.file")}</span>
      <input type="file" accept=".yaml,.yml,.mmd" onChange=${read} />
    </label>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${found?.warnings.map((each) => html`<p key=${each} class="warning">${each}</p>`)}
    ${found &&
    html`<p class="about">${t("workflows.converted")}</p>
      <div class="text"><pre tabindex="0">${found.text}</pre></div>`}
    <div class="decisions">
      ${found &&
      html`<button type="button" class="primary"
        onClick=${() => save(`${name}.workflow.yaml`, "application/yaml", found.text)}>
        ${t("workflows.download")}
      </button>`}
      <button type="button" onClick=${close}>${t("dialog.close")}</button>
    </div>
  </div>`;
}
