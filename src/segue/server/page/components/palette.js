// @ts-check
/** What a person looks for by typing: commands, sessions, agents, modes, and what was said. */
import { openTurn } from "../state/conversation.js";
import { allowed } from "../state/notify.js";
import { goTo, pageAddress } from "../state/router.js";
import { showHit, useHits } from "../state/search.js";
import { change, titleOf } from "../state/sessions.js";
import { useRead } from "../state/signals.js";
import { chosenAgent, openPanel, shownRow, store } from "../state/store.js";
import { cancel, pause } from "../state/task-actions.js";
import { chosenLanguage, language, moment, t, textOf } from "../texts/index.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { isComposing } from "./composing.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icon.js";
import { closeDrawer, startNew } from "./sidebar.js";

/** @import { Hit, SessionRow } from "../state/types.js" */
/** @typedef {{ key: string, group: string, icon: string, label: string, about?: string, act: () => void }} Entry */

const MOST = 8;

/** @param {{ close: () => void, begin?: string, within?: string }} props `begin` is "/" for commands alone,
 * `within` the session whose messages alone are searched */
export function Palette({ close, begin = "", within = "" }) {
  const [query, setQuery] = useState(begin);
  const [place, setPlace] = useState(0);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const sessions = useRead(() => store.sessions.value ?? []);
  useEffect(() => input.current?.focus(), []);
  const hits = useHits(saidIn(query, within), within) ?? [];
  const found = within ? hits.map((hit) => hitEntry(hit, moment(hit.created_at))) : entries(query, sessions, hits);
  const label = t(within ? "header.search" : "palette.label");
  const chosen = Math.min(place, found.length - 1);
  const act = (/** @type {Entry | undefined} */ entry) => {
    if (!entry) return;
    close();
    if (store.draft.value === "/") store.draft.value = "";
    closeDrawer();
    entry.act();
  };
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && !isComposing(event)) act(found[chosen]);
    else if (step && found.length) setPlace((chosen + step + found.length) % found.length);
    else return;
    event.preventDefault();
  };
  useEffect(() => document.getElementById(`entry-${chosen}`)?.scrollIntoView({ block: "nearest" }), [chosen]);
  return html`<${Dialog} class="palette" title=${t(within ? "header.search" : "palette.title")} onClose=${close}>
    <input
      ref=${input}
      role="combobox"
      aria-expanded="true"
      aria-controls="entries"
      aria-activedescendant=${found.length ? `entry-${chosen}` : undefined}
      aria-label=${label}
      placeholder=${label}
      value=${query}
      onInput=${(/** @type {any} */ event) => {
        setQuery(event.target.value);
        setPlace(0);
      }}
      onKeyDown=${onKey}
    />
    <${Entries} found=${found} chosen=${chosen} act=${act} />
    ${!found.length && query && html`<p class="empty" role="status">${t("palette.none")}</p>`}
  <//>`;
}

/** What is sought in messages: not a command. @param {string} query @param {string} within */
const saidIn = (query, within) => (query.startsWith("/") && !within ? "" : query);

/** @param {{ found: Entry[], chosen: number, act: (entry: Entry) => void }} props */
function Entries({ found, chosen, act }) {
  return html`<div id="entries" role="listbox" aria-label=${t("palette.title")} tabindex="-1">
    ${[...Map.groupBy(found, (entry) => entry.group)].map(
      ([group, rows]) => html`<div key=${group} role="group" aria-label=${group}>
        <p class="about" aria-hidden="true">${group}</p>
        ${rows.map((entry) => {
          const at = found.indexOf(entry);
          return html`<div
            key=${entry.key}
            id=${`entry-${at}`}
            class="entry"
            role="option"
            aria-selected=${at === chosen}
            onClick=${() => act(entry)}
          >
            <${Icon} name=${entry.icon} />
            <span class="menu-text"><span>${entry.label}</span></span>
            ${entry.about && html`<span class="about">${entry.about}</span>`}
          </div>`;
        })}
      </div>`,
    )}
  </div>`;
}

/**
 * @param {string} query
 * @param {SessionRow[]} sessions
 * @param {Hit[]} hits
 * @returns {Entry[]}
 */
function entries(query, sessions, hits) {
  const sought = query.replace(/^\//, "").trim().toLowerCase();
  const fits = (/** @type {{ label: string }} */ { label }) => label.toLowerCase().includes(sought);
  const offered = [...commands(), ...agents(), ...modes()].filter(fits);
  if (query.startsWith("/")) return offered;
  const own = sessions.map(sessionEntry).filter(fits).slice(0, MOST);
  return [...(sought ? own : offered), ...(sought ? offered : own), ...hits.map((hit) => hitEntry(hit))];
}

/** @param {SessionRow} row @returns {Entry} */
function sessionEntry(row) {
  const act = () => goTo(row.session_id);
  return { key: `s${row.session_id}`, group: t("sidebar.label"), icon: "file", label: titleOf(row), act };
}

/** @param {Hit} hit @param {string} [about] @returns {Entry} */
function hitEntry(hit, about = hit.title) {
  const act = () => showHit(hit);
  return { key: `h${hit.task_id}`, group: t("search.said"), icon: "search", label: hit.snippet, about, act };
}

/** @returns {Entry[]} */
function agents() {
  return store.agents.value.map(({ agent_id: id, description }) => ({
    key: `a${id}`,
    group: t("composer.agent"),
    icon: "agent",
    label: id,
    about: description,
    act: () => void (store.agent.value = id),
  }));
}

/** @returns {Entry[]} */
function modes() {
  return (chosenAgent()?.modes ?? []).map((mode) => ({
    key: `m${mode}`,
    group: t("composer.mode"),
    icon: "mode",
    label: textOf(`mode.${mode}`, mode),
    about: textOf(`modeAbout.${mode}`, ""),
    act: () => void (store.mode.value = mode),
  }));
}

/** @returns {Entry[]} */
function commands() {
  const row = shownRow();
  const turn = openTurn();
  const dark = (store.theme.value || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "")) === "dark";
  const own = [
    command("plus", "sidebar.new", startNew, "Ctrl+Shift+O"),
    command("inbox", "inbox.label", () => void (store.dialog.value = "inbox")),
    command("question", "keys.title", () => void (store.dialog.value = "keys"), "?"),
    command("settings", "settings.title", () => void (store.dialog.value = "settings")),
    command("panel", "inspector.open", () => openPanel()),
    command("graph", "inspector.workspace", () => void (location.hash = pageAddress("usage"))),
    command("settings", dark ? "palette.light" : "palette.dark", () => {
      store.theme.value = dark ? "light" : "dark";
    }),
    command("language", "palette.language", () => {
      chosenLanguage.value = language.value === "zh" ? "en" : "zh";
    }),
    store.notify.value
      ? command("inbox", "notify.off", () => void (store.notify.value = ""))
      : command("inbox", "notify.on", async () => void (store.notify.value = await allowed())),
  ];
  if (store.session.value) own.push(command("search", "header.search", () => void (store.dialog.value = "find")));
  if (turn) own.push(command("pause", "composer.pause", () => pause(turn)));
  if (turn) own.push(command("stop", "composer.stop", () => cancel(turn)));
  return row ? [...own, ...ofSession(row)] : own;
}

/** @param {SessionRow} row @returns {Entry[]} */
function ofSession({ session_id: id, pinned, archived }) {
  return [
    command("pin", pinned ? "session.unpin" : "session.pin", () => change(id, { pinned: !pinned })),
    command("archive", archived ? "session.unarchive" : "session.archive", () => change(id, { archived: !archived })),
    command("trash", "session.delete", () => void (store.dialog.value = `delete:${id}`)),
  ];
}

/**
 * @param {string} icon
 * @param {import("../texts/index.js").TextKey} key
 * @param {() => void} act
 * @param {string} [about]
 * @returns {Entry}
 */
function command(icon, key, act, about) {
  return { key: `c${key}`, group: t("palette.commands"), icon, label: t(key), about, act };
}
