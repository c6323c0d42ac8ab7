// @ts-check
/** Requests to the service, and its errors. */
import { language } from "../texts/index.js";
import { parse } from "./json.js";
import { remembered } from "./storage.js";
import { signal } from "../vendor/signals-core.js";

/** @import { Json } from "./types.js" */

export const key = remembered("key", "");
/** The key that the service refused, empty where none was sent; null while it takes the page's requests. */
export const refusedKey = signal(/** @type {string | null} */ (null));

/** A request that the service refused, or that did not reach it (status 0). */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} type
   * @param {string} message
   * @param {number} [retryAfter] seconds
   */
  constructor(status, type, message, retryAfter = 0) {
    super(message);
    this.status = status;
    this.type = type;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later. */
  get isTemporary() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** The address of the service, without a slash at its end: the page's documents are right below it. */
export function home() {
  return new URL(".", document.baseURI).href.slice(0, -1);
}

/**
 * Send a request and check its status.
 *
 * @param {string} method
 * @param {string} path
 * @param {{ body?: Json | File | null, headers?: Record<string, string>, signal?: AbortSignal }} [options]
 */
export async function request(method, path, { body, headers = {}, signal: aborted } = {}) {
  const used = key.value;
  /** @type {Record<string, string>} */
  const sent = { "Accept-Language": language.value, ...headers };
  if (used) sent.Authorization = `Bearer ${used}`;
  const isJson = body && !(body instanceof File);
  if (isJson) sent["Content-Type"] = "application/json";
  const content = isJson ? JSON.stringify(body) : body;
  const options = { method, headers: sent, body: content, signal: aborted };
  const response = await fetch(home() + path, options).catch((error) => {
    throw aborted?.aborted ? error : new ApiError(0, "Unreachable", "");
  });
  if (response.status === 401) {
    if (used !== key.value) return request(method, path, { body, headers, signal: aborted });
    refusedKey.value = used;
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

/** @param {Response} response */
async function refusal(response) {
  const body = await response.json().catch(() => ({}));
  const { type = "Error", message = response.statusText } = body.error ?? {};
  return new ApiError(response.status, type, message, Number(response.headers.get("Retry-After") ?? 0));
}

/**
 * @param {string} path
 * @param {AbortSignal} [aborted]
 * @returns {Promise<any>}
 */
export async function get(path, aborted) {
  return valueOf(await request("GET", path, { signal: aborted }));
}

/**
 * The items of a list, of so many of its pages, and whether there are more.
 *
 * @param {string} path
 * @param {number} [pages]
 * @returns {Promise<{ items: any[], isMore: boolean }>}
 */
export async function getAll(path, pages = Infinity) {
  const items = [];
  let next = "";
  for (let page = 0; page < pages; page++) {
    const found = await get(next ? `${path}${path.includes("?") ? "&" : "?"}before=${encodeURIComponent(next)}` : path);
    items.push(...found.items);
    if (found.next === null) return { items, isMore: false };
    next = String(found.next);
  }
  return { items, isMore: true };
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Json} [body]
 * @returns {Promise<any>}
 */
export async function send(method, path, body) {
  const response = await request(method, path, { body });
  return response.status === 204 ? null : valueOf(response);
}

/** What a response holds; the connection may break while it is read. @param {Response} response */
export async function valueOf(response) {
  const text = response.text().then(parse);
  return text.catch((error) => {
    throw new ApiError(0, "Unreachable", String(error));
  });
}
