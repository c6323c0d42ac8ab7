// @ts-check
/** Search in messages and answers. */
import { get } from "./api.js";
import { goTo } from "./router.js";
import { store } from "./store.js";

/** @import { Hit } from "./types.js" */

/** Milliseconds between two looks for a turn that is being loaded, and how many there are. */
const AGAIN = 100;
const LOOKS = 50;

/** @param {string} query @returns {Promise<Hit[]>} */
export async function find(query) {
  return query.trim() ? (await get(`/api/search?limit=30&q=${encodeURIComponent(query)}`)).items : [];
}

/** Show the turn in which something was found. @param {Hit} hit */
export function showHit({ session_id: session, task_id: task }) {
  goTo(session);
  let left = LOOKS;
  const look = () => {
    const isShown = store.session.value === session && store.paging.value.state === "ready";
    const place = isShown ? store.turns.value.findIndex((turn) => turn.value.id === task) : -1;
    const turn = document.querySelectorAll(".turn")[place];
    if (turn) turn.scrollIntoView({ block: "start" });
    else if ((left -= 1)) setTimeout(look, AGAIN);
  };
  setTimeout(look, AGAIN);
}
