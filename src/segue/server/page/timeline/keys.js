// @ts-check
/** The keyboard on the strip. */

/**
 * Arrow keys move along a lane and between lanes, Home and End to its ends, Page Up and Page Down by messages.
 *
 * @param {KeyboardEvent} event
 * @param {HTMLElement | null} box
 */
export function onKey(event, box) {
  const all = /** @type {HTMLElement[]} */ ([...(box?.querySelectorAll(".timeline-point, .timeline-stop") ?? [])]);
  const from = /** @type {HTMLElement} */ (document.activeElement);
  const lane = all.filter((each) => laneOf(each) === laneOf(from));
  const place = lane.indexOf(from);
  /** @type {Record<string, () => HTMLElement | undefined>} */
  const targets = {
    ArrowLeft: () => lane[place - 1],
    ArrowRight: () => lane[place + 1],
    ArrowUp: () => nearest(all, from, -1),
    ArrowDown: () => nearest(all, from, 1),
    Home: () => lane[0],
    End: () => lane.at(-1),
    PageUp: () => lane.findLast((each, nth) => nth < place && each.dataset.first === "true"),
    PageDown: () => lane.find((each, nth) => nth > place && each.dataset.first === "true"),
  };
  if (!(event.key in targets) || place < 0) return;
  event.preventDefault();
  targets[event.key]()?.focus();
}

/** @param {HTMLElement} button */
const laneOf = (button) => Math.round(button.offsetTop + button.offsetHeight / 2);

/**
 * The button of the next lane that is nearest.
 *
 * @param {HTMLElement[]} all
 * @param {HTMLElement} from
 * @param {number} step
 */
function nearest(all, from, step) {
  const beyond = all.filter((each) => Math.sign(laneOf(each) - laneOf(from)) === step);
  const lane = Math.min(...beyond.map((each) => step * laneOf(each)));
  const alike = beyond.filter((each) => step * laneOf(each) === lane);
  return alike.sort((a, b) => Math.abs(a.offsetLeft - from.offsetLeft) - Math.abs(b.offsetLeft - from.offsetLeft))[0];
}
