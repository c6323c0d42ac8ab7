// @ts-check
/** The strip of a conversation: everything that happened in it, point by point, with its branches below. */
import { loadStyleSheets } from "../components/style-sheets.js";
import { goTo } from "../state/router.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { ACTIVE, OPEN } from "../state/turn.js";
import { moment, t } from "../texts/index.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { compared, isMarked, loadOlderPoints, marked, selected, timeline } from "./data.js";
import { onKey } from "./keys.js";
import { LANE, layOut, NEXT_LANE } from "./layout.js";
import { describe, Legend } from "./legend.js";

/** @import { Layout, Point, Stop } from "./layout.js" */

await loadStyleSheets("timeline", "timeline-marks");

export function Strip() {
  const { session, entries, more } = useRead(() => timeline.value);
  const [hovered, hover] = useState(/** @type {Point | Stop | null} */ (null));
  return html`<section class="timeline" aria-label=${t("timeline.label")}>
    <${Tracks} key=${session} session=${session} entries=${entries} more=${more} hover=${hover} />
    <div class="timeline-foot">
      ${hovered ? html`<p class="timeline-about">${describe(hovered)}</p>` : html`<${Legend} entries=${entries} />`}
    </div>
  </section>`;
}

/**
 * @param {{ session: string, entries: import("./data.js").Snapshot[], more: boolean,
 *   hover: (point: Point | Stop | null) => void }} props
 */
function Tracks({ session, entries, more, hover }) {
  const branches = useRead(() => store.branches.value);
  const status = useRead(() => store.turns.value.at(-1)?.value.status ?? "");
  const chosen = useRead(() => selected.value);
  useRead(() => marked.value);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const width = useWidthOf(box);
  const layout = useMemo(() => layOut(entries, { branches, session, width }), [entries, branches, session, width]);
  const [focused, focus] = useState("");
  useEnd(box, layout);
  const stopKey = focused || chosen || layout.points.at(-1)?.entry.checkpoint_id;
  const shared = { hover, focus };
  const height = LANE + layout.lanes * NEXT_LANE - 6;
  const size = { width: `${layout.width}px`, height: `${height}px`, "--mark": `${markSize(layout.size)}px` };
  return html`<div
    class="timeline-tracks"
    ref=${box}
    role="toolbar"
    aria-label=${t("timeline.points")}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => onKey(event, box.current)}
    onMouseLeave=${() => hover(null)}
  >
    <div class="timeline-canvas" style=${size}>
      <${Lines} layout=${layout} />
      ${layout.messages.map(
        ({ turn, x, width: wide, text, at }) => html`<p key=${turn} class="timeline-message" aria-hidden="true"
          style=${{ left: `${x}px`, width: `${wide - 8}px` }}>
          <span><b>${turn}</b> ${text} <span class="about">${moment(at)}</span></span>
        </p>`,
      )}
      ${more && html`<${Older} />`}
      ${layout.points.map(
        (point) => html`<${PointButton}
          key=${point.entry.checkpoint_id}
          ...${shared}
          point=${point}
          isStop=${point.entry.checkpoint_id === stopKey}
          isChosen=${point.entry.checkpoint_id === chosen}
          isCompared=${isMarked(session, point.entry)}
          choose=${(/** @type {boolean} */ isWith) => choose(session, point, isWith)}
        />`,
      )}
      ${layout.stops.map(
        (stop) => html`<${StopButton} key=${`${stop.session} ${stop.turn}`} ...${shared} stop=${stop}
          isStop=${keyOf(stop) === stopKey} />`,
      )}
      ${OPEN.has(status) && html`<${Now} x=${layout.end + 6} isActive=${ACTIVE.has(status)} />`}
    </div>
  </div>`;
}

function Older() {
  return html`<button type="button" class="timeline-older" onClick=${loadOlderPoints}>${t("timeline.older")}</button>`;
}

/** Where a task goes on. @param {{ x: number, isActive: boolean }} props */
function Now({ x, isActive }) {
  return html`<span class="timeline-now" data-active=${isActive} style=${{ left: `${x}px`, top: `${LANE}px` }}></span>`;
}

/** @param {number} size of a mark's room */
const markSize = (size) => Math.round(Math.min(10, Math.max(5, size * 0.75)));

/** @param {Stop} stop */
const keyOf = (stop) => `${stop.session} ${stop.turn}`;

/** @param {{ layout: Layout }} props */
function Lines({ layout: { lines, points, end, width, lanes } }) {
  const start = points[0].x;
  return html`<svg aria-hidden="true" width=${width} height=${LANE + lanes * NEXT_LANE}>
    <path class="trunk" d=${`M${start} ${LANE}H${end}`} />
    ${lines.map((line) => html`<path key=${line} d=${line} />`)}
  </svg>`;
}

/**
 * @param {{ point: Point, isStop: boolean, isChosen: boolean, isCompared: boolean,
 *   choose: (isWith: boolean) => void, hover: (point: Point | null) => void, focus: (key: string) => void }} props
 */
function PointButton({ point, isStop, isChosen, isCompared, choose: act, hover, focus }) {
  const { entry, marks, x, width } = point;
  return html`<button
    type="button"
    class="timeline-point"
    data-first=${point.isFirst}
    data-compared=${isCompared}
    style=${{ left: `${x}px`, width: `${width}px`, top: `${LANE - 13}px` }}
    tabindex=${isStop ? 0 : -1}
    aria-pressed=${isChosen}
    aria-label=${describe(point)}
    onMouseEnter=${() => hover(point)}
    onFocus=${() => {
      focus(entry.checkpoint_id);
      hover(point);
    }}
    onBlur=${() => hover(null)}
    onClick=${(/** @type {MouseEvent} */ event) => act(event.shiftKey)}
  >
    ${marks.map(
      (mark, place) => html`<span
        key=${place}
        class="timeline-mark"
        data-kind=${mark.kind}
        data-failed=${mark.failed}
        style=${{ left: `${mark.x - x}px` }}
      ></span>`,
    )}
    ${!marks.length && html`<span class="timeline-mark" data-kind="none" style=${{ left: `${width / 2}px` }}></span>`}
  </button>`;
}

/** @param {{ stop: Stop, isStop: boolean, hover: (stop: Stop | null) => void, focus: (key: string) => void }} props */
function StopButton({ stop, isStop, hover, focus }) {
  return html`<button
    type="button"
    class="timeline-stop"
    style=${{ left: `${stop.x - 10}px`, top: `${stop.y - 10}px` }}
    tabindex=${isStop ? 0 : -1}
    aria-label=${describe(stop)}
    onMouseEnter=${() => hover(stop)}
    onFocus=${() => {
      focus(keyOf(stop));
      hover(stop);
    }}
    onBlur=${() => hover(null)}
    onClick=${() => goTo(stop.session)}
  >
    <span>${stop.turn}</span>
  </button>`;
}

/**
 * Show the state at a point, beside the turn in the conversation; or what differs from the one that is shown.
 *
 * @param {string} session
 * @param {Point} point
 * @param {boolean} isWith
 */
function choose(session, { entry, turn }, isWith) {
  const shown = timeline.value.entries.find((each) => each.checkpoint_id === selected.value);
  const isPair = isWith && shown && shown !== entry;
  compared.value = isPair ? [{ session, snapshot: shown }, { session, snapshot: entry }] : null;
  selected.value = entry.checkpoint_id;
  const place = store.turns.value.findIndex(({ value }) => value.id === entry.task_id);
  if (turn) document.querySelectorAll("#conversation article.turn")[place]?.scrollIntoView({ block: "nearest" });
}

/** @param {{ current: HTMLElement | null }} box */
function useWidthOf(box) {
  const [width, setWidth] = useState(600);
  useLayoutEffect(() => {
    const element = /** @type {HTMLElement} */ (box.current);
    const watcher = new ResizeObserver(() => setWidth(element.clientWidth));
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  return width;
}

/**
 * Keep the end in view as it grows, unless the person looks at what was before.
 *
 * @param {{ current: HTMLElement | null }} box
 * @param {Layout} layout
 */
function useEnd(box, layout) {
  const seen = useRef(0);
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (box.current);
    const isAtEnd = element.scrollLeft + element.clientWidth > seen.current - 60;
    if (isAtEnd) element.scrollLeft = element.scrollWidth;
    seen.current = element.scrollWidth;
  }, [layout.width]);
}
