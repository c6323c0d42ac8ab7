// @ts-check
/** JSON with integers as they are written, also those that a number of this language would round. */

/** Whether this browser can read and write them. */
export const isExact = "rawJSON" in JSON;

if (isExact) {
  Object.defineProperty(BigInt.prototype, "toJSON", {
    /** @this {bigint} */
    value() {
      return /** @type {any} */ (JSON).rawJSON(String(this));
    },
  });
}

/** Read JSON; an integer from 2^53 on is a `bigint`. @param {string} text @returns {any} */
export function parse(text) {
  return isExact && /\d{16}/.test(text) ? JSON.parse(text, /** @type {any} */ (exact)) : JSON.parse(text);
}

/** @param {string} _name @param {unknown} value @param {{ source?: string }} context */
function exact(_name, value, { source = "" }) {
  return isLarge(value) && /^-?\d+$/.test(source) ? BigInt(source) : value;
}

const isLarge = (/** @type {unknown} */ value) => Number.isInteger(value) && !Number.isSafeInteger(value);

/** Whether this browser may have rounded a number in what it read. @param {unknown} value @returns {boolean} */
export function isRounded(value) {
  if (isExact) return false;
  return isLarge(value) || (typeof value === "object" && value !== null && Object.values(value).some(isRounded));
}
