// @ts-check
/** Where the text of the search was said, below the sessions that have it in their title. */
import { sessionAddress } from "../state/router.js";
import { showHit, useHits } from "../state/search.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { loadMoreTexts, moment, t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { closeDrawer } from "./sidebar.js";

/** @import { Hit } from "../state/types.js" */

await loadMoreTexts();

export function SearchHits() {
  const query = useRead(() => store.search.value);
  const sessions = useRead(() => store.sessions.value); // what was deleted is found no more
  const hits = useHits(query, "", sessions);
  if (!hits) return null;
  if (!hits.length) return html`<p class="empty" role="status">${t("search.none")}</p>`;
  return html`<section aria-label=${t("search.said")}>
    <h2>${t("search.said")}</h2>
    <ul>
      ${hits.map((hit) => html`<li key=${hit.task_id} class="session"><${Found} hit=${hit} query=${query} /></li>`)}
    </ul>
  </section>`;
}

/** @param {{ hit: Hit, query: string }} props */
function Found({ hit, query }) {
  const show = (/** @type {Event} */ event) => {
    event.preventDefault();
    closeDrawer();
    showHit(hit);
  };
  return html`<a class="hit" href=${sessionAddress(hit.session_id)} onClick=${show}>
    <span class="about">${moment(hit.created_at)} <span class="title">${hit.title}</span></span>
    <span>${marked(hit.snippet, query.trim().split(/\s+/)[0])}</span>
  </a>`;
}

/** @param {string} text @param {string} word */
function marked(text, word) {
  const at = text.toLowerCase().indexOf(word.toLowerCase());
  if (at < 0) return text;
  const end = at + word.length;
  return html`${text.slice(0, at)}<mark>${text.slice(at, end)}</mark>${text.slice(end)}`;
}
