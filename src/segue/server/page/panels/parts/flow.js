// @ts-check
/** Flows of a controller, as a task's events tell of them. */
import { endOf } from "../../state/turn.js";

/** @import { Frame } from "../../state/types.js" */
/**
 * @typedef {{ key: string, n: number, thought: string, branch: string, given: unknown, outcome: unknown,
 *   seconds: number, state: "" | "failed" }} Round
 * @typedef {{ key: string, name: string, rounds: Round[], status: string, summary: string }} Flow
 */

/**
 * The flows in the order in which they began; one inside another stands after it.
 *
 * @param {Frame[]} events
 * @returns {Flow[]}
 */
export function flowsOf(events) {
  /** @type {Flow[]} */
  const flows = [];
  /** @type {Map<string, Round>} */
  const rounds = new Map();
  for (const event of events) {
    const round = rounds.get(event.trace_id ?? "");
    if (event.type === "round_start") begin(flows, rounds, event);
    else if (event.type === "flow_end") end(flows, event);
    else if (round) TELLS[event.type]?.(round, event);
  }
  return flows;
}

/**
 * @param {Flow[]} flows
 * @param {Map<string, Round>} rounds
 * @param {Frame} event
 */
function begin(flows, rounds, { trace_id: key = "", iteration: n = 0, flow: name }) {
  const open = flows.findLast((flow) => flow.name === name && !flow.status);
  /** @type {Flow} */
  const flow = open ?? { key, name, rounds: [], status: "", summary: "" };
  if (!open) flows.push(flow);
  /** @type {Round} */
  const round = { key, n, thought: "", branch: "", given: {}, outcome: null, seconds: 0, state: "" };
  rounds.set(key, round);
  flow.rounds.push(round);
}

/**
 * @param {Flow[]} flows
 * @param {Frame} event
 */
function end(flows, { flow: name, status, summary }) {
  const flow = flows.findLast((each) => each.name === name && !each.status);
  if (flow) Object.assign(flow, { status, summary });
}

/** @type {Record<string, (round: Round, event: Frame) => void>} */
const TELLS = {
  thought: (round, { text }) => {
    round.thought = text;
  },
  branch_start: (round, { branch, arguments: given }) => Object.assign(round, { branch, given }),
  branch_end: (round, { result }) => settle(round, result),
  tool_call: (round, { name: branch, arguments: given }) => Object.assign(round, { branch, given }),
  tool_result: (round, { result, seconds }) => settle(round, result, seconds),
};

/**
 * @param {Round} round
 * @param {Record<string, unknown>} result
 * @param {number} [seconds]
 */
function settle(round, result, seconds = 0) {
  const { failed, value } = endOf(result);
  round.state = failed ? "failed" : "";
  round.outcome = value;
  round.seconds += seconds;
}
