// @ts-check
/** A conversation as a file: Markdown to read, or the document that the service imports again. */
import { get } from "./api.js";
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
  if (document) save(`${session}.json`, "application/json", JSON.stringify(document, null, 2));
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
    const answer = result?.answer || error || "";
    return `## ${t("turn.you")}\n\n${message}\n\n## ${agent}\n\n${answer}`;
  });
  return `${[`# ${title.replaceAll("\n", " ")}`, ...turns].join("\n\n")}\n`;
}

/** @param {string} name @param {string} type @param {string} text */
export function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
}
