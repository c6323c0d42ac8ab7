// @ts-check
/** The page of the HTTP API, from the service's OpenAPI document. */
import { remembered } from "../state/storage.js";
import { loadPanelTexts, t } from "../texts/index.js";
import { html, render, useEffect, useState } from "../vendor/htm-preact.js";
import { OperationView } from "./operation.js";
import { Prose } from "./prose.js";
import { groupsOf } from "./spec.js";

/** @import { Group, Spec } from "./spec.js" */

const { value: theme } = remembered("theme", "");
if (theme) document.documentElement.dataset.theme = theme;

function Docs() {
  const [spec, setSpec] = useState(/** @type {Spec | null} */ (null));
  const [isFailed, setFailed] = useState(false);
  const [search, setSearch] = useState("");
  const load = () => {
    setFailed(false);
    fetch("openapi.json")
      .then((response) => (response.ok ? response.json() : Promise.reject(response.status)))
      .then(setSpec, () => setFailed(true));
  };
  useEffect(load, []);
  useEffect(() => void (spec && document.getElementById(location.hash.slice(1))?.scrollIntoView()), [spec]);
  if (isFailed) {
    return html`<main class="empty" role="alert">
      <p>${t("error.unreachable")}</p>
      <button type="button" onClick=${load}>${t("turn.retry")}</button>
    </main>`;
  }
  if (!spec) return html`<main aria-busy="true"><div class="skeleton"></div></main>`;
  const groups = groupsOf(spec, search.trim().toLowerCase());
  return html`<${Index} groups=${groups} search=${search} setSearch=${setSearch} />
    <main>
      <h1>${spec.info.title} <span class="about">HTTP API</span></h1>
      <p><${Prose} text=${spec.info.description} /></p>
      <p class="about">${t("docs.key")} <code>Authorization: Bearer …</code></p>
      ${groups.length === 0 && html`<p class="empty">${t("docs.none")}</p>`}
      ${groups.map((group) => html`<${Section} key=${group.tag} group=${group} spec=${spec} />`)}
    </main>`;
}

/** @param {{ groups: Group[], search: string, setSearch: (text: string) => void }} props */
function Index({ groups, search, setSearch }) {
  return html`<nav aria-label=${t("docs.index")}>
    <a class="home" href="./"><img src="page/icon.svg" alt="" width="26" height="26" />Segue</a>
    <input
      type="search"
      value=${search}
      aria-label=${t("docs.search")}
      placeholder=${t("docs.search")}
      onInput=${(/** @type {InputEvent} */ event) => setSearch(/** @type {HTMLInputElement} */ (event.target).value)}
    />
    ${groups.map(
      ({ tag, operations }) => html`<section key=${tag}>
        <h2>${tag}</h2>
        <ul>
          ${operations.map(
            (each) => html`<li key=${each.id}>
              <a href=${`#${each.id}`}>
                <span class="method" data-method=${each.method}>${each.method}</span>${each.title}
              </a>
            </li>`,
          )}
        </ul>
      </section>`,
    )}
  </nav>`;
}

/** @param {{ group: Group, spec: Spec }} props */
function Section({ group, spec }) {
  return html`<section aria-label=${group.tag}>
    <h2>${group.tag}</h2>
    ${group.operations.map((each) => html`<${OperationView} key=${each.id} operation=${each} spec=${spec} />`)}
  </section>`;
}

await loadPanelTexts();
render(html`<${Docs} />`, /** @type {HTMLElement} */ (document.getElementById("docs")));
