// @ts-check
/** What a panel shows of the service: loaded when it opens, and again whenever its inputs change. */
import { loadStyleSheets } from "../../components/style-sheets.js";
import { ApiError } from "../../state/api.js";
import { sentence } from "../../state/failures.js";
import { useRead } from "../../state/signals.js";
import { store } from "../../state/store.js";
import { t } from "../../texts/index.js";
import { html, useEffect, useRef, useState } from "../../vendor/htm-preact.js";

await loadStyleSheets("panels", "panel-graph", "panel-lists", "panel-points", "panel-records", "panel-rehearsals");

/** Milliseconds between two requests for the same, however often the inputs change. */
const PAUSE = 400;

/**
 * @template T
 * @typedef {{ value: T | null, error: string, reload: () => void }} Loaded
 */

/**
 * Load a value; the one that is shown stays until the next one has come.
 *
 * @template T
 * @param {() => Promise<T>} load
 * @param {unknown[]} inputs
 * @returns {Loaded<T>}
 */
export function useLoaded(load, inputs) {
  const [state, setState] = useState(/** @type {{ value: T | null, error: string }} */ ({ value: null, error: "" }));
  const run = useRef({ load, isBusy: false, isStale: false, isGone: false });
  run.current.load = load;
  const reload = async () => {
    const now = run.current;
    now.isStale = true;
    if (now.isBusy) return;
    now.isBusy = true;
    setState((before) => (before.value === null ? { value: null, error: "" } : before));
    while (now.isStale && !now.isGone) {
      now.isStale = false;
      const found = await outcomeOf(now.load);
      if (now.isGone) break;
      setState((before) => ({ value: found.error ? before.value : found.value, error: found.error }));
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    now.isBusy = false;
  };
  useEffect(() => void reload(), inputs);
  useEffect(() => {
    run.current.isGone = false;
    return () => void (run.current.isGone = true);
  }, []);
  return { ...state, reload: () => void reload() };
}

/** What changes whenever a conversation does: an input of what is loaded of all of them. */
export function useChanges() {
  return useRead(() => store.sessions.value?.map((row) => `${row.status}${row.updated_at}`).join() ?? "");
}

/**
 * @template T
 * @param {() => Promise<T>} load
 */
async function outcomeOf(load) {
  try {
    return { value: await load(), error: "" };
  } catch (error) {
    if (!(error instanceof ApiError)) reportError(error);
    return { value: null, error: sentence(error) };
  }
}

/**
 * What stands for a value that is not there yet, or cannot be loaded.
 *
 * @param {{ loaded: Loaded<unknown> }} props
 */
export function Pending({ loaded }) {
  if (!loaded.error) {
    return html`<div role="status" aria-busy="true" aria-label=${t("conversation.loading")}>
      ${[1, 2, 3].map(skeleton)}
    </div>`;
  }
  return html`<div class="empty" role="alert">
    <p>${loaded.error}</p>
    <button type="button" onClick=${loaded.reload}>${t("turn.retry")}</button>
  </div>`;
}

/** @param {number} n */
function skeleton(n) {
  return html`<div key=${n} class="skeleton"></div>`;
}
