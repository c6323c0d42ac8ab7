/** Conversations of Vercel's AI SDK: over responses and chat completions, by its provider for OpenAI and for compatible services. */
import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { PNG, restarted, url } from "./service.mjs";

let server = url;
const models = {
  responses: () => createOpenAI({ baseURL: `${server}/v1`, apiKey: "none" }).responses("desk"),
  chat: () => createOpenAI({ baseURL: `${server}/v1`, apiKey: "none" }).chat("desk"),
  compatible: () =>
    createOpenAICompatible({
      name: "segue",
      baseURL: `${server}/v1`,
      apiKey: "none",
      supportsStructuredOutputs: true,
    })("desk"),
};
const show = tool({
  description: "Show a page.",
  inputSchema: z.object({ page: z.string() }),
  execute: ({ page }) => `shown the ${page}`,
});
const user = (content) => ({ role: "user", content });
const waiting = {};

for (const [name, model] of Object.entries(models)) {
  const messages = [user(`apples, ${name}`)];
  const heard = streamText({ model: model(), messages });
  assert.equal(await heard.text, "Heard apples.", name);
  messages.push(...(await heard.response).messages, user("please note"));
  const noted = streamText({ model: model(), messages });
  assert.equal(await noted.text, "Did note.", name);
  messages.push(...(await noted.response).messages, user("please show"));
  const shown = streamText({ model: model(), messages, tools: { show }, stopWhen: stepCountIs(3) });
  assert.equal(await shown.text, "Did show.", name);
  const steps = await shown.steps;
  assert.deepEqual(steps[0].toolCalls.map(({ toolName, input }) => [toolName, input]), [["show", { page: "cart" }]], name);
  messages.push(...steps.at(-1).response.messages, user("please refund"));
  const asked = await generateText({ model: model(), messages });
  messages.push(...asked.response.messages);
  waiting[name] = { messages, asked };
}
server = await restarted();
for (const [name, model] of Object.entries(models)) {
  const { messages, asked } = waiting[name];
  const requested = asked.content.filter(({ type }) => type === "tool-approval-request");
  if (name === "responses") {
    assert.equal(requested.length, 1);
    const approvals = requested.map(({ approvalId }) => ({
      type: "tool-approval-response",
      approvalId,
      approved: true,
      providerExecuted: true,
    }));
    messages.push({ role: "tool", content: approvals });
  } else {
    assert.match(asked.text, /Approve refund/, name);
    messages.push(user("yes"));
  }
  assert.equal((await generateText({ model: model(), messages })).text, "Did refund.", name);
  const schema = z.object({ fruit: z.string() });
  const { object } = await generateObject({ model: model(), schema, prompt: `plums, ${name}` });
  assert.deepEqual(object, { fruit: "plums" }, name);
  const picture = { type: "file", mediaType: "image/png", data: PNG };
  const seen = await generateText({ model: model(), messages: [user([{ type: "text", text: `Look, ${name}` }, picture])] });
  assert.equal(seen.text, "I see a picture.", name);
}
console.log("done");
process.exit();
