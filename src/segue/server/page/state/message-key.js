// @ts-check

/** The idempotency key of a request that is being sent, one at a time. */
export function requestKey() {
  let sending = { body: "", key: "" };
  return {
    /** The same key for the same body until it is taken: it may have arrived though no answer came. */
    of(/** @type {string} */ body) {
      if (sending.body !== body) {
        const random = crypto.getRandomValues(new Uint32Array(4));
        sending = { body, key: [...random].map((part) => part.toString(16)).join("-") };
      }
      return sending.key;
    },
    forget() {
      sending = { body: "", key: "" };
    },
  };
}
