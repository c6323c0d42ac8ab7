/** What the vendored file exports: htm bound to Preact, and Preact's hooks. */
import type { VNode } from "preact";

export { Component, createContext, h, render } from "preact";
export * from "preact/hooks";
export function html(strings: TemplateStringsArray, ...values: unknown[]): VNode;
