// @ts-check
/** What rendered Markdown gains: code in colours, with its language and a button that copies it, and formulas. */
import { t } from "../texts/index.js";
import { html, render } from "../vendor/htm-preact.js";
import { copy } from "./copy.js";
import { IconButton } from "./icon-button.js";

/** Characters of a table's cell that stays in one line. */
const SHORT_CELL = 14;

/** @type {typeof import("../vendor/highlight.js").default | null} */
let highlighter = null;
let hasFormulas = false;

/**
 * Enrich what is about to be shown, with the libraries that are loaded.
 *
 * @param {DocumentFragment} content
 * @returns {Promise<unknown> | null} loads the libraries that it still needs
 */
export function enrich(content) {
  for (const wide of content.querySelectorAll("pre, table")) wide.setAttribute("tabindex", "0");
  for (const cell of content.querySelectorAll("th, td")) {
    if ((cell.textContent ?? "").length > SHORT_CELL) cell.classList.add("long");
  }
  markNote(content.lastElementChild);
  const blocks = [...content.querySelectorAll("pre")];
  const formulas = /** @type {HTMLElement[]} */ ([...content.querySelectorAll("code.math")]);
  blocks.forEach(frame);
  if (hasFormulas) formulas.forEach(typeset);
  const missing = [
    ...(!highlighter && blocks.some((block) => languageOf(block)) ? [loadHighlighter()] : []),
    ...(!hasFormulas && formulas.length ? [loadFormulas()] : []),
  ];
  return missing.length ? Promise.all(missing) : null;
}

/** Mark a last paragraph that is emphasised as a whole: a note on the answer. @param {Element | null} last */
function markNote(last) {
  const first = last?.firstElementChild;
  last?.classList.toggle("note", first?.localName === "em" && first.textContent === last.textContent);
}

async function loadHighlighter() {
  highlighter = (await import("../vendor/highlight.js")).default;
}

async function loadFormulas() {
  await import("../vendor/katex.js");
  hasFormulas = true;
}

/** @param {Element} block */
function languageOf(block) {
  return /^language-(\S+)/.exec(block.firstElementChild?.className ?? "")?.[1] ?? "";
}

/** Put a bar above a block of code. @param {Element} block */
function frame(block) {
  const name = languageOf(block);
  const language = name && highlighter?.getLanguage(name);
  const code = /** @type {HTMLElement} */ (block.firstElementChild);
  if (language) highlighter?.highlightElement(code);
  const [box, bar] = [document.createElement("div"), document.createElement("div")];
  box.className = "code";
  bar.className = "code-bar";
  block.replaceWith(box);
  box.append(bar, block);
  const act = () => copy(block.textContent ?? "");
  const shown = (language && language.name) || name;
  render(html`<span>${shown}</span><${IconButton} icon="copy" label=${t("turn.copyCode")} onClick=${act} />`, bar);
}

/** Show a formula as MathML; one that is not valid stays as it is written. @param {HTMLElement} code */
function typeset(code) {
  const formula = document.createElement("span");
  formula.className = code.className;
  const options = { output: "mathml", displayMode: code.classList.contains("display"), maxSize: 20, strict: "ignore" };
  try {
    globalThis.katex.render(code.textContent ?? "", formula, options);
  } catch {
    return;
  }
  code.replaceWith(formula);
}
