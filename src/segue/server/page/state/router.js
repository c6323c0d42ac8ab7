// @ts-check
/** The address: `#/` is a new conversation, `#/s/SESSION` a session, `#/t/TASK` the session of a task. */
import { signal } from "../vendor/signals-core.js";

/** @typedef {{ session: string, task: string }} Route */

/** @type {import("../vendor/signals-core.js").Signal<Route>} */
export const route = signal(parse());

addEventListener("hashchange", () => (route.value = parse()));

/** @returns {Route} */
function parse() {
  const [, kind, name] = /^#\/([st])\/(.+)$/.exec(location.hash) ?? [];
  const id = decoded(name ?? "");
  return kind === "s" ? { session: id, task: "" } : { session: "", task: id };
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

/** @param {string} session */
export function goTo(session) {
  location.hash = sessionAddress(session);
}

/**
 * Name the session that is shown already: it has just been created, and nothing is to be loaded.
 *
 * @param {string} session
 */
export function nameSession(session) {
  history.replaceState(null, "", sessionAddress(session));
  route.value = { session, task: "" };
}
