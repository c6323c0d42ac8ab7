// @ts-check
/** A picture on a canvas: a key cannot go with the address of an image. */
import { request } from "../state/api.js";
import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";

/** @param {{ path: string, label: string, name: string, instead: unknown }} props */
export function Picture({ path, label, name, instead }) {
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const [isGone, setGone] = useState(false);
  useEffect(() => void draw(canvas.current, path).catch(() => setGone(true)), [path]);
  if (isGone) return instead;
  return html`<canvas class=${name} ref=${canvas} role="img" aria-label=${label} title=${label}></canvas>`;
}

/** @param {HTMLCanvasElement | null} canvas @param {string} path */
async function draw(canvas, path) {
  const response = await request("GET", path);
  const picture = await createImageBitmap(await response.blob());
  if (!canvas) return;
  canvas.width = picture.width;
  canvas.height = picture.height;
  canvas.getContext("2d")?.drawImage(picture, 0, 0);
}
