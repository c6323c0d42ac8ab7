// @ts-check
/** Files of the next message, uploaded when they are chosen. An agent's tables go into the data folder instead. */
import { t } from "../texts/index.js";
import { request, send, valueOf } from "./api.js";
import { attempt } from "./failures.js";
import { chosenAgent, store } from "./store.js";

/** @import { NextFile } from "./types.js" */

const TABLE = /\.(csv|tsv|parquet)$/i;

/** @param {Iterable<File>} files */
export async function attach(files) {
  const opened = store.opened.value;
  const agent = chosenAgent();
  for (const file of [...files]) {
    const isTable = Boolean(agent?.reads_files) && TABLE.test(file.name);
    const query = new URLSearchParams({ name: file.name });
    if (agent && !isTable) query.set("agent_id", agent.agent_id);
    const path = `/api/${isTable ? "files" : "attachments"}?${query}`;
    const stored = await attempt(async () => valueOf(await request("POST", path, { body: file })));
    if (!stored) continue;
    const isOther = (/** @type {NextFile} */ each) => !isTable || each.upload || each.name !== stored.name;
    const added = { name: stored.name, upload: isTable ? null : stored };
    const session = left.get(opened) ?? store.session.value;
    if (session === store.session.value) store.files.value = [...store.files.value.filter(isOther), added];
    else waiting.set(session, [...(waiting.get(session) ?? []).filter(isOther), added]);
  }
}

/** @type {Map<string, NextFile[]>} by session */
const waiting = new Map();
/** @type {Map<number, string>} the sessions that were left, by the number of `store.opened` */
const left = new Map();

/** Leave the files of a session's next message with it, and show those of another one. */
export function showFilesOf(/** @type {string} */ session, /** @type {string} */ before) {
  left.set(store.opened.value, before);
  if (session === before) return;
  waiting.set(before, store.files.value);
  store.files.value = waiting.get(session) ?? [];
}

/** What was sent goes with no other message. @param {NextFile[]} sent */
export function forgetFiles(sent) {
  const rest = (/** @type {NextFile[]} */ files) => files.filter((each) => !sent.includes(each));
  for (const [session, files] of waiting) waiting.set(session, rest(files));
  store.files.value = rest(store.files.value);
}

/** @param {NextFile} file */
export async function detach(file) {
  const { name, upload } = file;
  const path = upload ? `/api/attachments/${upload.upload_id}` : `/api/files/${encodeURIComponent(name)}`;
  await attempt(() => send("DELETE", path));
  forgetFiles([file]);
}

/** The files that go along with the next message. */
export function uploads() {
  return store.files.value.flatMap(({ upload }) => (upload ? [upload] : []));
}

/** A message with the names of its tables. @param {string} message */
export function withTables(message) {
  const names = store.files.value.filter(({ upload }) => !upload).map(({ name }) => name);
  return names.length ? `${message}\n\n${t("composer.withFiles", { names: names.join(", ") })}` : message;
}
