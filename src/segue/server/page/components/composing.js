// @ts-check

/**
 * Whether an input method takes the key; Safari ends the composition first, and says 229.
 *
 * @param {KeyboardEvent} event
 */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;
