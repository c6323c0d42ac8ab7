/** The page's fold over the sequences of events that the service's own is tested with. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { foldAll, joined, turnOfRow, turnOfTrace } from "../src/segue/server/page/state/turn.js";

const sequences = JSON.parse(await readFile(process.argv[2], "utf8"));
const STREAMED = ["token", "thinking", "attempt_restarted", "waiting", "joined"];

/** What a sequence says of a turn, followed or read from what is stored. */
function check(turn, { name, thoughts, said: before = [], calls, plan = [], exchanges = [], error = "" }) {
  assert.deepEqual(turn.thinking.trim().split("\n\n").filter(Boolean), [...thoughts, ...before], name);
  assert.deepEqual(turn.calls.map((call) => [call.name, call.result]), calls, name);
  assert.deepEqual(turn.steps.map((step) => [step.id, step.description, step.status, step.note]), plan, name);
  assert.deepEqual(turn.exchanges.map(said), exchanges, name);
  assert.equal(turn.error, error, name);
}

/** A text without the texts before calls, which the page shows as thoughts. */
function own(text, { said: before = [] }) {
  return before.reduce((rest, each) => rest.replace(`${each}\n\n`, ""), text);
}

function said({ question, verdicts, answer }) {
  const asked = question.question ?? question.calls.map((call) => call.name).join(", ");
  return [asked, verdicts ? verdicts.map(({ verdict }) => verdict).join(", ") : answer];
}

for (const sequence of sequences) {
  const { name, events, text, answer, status = "running", error } = sequence;
  const start = { ...turnOfRow({ task_id: "t", status: "running" }), connection: "live" };
  const turn = events.reduce((folded, event) => (event.type === "joined" ? joined(folded) : foldAll(folded, [event])), start);
  assert.equal(turn.draft || turn.answer, own(text, sequence), name);
  assert.equal(turn.status, status, name);
  check(turn, sequence);

  const task = { task_id: "t", status, error, result: null };
  const stored = events.filter(({ type }) => !STREAMED.includes(type));
  const read = turnOfTrace({ task, events: stored, calls: [], question: null });
  const kept = status === "running" ? "" : own(answer, sequence);
  assert.deepEqual([read.draft, read.answer, read.status], ["", kept, status], name);
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

const [first, second] = ["Let me see.", "And the next."];
const wrote = (trace_id, text) => ({ type: "model_called", trace_id, reply: { text, streamed: true } });
const stored = [wrote("r1", first), { type: "recursion_start" }, wrote("r2", second), { type: "answer", answer: `${first}\n\n${second}\n\nIt is blue.` }];
const ended = { task_id: "t", status: "done", result: { answer: stored[3].answer, preamble: `${first}\n\n${second}\n\n` } };
const read = turnOfTrace({ task: ended, events: stored, calls: [] });
assert.deepEqual([turnOfRow(ended).answer, read.answer, read.thinking.trim()], ["It is blue.", "It is blue.", `${first}\n\n${second}`]);

const begun = { ...turnOfRow({ task_id: "t", status: "running" }), connection: "live" };
const resumed = ["Let me", " see.\n\n"].map((content) => ({ type: "token", trace_id: "r1", content }));
const seen = foldAll(begun, [...resumed, { ...wrote("r1", first), seq: 1 }, { ...wrote("r2", second), seq: 2 }]);
assert.equal(seen.draft, "");
const again = foldAll(joined(seen), [`${second}\n\nIt`, " is blue."].map((content) => ({ type: "token", content })));
assert.deepEqual([again.draft, again.thinking.trim()], ["It is blue.", `${first}\n\n${second}`], "a resumed task has the latest text only");

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
