// @ts-check
/** What prompts show of the messages that they leave out: entries by their kind, each with a link to its source. */
import { sessionAddress } from "../../state/router.js";
import { showTurn } from "../../state/search.js";
import { t, textOf } from "../../texts/index.js";
import { html } from "../../vendor/htm-preact.js";

/**
 * @typedef {{ kind: string, text: string, receipt: string, writer?: string, before?: string, before_receipt?: string,
 *   against?: string, against_receipt?: string, but_see?: string }} Entry
 * @typedef {{ session: string, sources: Record<string, string> }} Known `sources` are the tasks of the receipts
 */

/** The kinds in the order in which prompts have them. */
const KINDS = [
  "rule", "limit", "preference", "deadline", "decision", "open_step", "identifier", "fact", "result", "summary",
];

/** @param {Known & { digest: { entries: Entry[], left_out?: number } }} props */
export function Digest({ session, sources, digest: { entries, left_out: left = 0 } }) {
  const known = { session, sources };
  const shown = KINDS.filter((kind) => entries.some((entry) => entry.kind === kind));
  return html`<section class="digest">
    <h4>${t("digest.title")} <span class="about">${entries.length}</span></h4>
    <p class="about">${t("digest.about")}</p>
    ${shown.map(
      (kind) => html`<h5 key=${kind}>${textOf(`digest.${kind}`, kind)}</h5>
        <ul>
          ${entries
            .filter((entry) => entry.kind === kind)
            .map((entry) => {
              return html`<li key=${`${entry.receipt} ${entry.text}`}><${Said} entry=${entry} known=${known} /></li>`;
            })}
        </ul>`,
    )}
    ${left > 0 && html`<p class="about">${t("digest.leftOut", { n: left })}</p>`}
  </section>`;
}

/** @param {{ entry: Entry, known: Known }} props */
function Said({ entry, known }) {
  return html`${entry.text} <${Source} receipt=${entry.receipt} known=${known} />
    ${entry.before &&
    html`<${More} name="before" text=${entry.before} receipt=${entry.before_receipt} known=${known} />`}
    ${entry.against &&
    html`<${More} name="against" text=${entry.against} receipt=${entry.against_receipt} known=${known} />`}
    ${entry.but_see && html`<${More} name="butSee" text="" receipt=${entry.but_see} known=${known} />`}`;
}

/**
 * What an entry changed, what differs from it, or what changes it.
 *
 * @param {{ name: string, text: string, receipt: string, known: Known }} props
 */
function More({ name, text, receipt, known }) {
  return html`<br /><span class="about">${textOf(`digest.${name}`, name)} ${text} </span>
    <${Source} receipt=${receipt} known=${known} />`;
}

/** A link to the turn or the call that something came from. @param {{ receipt: string, known: Known }} props */
function Source({ receipt, known: { session, sources } }) {
  const turn = receipt.startsWith("turn-") ? receipt.slice(5) : "";
  const label = turn ? t("digest.turn", { n: turn }) : t("digest.call");
  const task = sources[receipt];
  if (!task) return html`<span class="about">${label}</span>`;
  const show = (/** @type {Event} */ event) => {
    event.preventDefault();
    showTurn({ session, task, find: () => (turn ? null : openCall(receipt)) });
  };
  return html`<a href=${sessionAddress(session)} onClick=${show}>${label}</a>`;
}

/** Open a call by its ref, with what it is in. @param {string} ref */
function openCall(ref) {
  const call = document.querySelector(`details[data-ref="${CSS.escape(ref)}"]`);
  for (let each = call; each; each = each.parentElement?.closest("details") ?? null) {
    /** @type {HTMLDetailsElement} */ (each).open = true;
  }
  return call;
}
