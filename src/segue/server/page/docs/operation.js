// @ts-check
/** One operation of the API: what it takes, what it answers, and how to call it. */
import { home } from "../state/api.js";
import { t } from "../texts/index.js";
import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { Fields } from "./fields.js";
import { Prose } from "./prose.js";
import { exampleOf, typeOf } from "./spec.js";

/** @import { Answer, Content, Operation, Spec } from "./spec.js" */

/** @param {{ operation: Operation, spec: Spec }} props */
export function OperationView({ operation, spec }) {
  const { id, method, path, description, parameters, body, answers } = operation;
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    const look = () => location.hash === `#${id}` && setOpen(true);
    look();
    addEventListener("hashchange", look);
    return () => removeEventListener("hashchange", look);
  }, [id]);
  return html`<details
    class="operation"
    id=${id}
    open=${isOpen}
    onToggle=${(/** @type {Event} */ event) => setOpen(/** @type {HTMLDetailsElement} */ (event.currentTarget).open)}
  >
    <summary>
      <span class="method" data-method=${method}>${method}</span>
      <code>${path}</code>
      <span class="about"><${Prose} text=${description} /></span>
    </summary>
    ${isOpen &&
    html`<p><${Prose} text=${description} /></p>
      ${parameters.length > 0 && html`<${Parameters} parameters=${parameters} />`}
      ${body && html`<${Body} body=${body} spec=${spec} />`}
      <h3>${t("docs.call")}</h3>
      <pre tabindex="0">${commandOf(operation, spec)}</pre>
      <h3>${t("docs.answers")}</h3>
      ${answers.map((answer) => html`<${AnswerView} key=${answer.status} answer=${answer} spec=${spec} />`)}`}
  </details>`;
}

/** @param {{ parameters: Operation["parameters"] }} props */
function Parameters({ parameters }) {
  return html`<h3>${t("docs.parameters")}</h3>
    <dl class="fields">
      ${parameters.map(
        ({ name, in: place, required, description, schema }) => html`<div key=${name}>
          <dt><code>${name}</code>${required && html`<b class="required">${t("docs.required")}</b>`}</dt>
          <dd>
            <code class="type">${typeOf(schema)}</code> <span class="about">${place}${defaultOf(schema)}</span>
            ${description && html`<p><${Prose} text=${description} /></p>`}
          </dd>
        </div>`,
      )}
    </dl>`;
}

/** @param {import("./spec.js").Schema} schema */
function defaultOf(schema) {
  return "default" in schema && schema.default !== "" ? ` = ${JSON.stringify(schema.default)}` : "";
}

/** @param {{ body: Content, spec: Spec }} props */
function Body({ body, spec }) {
  return html`<h3>${t("docs.body")} <span class="about">${body.type}</span></h3>
    <${Fields} schema=${body.schema} spec=${spec} />`;
}

/** @param {{ answer: Answer, spec: Spec }} props */
function AnswerView({ answer, spec }) {
  const { status, description, content } = answer;
  const isGood = status.startsWith("2");
  const summary = html`<b class="status" data-good=${isGood}>${status}</b> <span>${description}</span>`;
  if (!content || !isGood) return html`<p class="answer">${summary}</p>`;
  return html`<details class="answer">
    <summary>${summary} <span class="about">${content.type}</span></summary>
    <${Fields} schema=${content.schema} spec=${spec} />
  </details>`;
}

/**
 * A command line that calls the operation.
 *
 * @param {Operation} operation
 * @param {Spec} spec
 */
function commandOf({ method, path, parameters, body }, spec) {
  const filled = parameters.reduce(
    (address, { name, in: place, schema }) =>
      place === "path" ? address.replace(`{${name}}`, String(schema.examples?.[0] ?? name.toUpperCase())) : address,
    path,
  );
  const query = parameters.filter(({ in: place, required }) => place === "query" && required);
  const asked = query.map(({ name }, place) => `${place ? "&" : "?"}${name}=${name.toUpperCase()}`).join("");
  const verb = method === "get" ? "" : ` -X ${method.toUpperCase()}`;
  const lines = [`curl${verb} '${home()}${filled}${asked}'`];
  if (body?.type === "application/json") {
    lines.push("-H 'Content-Type: application/json'", `-d '${JSON.stringify(exampleOf(spec, body.schema))}'`);
  } else if (body) lines.push("--data-binary @FILE");
  return lines.join(" \\\n  ");
}
