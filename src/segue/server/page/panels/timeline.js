// @ts-check
/** The points of the session's timeline: what happened up to each, its state, and the difference between two. */
import { Icon } from "../components/icon.js";
import { get } from "../state/api.js";
import { attempt } from "../state/failures.js";
import { sessionAddress } from "../state/router.js";
import { titleOf } from "../state/sessions.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { t } from "../texts/index.js";
import {
  compared, isMarked, loadOlderPoints, mark, marked, reloadTimeline, selected, sessionPath, timeline,
} from "../timeline/data.js";
import { Strip } from "../timeline/strip.js";
import { html, useEffect, useRef } from "../vendor/htm-preact.js";
import { Difference } from "./parts/difference.js";
import { Pending, useLoaded } from "./parts/loaded.js";
import { Entry, fork } from "./parts/snapshot-entry.js";
import { State } from "./parts/snapshot-state.js";

/** @import { Place, Snapshot } from "../timeline/data.js" */

export default function Panel() {
  const session = useRead(() => store.session.value);
  const { entries, error } = useRead(() => timeline.value);
  if (!session) return html`<p class="empty">${t("inspector.noTask")}</p>`;
  if (!entries.length) return html`<${Pending} loaded=${{ value: null, error, reload: reloadTimeline }} />`;
  return html`<${Strip} />
    ${error && html`<p class="warning" role="alert">${error}</p>`}
    <${Points} session=${session} />`;
}

/** What is shown below the strip. @param {{ session: string }} props */
function Points({ session }) {
  const pair = useRead(() => compared.value);
  const { entries, more } = useRead(() => timeline.value);
  const first = useRead(() => marked.value);
  const point = useRead(() => selected.value);
  if (pair) return html`<${Compared} key=${pair.map(({ snapshot }) => snapshot.id).join()} pair=${pair} />`;
  const hasMark = first && html`<${Marked} first=${first} session=${session} />`;
  if (entries.some((entry) => entry.checkpoint_id === point)) {
    return html`${hasMark}<${State} key=${point} session=${session} entries=${entries} point=${point} />`;
  }
  const origin = entries.findLast((entry) => entry.forked_from)?.forked_from;
  return html`<p class="about">${t("snapshots.about")}</p>
    ${origin && html`<${Forked} from=${origin.session_id} session=${session} entries=${entries} />`}
    ${hasMark}
    ${more &&
    html`<button type="button" class="quiet older" onClick=${loadOlderPoints}>${t("snapshots.older")}</button>`}
    <ol class="snapshots">
      ${entries.map(
        (entry, place) => html`<${Entry}
          key=${entry.checkpoint_id}
          entry=${entry}
          isFirst=${entries[place - 1]?.turn !== entry.turn}
          isLast=${entries[place + 1]?.turn !== entry.turn}
          isMarked=${isMarked(session, entry)}
          hasMark=${Boolean(first)}
          open=${() => (selected.value = entry.checkpoint_id)}
          fork=${() => fork(session, entry)}
          compare=${() => mark(session, entry)}
        />`,
      )}
    </ol>`;
}

/** @param {{ from: string, session: string, entries: Snapshot[] }} props */
function Forked({ from, session, entries }) {
  const title = useRead(() => {
    if (store.branches.value.some((each) => each.session_id === from)) return t("snapshots.otherBranch");
    const row = store.sessions.value?.find((each) => each.session_id === from);
    return row ? titleOf(row) : from;
  }, [from]);
  const toOrigin = async () => {
    const its = await attempt(() => get(`${sessionPath(from)}/timeline?limit=1`));
    if (!its) return;
    compared.value = [
      { session: from, snapshot: its.items.at(-1) },
      { session, snapshot: entries[entries.length - 1] },
    ];
  };
  return html`<p class="marked">
    <span>${t("snapshots.from")} <a href=${sessionAddress(from)}>${title}</a></span>
    <button type="button" onClick=${toOrigin}><${Icon} name="compare" />${t("snapshots.toOrigin")}</button>
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

/** @param {{ pair: [Place, Place] }} props */
function Compared({ pair: [first, second] }) {
  const back = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useEffect(() => back.current?.focus(), []);
  const loaded = useLoaded(() => get(differenceAddress(first, second)), []);
  return html`<button type="button" class="back" ref=${back} onClick=${() => (compared.value = null)}>
      ${t("snapshots.back")}
    </button>
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
  return `${sessionPath(first.session)}/diff?${query}`;
}
