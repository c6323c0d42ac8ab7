// @ts-check
/** The page of a shared conversation: what was said, and nothing to do with it. */
import { Answer } from "../components/answer.js";
import { Icon, showIcons } from "../components/icon.js";
import { get } from "../state/api.js";
import { sentence } from "../state/failures.js";
import { remembered } from "../state/storage.js";
import { language, loadPanelTexts, moment, t, textOf } from "../texts/index.js";
import { html, render, useEffect, useState } from "../vendor/htm-preact.js";

/** @typedef {{ task_id: string, message: string, files: string[], agent_id: string, status: string, answer: string,
 *   html: string, created_at: number }} SharedTurn */
/** @typedef {{ title: string, expires_at: number, items: SharedTurn[], next: string | null }} Shared */

const { value: theme } = remembered("theme", "");
if (theme) document.documentElement.dataset.theme = theme;

/** @param {string | null} before */
function load(before) {
  const token = encodeURIComponent(location.hash.slice(1));
  return get(`/api/shared/${token}${before ? `?before=${encodeURIComponent(before)}` : ""}`);
}

/** A simulated conversation has none of its own. @param {Shared} shared */
const titleOf = ({ title }) => title || t("conversation.label");

function SharedConversation() {
  const [shared, setShared] = useState(/** @type {Shared | null} */ (null));
  const [problem, setProblem] = useState("");
  const fail = (/** @type {unknown} */ error) => setProblem(sentence(error));
  useEffect(() => {
    load(null).then(setShared, fail);
  }, []);
  useEffect(() => void (shared && (document.title = `${titleOf(shared)} · Segue`)), [shared]);
  if (problem) {
    return html`<main class="empty" role="alert">
      <p>${problem}</p>
      <button type="button" onClick=${() => location.reload()}>${t("turn.retry")}</button>
    </main>`;
  }
  if (!shared) return html`<main aria-busy="true"><div class="skeleton"></div></main>`;
  const add = (/** @type {Shared} */ { items, next }) =>
    setShared({ ...shared, items: [...items, ...shared.items], next });
  const showOlder = () => load(shared.next).then(add, fail);
  return html`<main class="column">
    <header class="shared-head">
      <h1>${titleOf(shared)}</h1>
      <p class="about">${t("share.readOnly", { until: moment(shared.expires_at) })}</p>
    </header>
    ${shared.next &&
    html`<button type="button" class="quiet older" onClick=${showOlder}>${t("conversation.older")}</button>`}
    ${shared.items.map((turn) => html`<${TurnView} key=${turn.task_id} turn=${turn} />`)}
  </main>`;
}

/** @param {{ turn: SharedTurn }} props */
function TurnView({ turn }) {
  const { message, files, answer, status } = turn;
  const about = [turn.agent_id, moment(turn.created_at)].join(" · ");
  return html`<article class="turn">
    ${message &&
    html`<div class="said">
      <h2 class="unseen">${t("turn.you")}</h2>
      <p>${message}</p>
      ${files.map((name) => html`<p key=${name} class="about"><${Icon} name="file" /> ${name}</p>`)}
    </div>`}
    <div class="reply">
      <h2 class="unseen">${t("turn.agent")}</h2>
      ${answer
        ? html`<${Answer} shown=${{ ...turn, draft: "" }} />`
        : html`<p class="about">${textOf(`status.${status}`, status)}</p>`}
      <p class="about">${about}</p>
    </div>
  </article>`;
}

await loadPanelTexts();
document.documentElement.lang = language.value === "zh" ? "zh-CN" : "en";
render(html`<${SharedConversation} />`, /** @type {HTMLElement} */ (document.getElementById("shared")));
void showIcons();
window.addEventListener("hashchange", () => location.reload());
