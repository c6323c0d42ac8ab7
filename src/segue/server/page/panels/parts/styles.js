// @ts-check
/** The panels' style sheets, which are loaded with the first panel that needs them. */

const SHEETS = ["panels", "panel-graph", "panel-lists", "panel-records"];

await Promise.all(
  SHEETS.map(
    (name) =>
      new Promise((resolve) => {
        const link = document.createElement("link");
        link.rel = "stylesheet";
        link.href = `/page/styles/${name}.css`;
        link.onload = link.onerror = resolve;
        document.head.append(link);
      }),
  ),
);

export {};
