/** A conversation of AG-UI's client. */
import assert from "node:assert/strict";
import { buildResumeArray, HttpAgent } from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";
import { PNG, restarted, url } from "./service.mjs";

const warnings = [];
console.warn = (...said) => warnings.push(said.join(" "));
const seen = new Set();

/** Fetch, and check each event as it comes over the wire. */
async function checked(address, options) {
  const response = await fetch(address, options);
  if (!response.ok) return response;
  const check = new TransformStream({
    transform(chunk, stream) {
      for (const line of new TextDecoder().decode(chunk).split("\n")) {
        if (line.startsWith("data: ")) seen.add(EventSchemas.parse(JSON.parse(line.slice(6))).type);
      }
      stream.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(check), response);
}

let server = url;
const agentOf = (name, threadId) => new HttpAgent({ url: `${server}/ag-ui/${name}`, threadId, fetch: checked });
const show = {
  name: "show",
  description: "Show a page.",
  parameters: { type: "object", properties: { page: { type: "string" } }, required: ["page"] },
};
const said = (id, content) => ({ id, role: "user", content });
const text = (messages) => messages.map((each) => (each.role === "assistant" && each.content) || "").join("");
const calls = (agent) => agent.messages.flatMap((each) => each.toolCalls ?? []);
const resolved = (agent, payload) =>
  buildResumeArray(
    agent.pendingInterrupts,
    Object.fromEntries(agent.pendingInterrupts.map(({ id }) => [id, { status: "resolved", payload }])),
  );

const agent = agentOf("desk", "t");
agent.addMessage(said("m1", "apples"));
assert.equal(text((await agent.runAgent()).newMessages), "Heard apples.");
assert.equal(agent.state.task.status, "done");

agent.addMessage(said("m2", "please note"));
const noted = await agent.runAgent();
assert.deepEqual(noted.newMessages.map(({ role }) => role).filter((role) => role !== "reasoning"), [
  "assistant",
  "tool",
  "assistant",
]);
assert.match(noted.newMessages.find(({ role }) => role === "tool").content, /noted one/);

agent.addMessage(said("m3", "please show"));
let pending = [];
await agent.runAgent({ tools: [show] }, { onRunFinishedEvent: (ended) => void (pending = ended.pendingToolCallIds) });
const shown = calls(agent).at(-1);
assert.deepEqual([pending, shown.function], [[shown.id], { name: "show", arguments: '{"page":"cart"}' }]);
agent.addMessage({ id: "m4", role: "tool", toolCallId: shown.id, content: "shown the cart" });
assert.equal(text((await agent.runAgent({ tools: [show] })).newMessages), "Did show.");

agent.addMessage(said("m5", "please refund"));
await agent.runAgent();
const [interrupt] = agent.pendingInterrupts;
assert.deepEqual([interrupt.reason, interrupt.toolCallId], ["tool_call", calls(agent).at(-1).id]);
await assert.rejects(agent.runAgent(), /pending interrupt/);
server = await restarted();
agent.url = `${server}/ag-ui/desk`;
assert.equal(text((await agent.runAgent({ resume: resolved(agent, { approved: true }) })).newMessages), "Did refund.");
assert.deepEqual(calls(agent).map((call) => call.function.name), ["note", "show", "refund"]);
assert.match(agent.messages.find(({ toolCallId }) => toolCallId === interrupt.toolCallId).content, /refunded 5/);

const newcomer = agentOf("desk", "t");
newcomer.addMessage(said("m6", "pears"));
await newcomer.runAgent();
assert.deepEqual(
  newcomer.messages.filter(({ role }) => role === "user").map(({ content }) => content),
  ["apples", "please note", "please show", "please refund", "pears"],
);

const painter = agentOf("desk", "painter");
painter.addMessage(said("m1", "paint it"));
await painter.runAgent({ forwardedProps: { mode: "controller" } });
assert.equal(painter.pendingInterrupts[0].reason, "input_required");
const painted = await painter.runAgent({ resume: resolved(painter, { answer: "blue" }) });
assert.equal(text(painted.newMessages), "It is blue.");

const planner = agentOf("travel", "planner");
planner.setState({ theme: "dark" });
planner.addMessage(said("m1", "帮我规划一个北京3日游"));
await planner.runAgent({ forwardedProps: { mode: "plan" } });
assert.deepEqual(new Set(planner.state.plan.steps.map(({ status }) => status)), new Set(["done"]));
assert.deepEqual([planner.state.theme, planner.state.memory], ["dark", ["painter/controller.logs.md"]]);

const viewer = agentOf("desk", "viewer");
const picture = { type: "image", source: { type: "data", value: PNG, mimeType: "image/png" } };
viewer.addMessage({ id: "m1", role: "user", content: [{ type: "text", text: "Look" }, picture] });
assert.equal(text((await viewer.runAgent()).newMessages), "I see a picture.");

const reader = agentOf("desk", "reader");
reader.addMessages([{ id: "m0", role: "system", content: "Answer with pears." }, said("m1", "plums")]);
const responseSchema = { type: "object", properties: { fruit: { type: "string" } }, required: ["fruit"] };
const read = await reader.runAgent({ forwardedProps: { responseSchema } });
assert.deepEqual(JSON.parse(text(read.newMessages)), { fruit: "plums" });

const broken = agentOf("desk", "broken");
broken.addMessage(said("m1", "plums"));
const cut = { onTextMessageContentEvent: () => broken.abortRun() };
await broken.runAgent({ runId: "r1" }, cut).catch(() => {});
await broken.runAgent({ runId: "r1" });
assert.equal(text(broken.messages), "Heard plums.");

for (const kind of ["STATE_DELTA", "MESSAGES_SNAPSHOT", "REASONING_MESSAGE_CONTENT", "STEP_FINISHED"]) {
  assert(seen.has(kind), kind);
}
assert.deepEqual(warnings, []);
console.log("done");
process.exit();
