// @ts-check
/** How the user rated answers, by the mode that gave them, and the mode that the user prefers. */
import { get } from "../state/api.js";
import { prefer, USER } from "../state/sessions.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { t, textOf } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Pending, useChanges, useLoaded } from "./parts/loaded.js";

/** @typedef {{ query: string, mode: string, rating: number | null }} Used */

export default function Panel() {
  const preferred = useRead(() => store.preferred.value);
  const loaded = useLoaded(() => get(`/api/users/${USER}/preferences`), [useChanges(), preferred]);
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  /** @type {Used[]} */
  const used = loaded.value.mode_history;
  return html`<${Preferred} mode=${preferred} />
    ${used.length > 0 && html`<${Modes} used=${used} /><${History} used=${used} />`}
    ${used.length === 0 && html`<p class="empty">${t("ratings.none")}</p>`}`;
}

/** @param {{ mode: string }} props */
function Preferred({ mode }) {
  if (!mode) return html`<p class="about">${t("ratings.noPreferred")}</p>`;
  return html`<p class="marked">
    <span>${t("ratings.preferred", { mode: textOf(`mode.${mode}`, mode) })}</span>
    <button type="button" onClick=${() => prefer("")}>${t("ratings.forget")}</button>
  </p>`;
}

/** @param {{ used: Used[] }} props */
function Modes({ used }) {
  const modes = [...Map.groupBy(used, ({ mode }) => mode)];
  return html`<table>
    <thead>
      <tr>
        <th scope="col">${t("composer.mode")}</th>
        <th scope="col">${t("ratings.answers")}</th>
        <th scope="col">${t("ratings.thumbs")}</th>
        <th scope="col">${t("ratings.mean")}</th>
      </tr>
    </thead>
    <tbody>
      ${modes.map(
        ([mode, rows]) => html`<tr key=${mode}>
          <td>${textOf(`mode.${mode}`, mode)}</td><td>${rows.length}</td>
          <td>${thumbsOf(rows)}</td><td>${meanOf(rows)}</td>
        </tr>`,
      )}
    </tbody>
  </table>`;
}

/** How many ratings are a thumb up, and down. @param {Used[]} rows */
function thumbsOf(rows) {
  const rated = rows.flatMap(({ rating }) => rating ?? []);
  return `${rated.filter((rating) => rating > 3).length} / ${rated.filter((rating) => rating < 3).length}`;
}

/** @param {Used[]} rows */
function meanOf(rows) {
  const rated = rows.flatMap(({ rating }) => rating ?? []);
  if (!rated.length) return "–";
  return `${(rated.reduce((sum, rating) => sum + rating, 0) / rated.length).toFixed(1)} (${rated.length})`;
}

/** @param {{ used: Used[] }} props */
function History({ used }) {
  return html`<h3>${t("ratings.latest")}</h3>
    <ul class="outcomes rated">
      ${used.map(
        ({ query, mode, rating }, place) => html`<li key=${place}>
          <span class="query" title=${query}>${query}</span>
          <span class="about">${textOf(`mode.${mode}`, mode)}</span>
          <span class="given" role="img"
            aria-label=${rating ? t("ratings.rateN", { n: rating }) : t("ratings.unrated")}>
            ${rating ? "★".repeat(rating) : "–"}
          </span>
        </li>`,
      )}
    </ul>`;
}
