// @ts-check
/** The names of calls in one line, each once. */

/** @param {{ name: string }[]} calls */
export function namesOf(calls) {
  const counted = Map.groupBy(calls, ({ name }) => name);
  return [...counted].map(([name, all]) => (all.length > 1 ? `${name} ×${all.length}` : name)).join(", ");
}
