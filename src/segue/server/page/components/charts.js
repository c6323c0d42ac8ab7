// @ts-check
/** Charts that tools drew. */
import { t } from "../texts/index.js";
import { html } from "../vendor/htm-preact.js";
import { Picture } from "./canvas.js";

/** @import { Call } from "../state/types.js" */

/** @param {{ calls: Call[] }} props */
export function Charts({ calls }) {
  const drawn = calls.map((call) => ({ call, name: nameOf(call) })).filter(({ name }) => name);
  return html`${drawn.map(({ call, name }) => html`<${Chart} key=${call.key} call=${call} name=${name} />`)}`;
}

/**
 * The file of the chart that a call drew; empty if it drew none.
 *
 * @param {Call} call
 */
function nameOf({ result }) {
  const { path = "" } = /** @type {{ path?: string }} */ (result?.success ?? {});
  return /([\w-]+\.png)$/.exec(String(path))?.[1] ?? "";
}

/** @param {{ call: Call, name: string }} props */
function Chart({ call, name }) {
  const { file = name } = /** @type {{ file?: string }} */ (call.result?.success ?? {});
  const label = t("turn.chart", { name: file });
  const path = `/api/files/charts/${encodeURIComponent(name)}`;
  const instead = html`<p class="about">${t("turn.chartGone", { name: file })}</p>`;
  return html`<${Picture} path=${path} label=${label} name="chart" instead=${instead} />`;
}
