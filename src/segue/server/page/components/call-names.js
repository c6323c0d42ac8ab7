// @ts-check
/** The names of calls in one line, each once. */

/** @import { Call } from "../state/types.js" */

/** @param {{ name: string }[]} calls */
export function namesOf(calls) {
  const counted = Map.groupBy(calls, ({ name }) => name);
  return [...counted].map(([name, all]) => (all.length > 1 ? `${name} ×${all.length}` : name)).join(", ");
}

/** Whether the tool ran: neither a person nor a limit rejected it. @param {Pick<Call, "result">} call */
export function didRun({ result }) {
  return result !== null && !("rejected" in result) && !("over_budget" in result);
}
