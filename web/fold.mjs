/** The page's fold over the sequences of events that the service's own is tested with. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { foldAll, joined, turnOfRow, turnOfTrace } from "../src/segue/server/page/state/turn.js";

const sequences = JSON.parse(await readFile(process.argv[2], "utf8"));
const STREAMED = ["token", "thinking", "attempt_restarted", "waiting", "joined"];

/** What a sequence says of a turn, followed or read from what is stored. */
function check(turn, { name, thoughts, calls, plan = [], exchanges = [], error = "" }) {
  assert.deepEqual(turn.thinking.trim().split("\n\n").filter(Boolean), thoughts, name);
  assert.deepEqual(turn.calls.map((call) => [call.name, call.result]), calls, name);
  assert.deepEqual(turn.steps.map((step) => [step.id, step.description, step.status, step.note]), plan, name);
  assert.deepEqual(turn.exchanges.map(said), exchanges, name);
  assert.equal(turn.error, error, name);
}

function said({ question, verdicts, answer }) {
  const asked = question.question ?? question.calls.map((call) => call.name).join(", ");
  return [asked, verdicts ? verdicts.map(({ verdict }) => verdict).join(", ") : answer];
}

for (const sequence of sequences) {
  const { name, events, text, answer, status = "running", error } = sequence;
  const start = { ...turnOfRow({ task_id: "t", status: "running" }), connection: "live" };
  const turn = events.reduce((folded, event) => (event.type === "joined" ? joined(folded) : foldAll(folded, [event])), start);
  assert.equal(turn.draft || turn.answer, text, name);
  assert.equal(turn.status, status, name);
  check(turn, sequence);

  const task = { task_id: "t", status, error, result: null };
  const stored = events.filter(({ type }) => !STREAMED.includes(type));
  const read = turnOfTrace({ task, events: stored, calls: [], question: null });
  assert.deepEqual([read.draft, read.answer, read.status], ["", status === "running" ? "" : answer, status], name);
  check(read, sequence);
}

const results = [{ error: "It is closed." }, { error: "It is full." }, { success: "done" }];
const repeated = { name: "book", index: 0, step_id: "1", arguments: {} };
const { calls } = turnOfTrace({
  task: { task_id: "t", status: "done" },
  events: results.flatMap((result, attempt) => [
    { type: "tool_call", ...repeated },
    { type: "tool_result", ...repeated, scope: `1#${attempt + 1}`, result },
  ]),
  calls: results.map((outcome, attempt) => ({ name: "book", idx: 0, scope: `1#${attempt + 1}`, outcome })),
});
assert.deepEqual(calls.map((call) => call.result), results, "a step that was repeated");

const forked = turnOfTrace({
  task: { task_id: "t", status: "paused", created_at: 1, updated_at: 9 },
  events: [
    { type: "state_changed", old: "running", new: "paused", timestamp: 9 },
    { type: "paused", reason: "", forked: true },
  ],
  calls: [],
});
assert.equal(forked.createdAt, 9, "the time of a fork begins with the fork");
console.log(`${sequences.length} sequences`);
