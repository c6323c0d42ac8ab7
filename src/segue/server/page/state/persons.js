// @ts-check
/** Who decided about calls. */
import { moment, t, textOf } from "../texts/index.js";

/** The person or the key behind the name of an actor: `ann` of `key:ann@acme`; empty for a service without keys.
 * @param {string} actor */
function personOf(actor) {
  if (actor === "http") return "";
  return /^(?:key|terminal):([^@]*)/.exec(actor)?.[1] ?? textOf(`actor.${actor}`, actor);
}

/** Who decided so, and when; empty if not known. @param {Pick<import("./types.js").Verdict, "by">} verdict */
export function decidedBy({ by = [] }) {
  const when = (/** @type {number} */ at, /** @type {string} */ who) =>
    who ? t("approvalDone.by", { who: `${who} ${moment(at)}` }) : moment(at);
  return by.map((each) => when(each.at, personOf(each.by))).join(", ");
}
