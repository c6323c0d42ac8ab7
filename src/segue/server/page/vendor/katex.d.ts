/** What the vendored file puts into the global scope, as far as the page uses it. */
declare global {
  var katex: { render(tex: string, element: HTMLElement, options: Record<string, unknown>): void };
}
export {};
