// @ts-check
/** The sessions, grouped by when they were last used. */
import { open } from "../state/conversation.js";
import { attempt } from "../state/failures.js";
import { sessionAddress } from "../state/router.js";
import { change, loadSessions, makeTitle, titleOf } from "../state/sessions.js";
import { useRead } from "../state/signals.js";
import { shownRow, store } from "../state/store.js";
import { moment, t, textOf } from "../texts/index.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";
import { lazy } from "./lazy.js";
import { Menu } from "./menu.js";
import { closeDrawer } from "./sidebar.js";

/** @import { SessionRow } from "../state/types.js" */

const DAY = 86_400;
const PEOPLE = new Set(["page", "terminal"]);
const TitleInput = lazy(async () => (await import("./title-input.js")).TitleInput);
const SearchHits = lazy(async () => (await import("./search-hits.js")).SearchHits);

export function SessionList() {
  const sessions = useRead(() => store.sessions.value);
  const search = useRead(() => store.search.value);
  const isMore = useRead(() => store.areMoreSessions.value);
  const hasArchive = useRead(() => store.archived.value || store.hasArchived.value);
  if (sessions === null) return html`<div class="sessions" aria-hidden="true">${[1, 2, 3, 4].map(skeleton)}</div>`;
  const archived = store.archived.value;
  return html`<div class="sessions">
    ${!sessions.length &&
    !search &&
    html`<p class="empty">${t(archived ? "sidebar.noneArchived" : "sidebar.none")}</p>`}
    ${grouped(sessions).map(
      ([name, rows]) => html`<section key=${name} aria-label=${name}>
        <h2>${name}</h2>
        <ul>
          ${rows.map((row) => html`<${SessionItem} key=${row.session_id} row=${row} />`)}
        </ul>
      </section>`,
    )}
    ${isMore && html`<button type="button" class="quiet" onClick=${showMore}>${t("sidebar.more")}</button>`}
    ${search && html`<${SearchHits} />`}
    ${hasArchive &&
    html`<button type="button" class="row" aria-pressed=${archived} onClick=${toggleArchived}>
      <${Icon} name="archive" />${t("sidebar.archived")}
    </button>`}
  </div>`;
}

function toggleArchived() {
  store.archived.value = !store.archived.value;
  store.sessions.value = null;
  void loadSessions().catch(() => {}); // the page looks again anyway
}

function showMore() {
  store.sessionPages.value += 1;
  void attempt(loadSessions);
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
  const placed = Map.groupBy(sessions, (row) => {
    if (row.pinned) return t("sidebar.pinned");
    if (!PEOPLE.has(row.origin)) return t("sidebar.programs");
    return groups.find(([, since]) => row.updated_at >= since)?.[0] ?? "";
  });
  return [...placed];
}

/** @param {SessionRow} row */
function pin({ session_id: id, pinned }) {
  const label = t(pinned ? "session.unpin" : "session.pin");
  return { key: "pin", label, icon: "pin", act: () => change(id, { pinned: !pinned }) };
}

/** @param {SessionRow} row */
function archive({ session_id: id, archived }) {
  const label = t(archived ? "session.unarchive" : "session.archive");
  return { key: "archive", label, icon: "archive", act: () => change(id, { archived: !archived }) };
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
    pin(row),
    { key: "rename", label: t("session.rename"), icon: "edit", act: () => setRenaming(true) },
    { key: "title", label: t("session.makeTitle"), icon: "thought", act: () => makeTitle(row.session_id) },
    { key: "markdown", label: t("session.markdown"), icon: "file", act: () => void exportAs("markdown", row) },
    { key: "json", label: t("session.json"), icon: "file", act: () => void exportAs("json", row) },
    archive(row),
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
      <span class="menu-text">
        <span class="title" title=${title}>${title}</span>
        <span class="about">${row.agent_id} · ${moment(row.updated_at)}</span>
      </span>
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
