// @ts-check
/** The list of sessions, the inbox, and what the service has to offer. */
import { get, getAll, send } from "./api.js";
import { attempt } from "./failures.js";
import { CONVERSATION, participantsOf } from "./participants.js";
import { goTo } from "./router.js";
import { store } from "./store.js";
import { t } from "../texts/index.js";

/** @import { Agent, SessionRow } from "./types.js" */

export const USER = "default";
/** What the title of a fork begins with. */
const FORK = "↳ ";

/** @param {SessionRow} session */
export function titleOf({ title, mode, message, session_id: id }) {
  if (mode !== CONVERSATION || !title || !message.startsWith(title.replace(FORK, ""))) return title || id;
  const fork = title.startsWith(FORK) ? FORK : "";
  return fork + t("transcript.of", participantsOf(message));
}

/** Load the sessions that the search finds. */
export async function loadSessions() {
  const [query, archived] = [store.search.value, store.archived.value];
  const path = `/api/sessions?archived=${archived}${query ? `&q=${encodeURIComponent(query)}` : ""}&limit=`;
  const pages = archived ? [`${path}200`] : [`${path}200&sender=people`, `${path}50&sender=programs`];
  const [kept, ...found] = await Promise.all([
    query ? null : get("/api/sessions?archived=true&limit=1"),
    ...pages.map((each) => getAll(each, store.sessionPages.value)),
  ]);
  if (kept) store.hasArchived.value = kept.items.length > 0;
  if (query !== store.search.value || archived !== store.archived.value) return;
  store.sessions.value = found.flatMap((page) => page.items);
  store.areMoreSessions.value = found.some((page) => page.isMore);
}

/** Load what waits for a person. */
export async function loadWaiting() {
  store.waiting.value = (await getAll("/api/waiting")).items;
}

/** Show soon what changed in both lists; where that fails, the page looks again anyway. */
export async function refreshLists() {
  await Promise.all([loadSessions(), loadWaiting()]).catch(() => {});
}

/** Load agents and preferences. */
export async function loadOffer() {
  const [agents, preferences] = await Promise.all([
    get("/api/agents"),
    get(`/api/users/${USER}/preferences`),
  ]);
  store.agents.value = agents.items;
  store.preferred.value = preferences.default_mode;
  store.agent.value ||= defaultAgent(agents.items);
}

/** @param {Agent[]} agents */
function defaultAgent(agents) {
  return (agents.find((agent) => agent.default) ?? agents[0])?.agent_id ?? "";
}

/** @param {string} mode */
export async function prefer(mode) {
  const set = await attempt(() => send("PUT", `/api/users/${USER}/preferences`, { default_mode: mode }));
  if (set) store.preferred.value = set.default_mode;
  return Boolean(set);
}

/**
 * Rename, pin or archive a session.
 *
 * @param {string} session
 * @param {{ title?: string, pinned?: boolean, archived?: boolean }} to
 */
export async function change(session, to) {
  await attempt(() => send("PATCH", `/api/sessions/${encodeURIComponent(session)}`, to));
  await attempt(loadSessions);
}

/**
 * Have the model name a session.
 *
 * @param {string} session
 */
export async function makeTitle(session) {
  await attempt(() => send("POST", `/api/sessions/${encodeURIComponent(session)}/title`));
  await attempt(loadSessions);
}

/** @param {string} session */
export async function remove(session) {
  const done = await attempt(async () => {
    await send("DELETE", `/api/sessions/${encodeURIComponent(session)}`);
    return true;
  });
  if (!done) return false;
  if (store.session.value === session) goTo("");
  await attempt(loadSessions);
  return true;
}
