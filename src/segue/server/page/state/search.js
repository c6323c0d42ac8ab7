// @ts-check
/** Search in messages and answers. */
import { get } from "./api.js";
import { loadOlder } from "./conversation.js";
import { goTo } from "./router.js";
import { store, turnOf } from "./store.js";
import { useEffect, useState } from "../vendor/htm-preact.js";
import { effect, untracked } from "../vendor/signals-core.js";

/** @import { Hit, Sought } from "./types.js" */

/** Milliseconds that a person stops typing before messages are searched. */
const PAUSE = 150;
/** Turns of a page on the way to the one that is sought. */
const MANY = 100;

/**
 * @param {string} query
 * @param {string} [session] by default every session is searched
 * @returns {Promise<Hit[]>}
 */
async function find(query, session = "") {
  if (!query.trim()) return [];
  return (await get(`/api/search?${new URLSearchParams({ limit: "30", q: query, session_id: session })}`)).items;
}

/**
 * What was found for a query, once the person stops typing; null before the first answer.
 *
 * @param {string} query
 * @param {string} [session]
 * @param {unknown} [again] searched again when it changes
 */
export function useHits(query, session = "", again = null) {
  const [hits, setHits] = useState(/** @type {Hit[] | null} */ (null));
  useEffect(() => {
    let isLatest = true;
    const show = (/** @type {Hit[]} */ found) => isLatest && setHits(found);
    const timer = setTimeout(() => find(query, session).then(show, () => show([])), PAUSE);
    return () => {
      isLatest = false;
      clearTimeout(timer);
    };
  }, [query, again]);
  return hits;
}

/** Where the latest page of older turns ended that was asked for. */
let tried = "";

/** Show the turn in which something was found, however old it is. @param {Hit} hit */
export const showHit = ({ session_id: session, task_id: task }) => showTurn({ session, task });

/** Show a turn, or a part of it. @param {Sought} sought */
export function showTurn(sought) {
  tried = "";
  store.sought.value = sought;
  goTo(sought.session);
}

effect(() => {
  const { value: wanted } = store.sought;
  const { state, older } = store.paging.value;
  if (!wanted || state !== "ready" || store.session.value !== wanted.session || turnOf(wanted.task)) return;
  if (!older || older === tried) return void (store.sought.value = null); // it is not there, or could not be loaded
  tried = older;
  untracked(() => void loadOlder(MANY));
});
