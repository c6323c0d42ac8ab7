// @ts-check
/** A dialog that makes links to a conversation, lists those that work, and revokes them. */
import { copy } from "../components/copy.js";
import { Dialog } from "../components/dialog.js";
import { Icon } from "../components/icon.js";
import { getAll, home, send } from "../state/api.js";
import { attempt } from "../state/failures.js";
import { loadPanelTexts, moment, t } from "../texts/index.js";
import { html, useEffect, useState } from "../vendor/htm-preact.js";

/** @typedef {{ share_id: string, created_at: number, expires_at: number }} Share */

const HOURS = /** @type {const} */ ({ 24: "share.day", 168: "share.week", 720: "share.month", 8760: "share.year" });
/** The addresses at which a machine reaches itself; without keys the service takes no others. */
const LOOPBACK = /^(localhost|127\..*|\[::1\])$/;

await loadPanelTexts();

/** @param {{ session: string, close: () => void }} props */
export function ShareDialog({ session, close }) {
  const path = `/api/sessions/${encodeURIComponent(session)}/share`;
  const [hours, setHours] = useState("168");
  const [link, setLink] = useState("");
  const [shares, setShares] = useState(/** @type {Share[]} */ ([]));
  const load = async () => setShares((await attempt(() => getAll(path)))?.items ?? []);
  useEffect(() => void load(), [session]);
  const create = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const made = await attempt(() => send("POST", path, { hours: Number(hours) }));
    if (!made) return;
    setLink(`${home()}${made.path}`);
    await load();
  };
  const revoke = async (/** @type {string} */ id) => {
    await attempt(() => send("DELETE", `${path}?share_id=${id}`));
    setLink("");
    await load();
  };
  return html`<${Dialog} title=${t("header.share")} onClose=${close}>
    <form onSubmit=${create}>
      <p>${t("share.text")}</p>
      ${LOOPBACK.test(location.hostname) &&
      html`<p class="about">${t("share.local", { host: location.host })}</p>`}
      ${shares.length > 0 && html`<${Shares} shares=${shares} revoke=${revoke} />`}
      <label>
        ${t("share.expires")}
        <select value=${hours} onChange=${(/** @type {Event} */ event) => setHours(valueOf(event))}>
          ${Object.entries(HOURS).map(([value, key]) => html`<option key=${value} value=${value}>${t(key)}</option>`)}
        </select>
      </label>
      ${link && html`<${Link} address=${link} />`}
      <footer>
        <button type="button" onClick=${close}>${t("dialog.close")}</button>
        <button type="submit" class=${link ? "" : "primary"}>${t("share.create")}</button>
      </footer>
    </form>
  <//>`;
}

/** @param {Event} event */
function valueOf(event) {
  return /** @type {HTMLSelectElement} */ (event.target).value;
}

/** A link, which is shown this once. @param {{ address: string }} props */
function Link({ address }) {
  return html`<div class="share-link">
    <input readonly aria-label=${t("share.link")} value=${address}
      onFocus=${(/** @type {FocusEvent} */ event) => /** @type {HTMLInputElement} */ (event.target).select()} />
    <button type="button" class="primary" onClick=${() => copy(address)}>
      <${Icon} name="copy" />${t("share.copy")}
    </button>
  </div>`;
}

/** @param {{ shares: Share[], revoke: (id: string) => void }} props */
function Shares({ shares, revoke }) {
  return html`<ul class="share-list" aria-label=${t("share.links")}>
    ${shares.map(
      (each) => html`<li key=${each.share_id}>
        <span>${t("share.until", { from: moment(each.created_at), until: moment(each.expires_at) })}</span>
        <button type="button" class="quiet" onClick=${() => revoke(each.share_id)}>${t("share.revoke")}</button>
      </li>`,
    )}
  </ul>`;
}
