// @ts-check
/** A conversation as a file: Markdown to read, or the document that the service imports again. */
import { get } from "./api.js";
import { answerIn } from "./draft.js";
import { attempt } from "./failures.js";
import { t } from "../texts/index.js";

/** @import { TaskRow } from "./types.js" */

/** @param {string} session @param {string} title */
export async function exportMarkdown(session, title) {
  const tasks = await attempt(() => readTasks(session));
  if (tasks) save(`${session}.md`, "text/markdown", markdownOf(title, tasks));
}

/** @param {string} session */
export async function exportJson(session) {
  const document = await attempt(() => get(`${address(session)}/export`));
  if (document) save(`${session}.json`, "application/json", JSON.stringify(document));
}

/** @param {string} session */
function address(session) {
  return `/api/sessions/${encodeURIComponent(session)}`;
}

/** All of the session's tasks, oldest first. @param {string} session @returns {Promise<TaskRow[]>} */
async function readTasks(session) {
  /** @type {TaskRow[]} */
  const tasks = [];
  for (let next = ""; ; ) {
    const page = await get(`${address(session)}/tasks?limit=100${next && `&before=${encodeURIComponent(next)}`}`);
    tasks.push(...page.items);
    next = page.next;
    if (!next) return tasks.reverse();
  }
}

/** @param {string} title @param {TaskRow[]} tasks */
function markdownOf(title, tasks) {
  const turns = tasks.map(({ message, agent_id: agent, result, error }) => {
    const answer = answerIn([result?.preamble ?? ""], result?.answer ?? "") || error || "";
    return `## ${t("turn.you")}\n\n${inert(message)}\n\n## ${agent}\n\n${inert(answer)}`;
  });
  return `${[`# ${inert(title.replaceAll("\n", " "))}`, ...turns].join("\n\n")}\n`;
}

/** The beginning of a fence of code at the margin. */
const FENCE = /^(?:(`{3,})[^`]*|(~{3,}).*)$/;
/** A fence elsewhere, such as in a list, whose end depends on where that ends. */
const INNER_FENCE = /[^`~](?:`{3}|~{3})/;
/** What loads a picture, is HTML, or links to anything but a page or an address, with what stands in its place. */
const ACTIVE = /** @type {const} */ ([
  [/!\[/g, "!\\["],
  [/<(?=[a-z/!?])/gi, "&lt;"],
  [/\](?=\((?!\s*(?:https?:|mailto:)))/gi, "\\]"],
  [/\](?=:(?!\s*(?:https?:|mailto:)))/gi, "\\]"],
]);

/** Markdown that loads nothing and runs nothing where it is opened; code stays as it is. @param {string} text */
function inert(text) {
  const lines = text.split(/\r\n?|\n/);
  const keepsCode = !lines.some((line) => INNER_FENCE.test(line));
  /** @type {RegExp | null} */
  let end = null;
  const shown = lines.map((line) => {
    if (end) {
      if (end.test(line)) end = null;
      return line;
    }
    const [, ticks, tildes] = (keepsCode && FENCE.exec(line)) || [];
    const fence = ticks || tildes;
    if (!fence) return ACTIVE.reduce((made, [what, instead]) => made.replace(what, instead), line);
    end = new RegExp(`^${fence[0]}{${fence.length},}[ \\t]*$`);
    return line;
  });
  return shown.join("\n");
}

/** @param {string} name @param {string} type @param {string} text */
export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
}
