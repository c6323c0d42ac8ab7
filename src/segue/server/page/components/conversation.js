// @ts-check
/** The turns of the session, which stay scrolled to the end, and the composer below them. */
import { loadOlder, open } from "../state/conversation.js";
import { attach } from "../state/files.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { t } from "../texts/index.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { Composer } from "./composer.js";
import { Icon } from "./icon.js";
import { IconButton } from "./icon-button.js";
import { lazy } from "./lazy.js";
import { Welcome } from "./welcome.js";

const Turn = lazy(async () => (await import("./turn.js")).Turn);
/** Pixels from the end within which the conversation counts as scrolled to it. */
const NEAR = 80;
/** What a person scrolls with. */
const MOVES = ["wheel", "touchmove", "pointerdown", "keydown"];

export function Conversation() {
  const turns = useRead(() => store.turns.value);
  const { state, older } = useRead(() => store.paging.value);
  const { scroller, content, isAtEnd, toEnd } = useEndOf(useRead(() => store.session.value));
  const sending = useRead(() => store.sending.value);
  useEffect(() => void (sending && toEnd()), [sending]);
  const isNew = !turns.length && !sending;
  const isEmpty = isNew && (state === "none" || state === "ready");
  return html`<div class="conversation" data-empty=${isEmpty} ...${useDropping()}>
    <div class="scroller" ref=${scroller} data-away=${!isAtEnd} tabindex=${isEmpty ? undefined : 0} role="log"
      aria-live="off" aria-label=${t("conversation.label")}>
      <div class="column" ref=${content}>
        ${older &&
        html`<button type="button" class="quiet older" disabled=${state === "loading"} onClick=${() => loadOlder()}>
          ${t(state === "loading" ? "conversation.loading" : "conversation.older")}
        </button>`}
        ${isNew && html`<${NoTurns} state=${state} />`}
        ${turns.map((turn, place) => html`<${Turn} key=${turn.value.id} turn=${turn} place=${place} />`)}
        ${sending && html`<div class="turn said" data-pending="true"><p>${sending}</p></div>`}
      </div>
    </div>
    <div class="dock">
      ${!isAtEnd &&
      html`<${IconButton} class="to-end" icon="down" label=${t("conversation.toEnd")} onClick=${toEnd} />`}
      <${Composer} />
    </div>
  </div>`;
}

/** Files may be dropped anywhere in the conversation. */
function useDropping() {
  const [isOver, setOver] = useState(false);
  const hasFiles = (/** @type {DragEvent} */ event) => Boolean(event.dataTransfer?.types.includes("Files"));
  return {
    "data-dropping": isOver,
    onDragOver: (/** @type {DragEvent} */ event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: (/** @type {DragEvent} */ event) => {
      const box = /** @type {HTMLElement} */ (event.currentTarget);
      if (!box.contains(/** @type {Node | null} */ (event.relatedTarget))) setOver(false);
    },
    onDrop: (/** @type {DragEvent} */ event) => {
      setOver(false);
      if (!hasFiles(event)) return;
      event.preventDefault();
      void attach(event.dataTransfer?.files ?? []);
    },
  };
}

/** @param {{ state: import("../state/store.js").Paging["state"] }} props */
function NoTurns({ state }) {
  if (state === "loading") return html`<${Skeleton} />`;
  return state === "failed" ? html`<${Failed} />` : html`<${Welcome} />`;
}

function Failed() {
  return html`<div class="outcome" role="alert">
    <${Icon} name="warning" />
    <span>${t("conversation.failed")}</span>
    <button type="button" onClick=${() => open(store.session.value)}>
      <${Icon} name="retry" />${t("turn.retry")}
    </button>
  </div>`;
}

function Skeleton() {
  return html`<div class="skeletons" aria-label=${t("conversation.loading")} role="status">
    <div class="skeleton short"></div>
    <div class="skeleton"></div>
    <div class="skeleton"></div>
  </div>`;
}

/**
 * Keep the turn that is sought in view, else what grows, unless the person scrolled away from the end.
 *
 * @param {string} session
 */
function useEndOf(session) {
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const content = useRef(/** @type {HTMLElement | null} */ (null));
  const stuck = useRef(true);
  const [isAtEnd, setAtEnd] = useState(true);
  const sought = useRead(() => store.sought.value);
  const toEnd = () => {
    store.sought.value = null;
    stuck.current = true;
    scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  };
  const keep = () => {
    const { value: kept } = store.sought;
    const turn = kept && document.getElementById(`turn-${kept.task}`);
    if (turn) stuck.current = false;
    (kept?.find?.() ?? turn)?.scrollIntoView({ block: "start" });
    if (!kept && stuck.current) toEnd();
  };
  useEffect(() => void (store.sought.value || toEnd()), [session]);
  useEffect(keep, [sought]);
  useEffect(() => {
    const box = /** @type {HTMLElement} */ (scroller.current);
    let seen = { top: 0, height: 0 };
    const look = () => {
      const { scrollTop: top, scrollHeight: height } = box;
      const isEnd = height - top - box.clientHeight < NEAR;
      const isScrolled = top < seen.top && height === seen.height; // what grows or shrinks is no scrolling away
      if (isEnd || isScrolled) stuck.current = isEnd;
      seen = { top, height };
      setAtEnd(isEnd || stuck.current);
    };
    const grown = new ResizeObserver(() => {
      keep();
      look();
    });
    const release = () => void (store.sought.value = null);
    for (const moved of MOVES) box.addEventListener(moved, release);
    grown.observe(/** @type {HTMLElement} */ (content.current));
    grown.observe(box);
    box.addEventListener("scroll", look, { passive: true });
    return () => {
      grown.disconnect();
      box.removeEventListener("scroll", look);
      for (const moved of MOVES) box.removeEventListener(moved, release);
    };
  }, []);
  return { scroller, content, isAtEnd, toEnd };
}
