/** What the vendored file exports. */
export * from "@preact/signals-core";
