/** Conversations of OpenAI's client: over chat completions, and over responses. */
import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { PNG, restarted, url } from "./service.mjs";

let client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none" });
const model = "desk";
const image = `data:image/png;base64,${PNG}`;
const Fruit = z.object({ fruit: z.string() });
const parameters = { type: "object", properties: { page: { type: "string" } }, required: ["page"] };
const show = { name: "show", description: "Show a page.", parameters };
const pages = [];
const shown = ({ page }) => {
  pages.push(page);
  return `shown the ${page}`;
};

// Chat completions
const user = (content) => ({ role: "user", content });
const messages = [user("apples")];
const stream = client.chat.completions.stream({ model, messages });
let streamed = "";
stream.on("content", (delta) => (streamed += delta));
assert.equal(await stream.finalContent(), "Heard apples.");
assert.equal(streamed, "Heard apples.");
messages.push({ role: "assistant", content: streamed }, user("please note"));
const noted = await client.chat.completions.create({ model, messages });
assert.equal(noted.choices[0].message.content, "Did note.");
messages.push(noted.choices[0].message, user("please show"));
const tools = [{ type: "function", function: { ...show, function: shown, parse: JSON.parse } }];
const runner = client.chat.completions.runTools({ model, messages, tools });
assert.equal(await runner.finalContent(), "Did show.");
messages.splice(0, messages.length, ...runner.messages, user("please refund"));
const asked = await client.chat.completions.create({ model, messages });
assert.match(asked.choices[0].message.content, /Approve refund/);
messages.push(asked.choices[0].message, user("yes"));

// Responses
const first = await client.responses.stream({ model, input: "pears" }).finalResponse();
assert.equal(first.output_text, "Heard pears.");
const used = await client.responses.create({ model, input: "please note", previous_response_id: first.id });
assert.deepEqual(used.output.filter(({ type }) => type === "mcp_call").map(({ name }) => name), ["note"]);
const functions = [{ type: "function", strict: false, ...show }];
const calling = await client.responses.create({
  model,
  input: "please show",
  previous_response_id: used.id,
  tools: functions,
});
const call = calling.output.find(({ type }) => type === "function_call");
const did = await client.responses.create({
  model,
  input: [{ type: "function_call_output", call_id: call.call_id, output: shown(JSON.parse(call.arguments)) }],
  previous_response_id: calling.id,
  tools: functions,
});
assert.equal(did.output_text, "Did show.");
const waiting = await client.responses.create({ model, input: "please refund", previous_response_id: did.id });
const request = waiting.output.find(({ type }) => type === "mcp_approval_request");

client = new OpenAI({ baseURL: `${await restarted()}/v1`, apiKey: "none" });
assert.deepEqual(pages, ["cart", "cart"]);
const refunded = await client.chat.completions.create({ model, messages });
assert.equal(refunded.choices[0].message.content, "Did refund.");
const settled = await client.responses.create({
  model,
  input: [{ type: "mcp_approval_response", approval_request_id: request.id, approve: true }],
  previous_response_id: waiting.id,
});
assert.equal(settled.output_text, "Did refund.");

// Structured output, and an image
const parsed = await client.chat.completions.parse({
  model,
  messages: [user("plums as JSON")],
  response_format: zodResponseFormat(Fruit, "fruit"),
});
assert.deepEqual(parsed.choices[0].message.parsed, { fruit: "plums" });
const read = await client.responses.parse({ model, input: "plums again", text: { format: zodTextFormat(Fruit, "fruit") } });
assert.deepEqual(read.output_parsed, { fruit: "plums" });
const look = [{ type: "text", text: "Look" }, { type: "image_url", image_url: { url: image } }];
const seen = await client.chat.completions.create({ model, messages: [user(look)] });
assert.equal(seen.choices[0].message.content, "I see a picture.");
const content = [{ type: "input_text", text: "Look" }, { type: "input_image", image_url: image, detail: "auto" }];
assert.equal((await client.responses.create({ model, input: [{ role: "user", content }] })).output_text, "I see a picture.");
console.log("done");
process.exit();
