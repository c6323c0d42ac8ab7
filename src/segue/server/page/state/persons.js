// @ts-check
/** Who decided about calls. */
import { moment } from "../texts/index.js";

/** The person behind the name of an actor: `ann` of `key:ann@acme`. @param {string} actor */
function personOf(actor) {
  return /^(?:key|terminal):([^@]*)/.exec(actor)?.[1] ?? actor;
}

/** Who decided so, and when; empty if not known. @param {Pick<import("./types.js").Verdict, "by">} verdict */
export function decidedBy({ by = [] }) {
  return by.map((each) => `${personOf(each.by)} ${moment(each.at)}`).join(", ");
}
