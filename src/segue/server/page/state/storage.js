// @ts-check
/** Settings that this browser keeps. */
import { effect, signal } from "../vendor/signals-core.js";

/**
 * A signal whose value outlives the page, for this service: others may be below other paths. A browser that keeps
 * nothing starts with `initial` each time.
 *
 * @param {string} name
 * @param {string} initial
 */
export function remembered(name, initial) {
  const kept = signal(stored(() => localStorage.getItem(keyOf(name))) ?? initial);
  effect(() => {
    const value = kept.value;
    stored(() => (value === initial ? localStorage.removeItem(keyOf(name)) : localStorage.setItem(keyOf(name), value)));
  });
  return kept;
}

/** @param {string} name */
function keyOf(name) {
  const { pathname } = new URL(".", document.baseURI);
  return `segue${pathname.slice(0, -1)}.${name}`;
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
