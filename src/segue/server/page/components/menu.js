// @ts-check
/** A button that opens a menu: arrow keys, Home, End and Escape work as in any menu. */
import { html, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";
import { Icon } from "./icon.js";

/**
 * @typedef {{ key: string, label: string, about?: string, icon?: string, checked?: boolean, danger?: boolean,
 *   separate?: boolean, disabled?: boolean, act: () => void }} MenuItem
 *   `checked` makes it a choice, `separate` draws a line before it
 * @typedef {{ label: string, button: unknown, items: MenuItem[], class?: string, up?: boolean, right?: boolean,
 *   disabled?: boolean }} MenuProps
 */

/** @param {MenuProps} props */
export function Menu({ label, button, items, class: kind = "", up = false, right = false, disabled = false }) {
  const [isOpen, setOpen] = useState(false);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const menu = useRef(/** @type {HTMLElement | null} */ (null));
  const opener = useRef(/** @type {HTMLButtonElement | null} */ (null));
  useLayoutEffect(() => {
    if (!isOpen || !list.current) return;
    const first = list.current.querySelector("[aria-checked=true]") ?? list.current.querySelector("button");
    /** @type {HTMLElement | null} */ (first)?.focus();
    const closeOutside = (/** @type {Event} */ event) => {
      if (!menu.current?.contains(/** @type {Node} */ (event.target))) setOpen(false);
    };
    document.addEventListener("pointerdown", closeOutside);
    return () => document.removeEventListener("pointerdown", closeOutside);
  }, [isOpen]);
  const close = () => {
    setOpen(false);
    opener.current?.focus();
  };
  return html`<div
    class=${`menu ${kind}`}
    ref=${menu}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => isOpen && onKey(event, list.current, close)}
  >
    <button
      type="button"
      ref=${opener}
      aria-haspopup="menu"
      aria-expanded=${isOpen}
      aria-label=${label}
      title=${label}
      disabled=${disabled}
      onClick=${() => setOpen(!isOpen)}
    >
      ${button}
    </button>
    ${isOpen &&
    html`<div
      class=${`menu-list${up ? " up" : ""}${right ? " right" : ""}`}
      role="menu"
      aria-label=${label}
      ref=${list}
    >
      ${items.map((item) => html`<${Item} key=${item.key} item=${item} close=${close} />`)}
    </div>`}
  </div>`;
}

/** @param {{ item: MenuItem, close: () => void }} props */
function Item({ item, close }) {
  const isChoice = item.checked !== undefined;
  return html`<button
    type="button"
    class=${`menu-item${item.danger ? " danger" : ""}${item.separate ? " separate" : ""}`}
    role=${isChoice ? "menuitemradio" : "menuitem"}
    aria-checked=${isChoice ? item.checked : undefined}
    tabindex="-1"
    disabled=${item.disabled}
    onClick=${() => {
      close();
      item.act();
    }}
  >
    ${item.icon && html`<${Icon} name=${item.icon} />`}
    <span class="menu-text">
      <span>${item.label}</span>
      ${item.about && html`<span class="about">${item.about}</span>`}
    </span>
    ${item.checked && html`<${Icon} name="check" />`}
  </button>`;
}

/**
 * @param {KeyboardEvent} event
 * @param {HTMLElement | null} list
 * @param {() => void} close
 */
function onKey(event, list, close) {
  const all = /** @type {HTMLElement[]} */ ([...(list?.querySelectorAll("button:enabled") ?? [])]);
  const place = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  /** @type {Record<string, () => void>} */
  const keys = {
    ArrowDown: () => all[(place + 1) % all.length].focus(),
    ArrowUp: () => all[(place - 1 + all.length) % all.length].focus(),
    Home: () => all[0].focus(),
    End: () => all[all.length - 1].focus(),
    Escape: close,
    Tab: close,
  };
  if (!keys[event.key]) return;
  event.preventDefault();
  event.stopPropagation();
  keys[event.key]();
}
