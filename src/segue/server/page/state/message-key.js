// @ts-check
/** The idempotency key of the message that is being sent. */

let sending = { body: "", key: "" };

/** The same key for the same message until it is taken: it may have arrived though no answer came. */
export function keyOf(/** @type {string} */ body) {
  if (sending.body !== body) {
    const random = crypto.getRandomValues(new Uint32Array(4));
    sending = { body, key: [...random].map((part) => part.toString(16)).join("-") };
  }
  return sending.key;
}

export function forgetKey() {
  sending = { body: "", key: "" };
}
