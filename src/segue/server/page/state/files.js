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
  for (const file of [...files]) {
    const isTable = Boolean(chosenAgent()?.reads_files) && TABLE.test(file.name);
    const path = `/api/${isTable ? "files" : "attachments"}?name=${encodeURIComponent(file.name)}`;
    const stored = await attempt(async () => valueOf(await request("POST", path, { body: file })));
    if (!stored) continue;
    const others = store.files.value.filter((each) => !isTable || each.upload || each.name !== stored.name);
    store.files.value = [...others, { name: stored.name, upload: isTable ? null : stored }];
  }
}

/** @type {Map<string, NextFile[]>} by session */
const waiting = new Map();

/** Leave the files of a session's next message with it, and show those of another one. */
export function showFilesOf(/** @type {string} */ session, /** @type {string} */ before) {
  if (session === before) return;
  waiting.set(before, store.files.value);
  store.files.value = waiting.get(session) ?? [];
}

/** @param {NextFile} file */
export async function detach(file) {
  const { name, upload } = file;
  const path = upload ? `/api/attachments/${upload.upload_id}` : `/api/files/${encodeURIComponent(name)}`;
  await attempt(() => send("DELETE", path));
  store.files.value = store.files.value.filter((each) => each !== file);
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
