// @ts-check
/** The address: `#/` is a new conversation, `#/s/SESSION` a session, `#/t/TASK` the session of a task, and `#/usage` or
 * `#/rehearsals/NAME` a page of the workspace with what it shows. */
import { signal } from "../vendor/signals-core.js";

/** @typedef {{ session: string, task: string, page: string, names: string[] }} Route `page` is empty for a session */

export const PAGES = ["usage", "schedules", "rehearsals", "backtests", "memory", "ratings"];

/** @type {import("../vendor/signals-core.js").Signal<Route>} */
export const route = signal(parse());

addEventListener("hashchange", () => (route.value = parse()));

/** @returns {Route} */
function parse() {
  const [, kind = "", ...names] = location.hash.split("/").map(decoded);
  const page = PAGES.includes(kind) ? kind : "";
  const id = names.join("/");
  return { session: kind === "s" ? id : "", task: kind === "t" ? id : "", page, names: names.filter(Boolean) };
}

/** @param {string} name empty where it is not encoded as addresses are */
function decoded(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return "";
  }
}

/** @param {string} session empty for a new one */
export function sessionAddress(session) {
  return session ? `#/s/${encodeURIComponent(session)}` : "#/";
}

/** @param {string[]} path a page of the workspace, and what it shows */
export const pageAddress = (...path) => ["#", ...path.map(encodeURIComponent)].join("/");

/** Show a session, or a new conversation, also where another new one has this address. @param {string} session */
export function goTo(session) {
  const address = sessionAddress(session);
  if (location.hash === address) route.value = parse();
  else location.hash = address;
}

/**
 * Name the session that is shown already: it has just been created, and nothing is to be loaded.
 *
 * @param {string} session
 */
export function nameSession(session) {
  history.replaceState(null, "", sessionAddress(session));
  route.value = parse();
}
