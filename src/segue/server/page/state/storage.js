// @ts-check
/** Settings that this browser keeps. */
import { effect, signal } from "../vendor/signals-core.js";

/**
 * A signal whose value outlives the page. A browser that keeps nothing starts with `initial` each time.
 *
 * @param {string} name
 * @param {string} initial
 */
export function remembered(name, initial) {
  const key = `segue.${name}`;
  const kept = signal(stored(() => localStorage.getItem(key)) ?? initial);
  effect(() => {
    const value = kept.value;
    stored(() => (value === initial ? localStorage.removeItem(key) : localStorage.setItem(key, value)));
  });
  return kept;
}

/**
 * @template T
 * @param {() => T} access
 */
function stored(access) {
  try {
    return access();
  } catch {
    return null; // storage is blocked or full
  }
}
