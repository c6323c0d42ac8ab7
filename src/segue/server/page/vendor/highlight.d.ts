/** What the page uses of the vendored file. */
declare const hljs: {
  getLanguage(name: string): { name?: string } | undefined;
  highlightElement(element: HTMLElement): void;
};
export default hljs;
