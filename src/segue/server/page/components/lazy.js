// @ts-check
/** A component that is loaded when it is first shown, and again while it cannot be. */
import { t } from "../texts/index.js";
import { html, useEffect, useState } from "../vendor/htm-preact.js";

/** Milliseconds between two attempts. */
const RETRY_AFTER = 2_000;

/** @param {() => Promise<unknown>} load the component itself, or a module's default */
export function lazy(load) {
  /** @type {unknown} */
  let Loaded = null;
  return (/** @type {object} */ props) => {
    const [state, setState] = useState(Loaded ? "loaded" : "loading");
    useEffect(() => {
      let retry = 0;
      let isShown = !Loaded;
      const attempt = () =>
        load().then(
          (component) => {
            Loaded = component;
            setState("loaded");
          },
          () => {
            setState("failed");
            if (isShown) retry = window.setTimeout(attempt, RETRY_AFTER);
          },
        );
      if (isShown) void attempt();
      return () => {
        isShown = false;
        clearTimeout(retry);
      };
    }, []);
    if (state === "failed") return html`<p class="empty" role="alert">${t("app.notLoaded")}</p>`;
    return state === "loaded" ? html`<${Loaded} ...${props} />` : null;
  };
}
