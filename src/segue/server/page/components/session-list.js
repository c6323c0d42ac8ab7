// @ts-check
/** The sessions, grouped by when they were last used. */
import { open } from "../state/conversation.js";
import { sessionAddress } from "../state/router.js";
import { rename, titleOf } from "../state/sessions.js";
import { useRead } from "../state/signals.js";
import { shownRow, store } from "../state/store.js";
import { t, textOf } from "../texts/index.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";
import { Menu } from "./menu.js";
import { closeDrawer } from "./sidebar.js";

/** @import { SessionRow } from "../state/types.js" */

const DAY = 86_400;

export function SessionList() {
  const sessions = useRead(() => store.sessions.value);
  const search = useRead(() => store.search.value);
  if (sessions === null) return html`<div class="sessions" aria-hidden="true">${[1, 2, 3, 4].map(skeleton)}</div>`;
  if (!sessions.length) {
    return html`<div class="sessions"><p class="empty">${t(search ? "sidebar.noMatch" : "sidebar.none")}</p></div>`;
  }
  return html`<div class="sessions">
    ${grouped(sessions).map(
      ([name, rows]) => html`<section key=${name} aria-label=${name}>
        <h2>${name}</h2>
        <ul>
          ${rows.map((row) => html`<${SessionItem} key=${row.session_id} row=${row} />`)}
        </ul>
      </section>`,
    )}
  </div>`;
}

/** @param {number} n */
function skeleton(n) {
  return html`<div key=${n} class="skeleton"></div>`;
}

/**
 * @param {SessionRow[]} sessions
 * @returns {[string, SessionRow[]][]}
 */
function grouped(sessions) {
  const midnight = new Date().setHours(0, 0, 0, 0) / 1000;
  /** @type {[string, number][]} */
  const groups = [
    [t("sidebar.today"), midnight],
    [t("sidebar.yesterday"), midnight - DAY],
    [t("sidebar.week"), midnight - 7 * DAY],
    [t("sidebar.earlier"), -Infinity],
  ];
  const placed = Map.groupBy(sessions, (row) => groups.find(([, since]) => row.updated_at >= since)?.[0] ?? "");
  return [...placed];
}

/** @param {{ row: SessionRow }} props */
function SessionItem({ row }) {
  const isShown = useRead(() => shownRow()?.session_id === row.session_id, [row.session_id]);
  const [isRenaming, setRenaming] = useState(false);
  const item = useRef(/** @type {HTMLElement | null} */ (null));
  const wasRenaming = useRef(false);
  useEffect(() => {
    const isLost = document.activeElement === document.body; // another control may have been chosen
    if (wasRenaming.current && isLost) item.current?.querySelector("button")?.focus();
    wasRenaming.current = isRenaming;
  }, [isRenaming]);
  useEffect(() => void (isShown && item.current?.scrollIntoView({ block: "nearest" })), [isShown]);
  const title = titleOf(row);
  if (isRenaming) return html`<li><${TitleInput} row=${row} close=${() => setRenaming(false)} /></li>`;
  const items = [
    { key: "rename", label: t("session.rename"), icon: "edit", act: () => setRenaming(true) },
    { key: "markdown", label: t("session.markdown"), icon: "file", act: () => void exportAs("markdown", row) },
    { key: "json", label: t("session.json"), icon: "file", act: () => void exportAs("json", row) },
    {
      key: "delete",
      label: t("session.delete"),
      icon: "trash",
      danger: true,
      act: () => (store.dialog.value = `delete:${row.session_id}`),
    },
  ];
  const show = () => {
    closeDrawer();
    if (isShown && store.paging.value.state === "failed") void open(row.session_id);
  };
  return html`<li class="session" ref=${item}>
    <a href=${sessionAddress(row.session_id)} aria-current=${isShown ? "page" : undefined} onClick=${show}>
      <span class="title" title=${title}>${title}</span>
      <${StatusDot} status=${row.status} />
    </a>
    <${Menu} right label=${t("session.menu", { title })} button=${html`<${Icon} name="more" />`} items=${items} />
  </li>`;
}

/** @param {"markdown" | "json"} kind @param {SessionRow} row */
async function exportAs(kind, row) {
  const { exportJson, exportMarkdown } = await import("../state/export.js");
  await (kind === "json" ? exportJson(row.session_id) : exportMarkdown(row.session_id, titleOf(row)));
}

/** @param {{ status: string }} props */
function StatusDot({ status }) {
  if (status === "done" || status === "cancelled") return null;
  const label = textOf(`status.${status}`, status);
  return html`<span class="dot" data-status=${status} role="img" aria-label=${label} title=${label}></span>`;
}

/** @param {{ row: SessionRow, close: () => void }} props */
function TitleInput({ row, close }) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => input.current?.select(), []);
  const save = () => {
    const title = input.current?.value.trim();
    close();
    if (title && title !== titleOf(row)) void rename(row.session_id, title);
  };
  return html`<form
    class="rename"
    onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      save();
    }}
  >
    <input
      ref=${input}
      value=${titleOf(row)}
      maxlength="200"
      aria-label=${t("session.title")}
      onBlur=${save}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Escape" && close()}
    />
  </form>`;
}
