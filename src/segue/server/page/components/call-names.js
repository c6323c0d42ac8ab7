// @ts-check
/** The names of calls in one line, each once. */

/** @import { AskedCall, Call } from "../state/types.js" */

/** The name of the call that a person approves who reviews a plan. */
export const REVIEW = "review_plan";

/** Whether the call is the review of a plan. @param {AskedCall} call */
export const isPlan = ({ name, decisions, arguments: given }) =>
  name === REVIEW && decisions !== undefined && Array.isArray(given.steps);

/** @param {{ name: string }[]} calls */
export function namesOf(calls) {
  const counted = Map.groupBy(calls, ({ name }) => name);
  return [...counted].map(([name, all]) => (all.length > 1 ? `${name} ×${all.length}` : name)).join(", ");
}

/** Whether the tool ran: neither a person nor a limit rejected it. @param {Pick<Call, "result">} call */
export function didRun({ result }) {
  return result !== null && !("rejected" in result) && !("over_budget" in result);
}
