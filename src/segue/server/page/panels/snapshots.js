// @ts-check
/** The session's snapshots: what happened up to each, forks from them, and the difference between two. */
import { Icon } from "../components/icon.js";
import { get, send } from "../state/api.js";
import { attempt } from "../state/failures.js";
import { goTo, sessionAddress } from "../state/router.js";
import { refreshLists, titleOf } from "../state/sessions.js";
import { useRead } from "../state/signals.js";
import { store, toast } from "../state/store.js";
import { t } from "../texts/index.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { signal } from "../vendor/signals-core.js";
import { Difference } from "./parts/difference.js";
import { Pending, useLoaded } from "./parts/loaded.js";
import { Entry } from "./parts/snapshot-entry.js";

/** @import { Snapshot } from "./parts/snapshot-entry.js" */
/** @typedef {{ session: string, snapshot: Snapshot }} Place */

/** How many snapshots are loaded at first, of which a long session has far more. */
const FIRST = 500;
/** The most that the service gives at once. */
const MOST = 100_000;

/** The snapshot to compare with; it stays when another session is opened, so that two sessions can be compared. */
const marked = signal(/** @type {Place | null} */ (null));

export default function Panel() {
  const session = useRead(() => store.session.value);
  if (!session) return html`<p class="empty">${t("inspector.noTask")}</p>`;
  return html`<${Snapshots} key=${session} session=${session} />`;
}

/** @param {{ session: string }} props */
function Snapshots({ session }) {
  const latest = useRead(() => store.turns.value.at(-1)?.value);
  const [limit, setLimit] = useState(FIRST);
  const load = () => get(`/api/sessions/${encodeURIComponent(session)}/timeline?limit=${limit}`);
  const loaded = useLoaded(load, [latest?.id, latest?.seq, latest?.status, limit]);
  const first = useRead(() => marked.value);
  const [pair, compare] = useState(/** @type {[Place, Place] | null} */ (null));
  if (!loaded.value) return html`<${Pending} loaded=${loaded} />`;
  if (pair) return html`<${Compared} pair=${pair} close=${() => compare(null)} />`;
  /** @type {Snapshot[]} */
  const entries = loaded.value.items;
  const origin = entries.findLast((entry) => entry.forked_from)?.forked_from;
  /** @param {{ limit: number, setLimit: (limit: number) => void }} props */
function Older({ limit, setLimit }) {
  if (limit >= MOST) return null;
  const onClick = () => setLimit(Math.min(2 * limit, MOST));
  return html`<button type="button" class="quiet older" onClick=${onClick}>${t("snapshots.older")}</button>`;
}

/** @param {Snapshot} snapshot */
  const choose = (snapshot) => {
    if (!first) marked.value = { session, snapshot };
    else if (first.session === session && first.snapshot.checkpoint_id === snapshot.checkpoint_id) marked.value = null;
    else compare([first, { session, snapshot }]);
  };
  const toOrigin = async (/** @type {string} */ other) => {
    const its = await attempt(() => get(`/api/sessions/${encodeURIComponent(other)}/timeline?limit=1`));
    if (!its) return;
    compare([
      { session: other, snapshot: its.items.at(-1) },
      { session, snapshot: entries[entries.length - 1] },
    ]);
  };
  return html`<p class="about">${t("snapshots.about")}</p>
    ${origin && html`<${Forked} from=${origin.session_id} compare=${() => toOrigin(origin.session_id)} />`}
    ${first && html`<${Marked} first=${first} session=${session} />`}
    ${loaded.value.more && html`<${Older} limit=${limit} setLimit=${setLimit} />`}
    <ol class="snapshots">
      ${entries.map(
        (entry, place) => html`<${Entry}
          key=${entry.checkpoint_id}
          entry=${entry}
          isFirst=${entries[place - 1]?.turn !== entry.turn}
          isLast=${entries[place + 1]?.turn !== entry.turn}
          isMarked=${first?.snapshot.checkpoint_id === entry.checkpoint_id && first?.session === session}
          hasMark=${Boolean(first)}
          fork=${() => fork(session, entry)}
          compare=${() => choose(entry)}
        />`,
      )}
    </ol>`;
}

/** @param {{ from: string, compare: () => void }} props */
function Forked({ from, compare }) {
  const title = useRead(() => {
    const row = store.sessions.value?.find((each) => each.session_id === from);
    return row ? titleOf(row) : from;
  }, [from]);
  return html`<p class="marked">
    <span>${t("snapshots.from")} <a href=${sessionAddress(from)}>${title}</a></span>
    <button type="button" onClick=${compare}><${Icon} name="compare" />${t("snapshots.toOrigin")}</button>
  </p>`;
}

/** @param {{ first: Place, session: string }} props */
function Marked({ first, session }) {
  return html`<p class="marked" role="status">
    <span>
      ${t("snapshots.marked", { id: first.snapshot.id })}
      ${first.session !== session && html` <span class="about">${t("snapshots.elsewhere")}</span>`}
    </span>
    <button type="button" class="quiet" onClick=${() => (marked.value = null)}>${t("dialog.cancel")}</button>
  </p>`;
}

/**
 * Start a session from a snapshot, and show it.
 *
 * @param {string} session
 * @param {Snapshot} snapshot
 */
async function fork(session, snapshot) {
  const body = { checkpoint_id: snapshot.checkpoint_id };
  const made = await attempt(() => send("POST", `/api/sessions/${encodeURIComponent(session)}/fork`, body));
  if (!made) return;
  await refreshLists();
  goTo(made.session_id);
  toast(forkedText(made), "note");
}

/** @param {{ status: string, effects: unknown[] }} made */
function forkedText({ status, effects }) {
  const stays = effects.length ? t("snapshots.effectsStay", { n: effects.length }) : "";
  return [t(status === "paused" ? "snapshots.forkedPaused" : "snapshots.forked"), stays].filter(Boolean).join(" ");
}

/** @param {{ pair: [Place, Place], close: () => void }} props */
function Compared({ pair: [first, second], close }) {
  const back = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useEffect(() => back.current?.focus(), []);
  const loaded = useLoaded(() => get(differenceAddress(first, second)), []);
  return html`<button type="button" class="back" ref=${back} onClick=${close}>${t("snapshots.back")}</button>
    ${loaded.value
      ? html`<${Difference} found=${loaded.value} a=${first.snapshot} b=${second.snapshot} />`
      : html`<${Pending} loaded=${loaded} />`}`;
}

/**
 * @param {Place} first
 * @param {Place} second
 */
function differenceAddress(first, second) {
  const query = new URLSearchParams({ a: first.snapshot.checkpoint_id, b: second.snapshot.checkpoint_id });
  if (second.session !== first.session) query.set("other_session", second.session);
  return `/api/sessions/${encodeURIComponent(first.session)}/diff?${query}`;
}
