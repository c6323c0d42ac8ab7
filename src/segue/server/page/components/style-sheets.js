// @ts-check
/** Style sheets that are loaded with the first module that needs them. */

/** Load style sheets, by their names; one that cannot be loaded is left out. @param {string[]} names */
export function loadStyleSheets(...names) {
  return Promise.all(
    names.map(
      (name) =>
        new Promise((resolve) => {
          const link = document.createElement("link");
          link.rel = "stylesheet";
          link.href = new URL(`../styles/${name}.css`, import.meta.url).href;
          link.onload = link.onerror = resolve;
          document.head.append(link);
        }),
    ),
  );
}
