// @ts-check
/** The fields of an object's schema; those of an object inside it on demand. */
import { t } from "../texts/index.js";
import { html, useState } from "../vendor/htm-preact.js";
import { Prose } from "./prose.js";
import { objectIn, typeOf } from "./spec.js";

/** @import { Schema, Spec } from "./spec.js" */

/** @param {{ schema: Schema, spec: Spec }} props */
export function Fields({ schema, spec }) {
  const whole = objectIn(spec, schema);
  if (!whole) return html`<p><code class="type">${typeOf(schema)}</code></p>`;
  return html`${whole.description && html`<p class="about"><${Prose} text=${whole.description} /></p>`}
    <dl class="fields">
      ${Object.entries(whole.properties).map(
        ([name, field]) => html`<${Field}
          key=${name}
          name=${name}
          field=${field}
          isRequired=${whole.required?.includes(name)}
          spec=${spec}
        />`,
      )}
    </dl>`;
}

/** @param {{ name: string, field: Schema, isRequired: boolean, spec: Spec }} props */
function Field({ name, field, isRequired, spec }) {
  const [isOpen, setOpen] = useState(false);
  const inner = objectIn(spec, field);
  const type = html`<code class="type">${typeOf(field)}</code>`;
  return html`<div>
    <dt><code>${name}</code>${isRequired && html`<b class="required">${t("docs.required")}</b>`}</dt>
    <dd>
      ${inner
        ? html`<button type="button" class="quiet" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
            ${type}
          </button>`
        : type}
      ${field.description && html`<p><${Prose} text=${field.description} /></p>`}
      ${inner && isOpen && html`<${Fields} schema=${inner} spec=${spec} />`}
    </dd>
  </div>`;
}
