// @ts-check
/** What a person is told about a request that failed. */
import { t } from "../texts/index.js";
import { ApiError } from "./api.js";
import { toast } from "./store.js";

/** @param {unknown} error */
export function sentence(error) {
  if (!(error instanceof ApiError)) return t("error.unexpected", { message: String(error) });
  return error.status === 0 ? t("error.unreachable") : error.message;
}

/**
 * Do what a person asked for; a failure is shown.
 *
 * @template T
 * @param {() => Promise<T>} act
 * @returns {Promise<T | undefined>} undefined if it failed
 */
export async function attempt(act) {
  try {
    return await act();
  } catch (error) {
    const isKeyAsked = error instanceof ApiError && error.status === 401;
    if (!isKeyAsked) toast(sentence(error));
    return undefined;
  }
}
