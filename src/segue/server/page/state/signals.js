// @ts-check
/** Signals for Preact components. */
import { useEffect, useMemo, useState } from "../vendor/htm-preact.js";
import { computed, effect } from "../vendor/signals-core.js";

/**
 * Read signals in a component, which renders again when the value changes.
 *
 * @template T
 * @param {() => T} read
 * @param {unknown[]} [inputs] what else `read` depends on
 * @returns {T}
 */
export function useRead(read, inputs = []) {
  const [, renderAgain] = useState({});
  const source = useMemo(() => computed(read), inputs);
  const shown = source.value;
  useEffect(() => {
    let last = shown;
    return effect(() => {
      if (Object.is(source.value, last)) return;
      last = source.value;
      renderAgain({});
    });
  }, [source]);
  return shown;
}
