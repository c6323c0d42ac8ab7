// @ts-check
/** The pages of the workspace: what concerns all conversations, each with an address of its own. */
import { componentsOf, pages } from "../panels/index.js";
import { pageAddress, route } from "../state/router.js";
import { useRead } from "../state/signals.js";
import { store } from "../state/store.js";
import { t, textOf } from "../texts/index.js";
import { html, useEffect, useRef } from "../vendor/htm-preact.js";
import { SidebarButton } from "./header.js";
import { loadStyleSheets } from "./style-sheets.js";

await loadStyleSheets("workspace");

const loaded = componentsOf(pages);

export function Workspace() {
  const { page, names } = useRead(() => route.value);
  const reachable = useRead(() => store.reachable.value);
  const name = textOf(`panel.${page}`, page);
  useEffect(() => {
    document.title = `${[...names, name].join(" · ")} · Segue`;
  }, [page, ...names]);
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => void nav.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }), [page]);
  return html`<header class="bar">
      <${SidebarButton} />
      <h1>${t("inspector.workspace")}</h1>
      ${!reachable && html`<p class="lost" role="status">${t("connection.lost")}</p>`}
    </header>
    <div class="workspace">
      <nav class="pages" ref=${nav} aria-label=${t("inspector.workspace")}>
        ${pages.map(
          ({ key }) => html`<a key=${key} href=${pageAddress(key)} aria-current=${key === page ? "page" : undefined}>
            ${textOf(`panel.${key}`, key)}
          </a>`,
        )}
      </nav>
      <section class="panel" key=${page} tabindex="0" aria-label=${name}>
        <h2>${name}</h2>
        <${loaded.get(page)} names=${names} />
      </section>
    </div>`;
}
