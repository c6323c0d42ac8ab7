// @ts-check
/** An OpenAPI document, as the page shows it. */

/**
 * @typedef {Record<string, any>} Schema
 * @typedef {{ info: { title: string, description: string }, components: { schemas: Record<string, Schema> },
 *   paths: Record<string, Record<string, any>> }} Spec
 * @typedef {{ name: string, in: string, required?: boolean, description?: string, schema: Schema }} Parameter
 * @typedef {{ type: string, schema: Schema, required: boolean }} Content
 * @typedef {{ status: string, description: string, content: Content | null }} Answer
 * @typedef {{ id: string, method: string, path: string, title: string, description: string, tag: string,
 *   parameters: Parameter[], body: Content | null, answers: Answer[] }} Operation
 * @typedef {{ tag: string, operations: Operation[] }} Group
 */

/**
 * The operations by their tag; with a search only those whose path or description contains it.
 *
 * @param {Spec} spec
 * @param {string} search in small letters
 * @returns {Group[]}
 */
export function groupsOf(spec, search) {
  const all = Object.entries(spec.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, given]) => operationOf(path, method, given)),
  );
  const found = all.filter(({ path, description }) => `${path} ${description}`.toLowerCase().includes(search));
  return [...Map.groupBy(found, ({ tag }) => tag)].map(([tag, operations]) => ({ tag, operations }));
}

/**
 * @param {string} path
 * @param {string} method
 * @param {Record<string, any>} given
 * @returns {Operation}
 */
function operationOf(path, method, given) {
  const { operationId: id, summary: title, description = "", tags, parameters = [], requestBody, responses } = given;
  const answers = Object.entries(responses).map(([status, answer]) => ({
    status,
    description: answer.description,
    content: contentOf(answer),
  }));
  return { id, method, path, title, description, tag: tags[0], parameters, body: contentOf(requestBody), answers };
}

/** @param {{ content?: Record<string, { schema?: Schema, itemSchema?: Schema }>, required?: boolean }} [given] */
function contentOf(given) {
  const [found] = Object.entries(given?.content ?? {});
  if (!found) return null;
  const [type, { schema, itemSchema }] = found;
  return { type, schema: schema ?? itemSchema ?? {}, required: given?.required ?? false };
}

/**
 * The schema itself, where this is a reference to it.
 *
 * @param {Spec} spec
 * @param {Schema} schema
 * @returns {Schema}
 */
export function resolved(spec, schema) {
  return schema.$ref ? spec.components.schemas[nameOf(schema)] : schema;
}

/** @param {Schema} schema */
function nameOf(schema) {
  return String(schema.$ref).split("/").at(-1) ?? "";
}

/**
 * A schema's type in a few words.
 *
 * @param {Schema} schema
 * @returns {string}
 */
export function typeOf(schema) {
  if (schema.$ref) return nameOf(schema).replace(/^(\w+?)_(\w+)_$/, "$1 of $2");
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" | ");
  if (schema.enum) return schema.enum.map((/** @type {unknown} */ value) => JSON.stringify(value)).join(" | ");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.type === "array") return `${typeOf(schema.items ?? {})}[]`;
  return schema.type ?? "any";
}

/**
 * The object schema that a field leads to, if there is one: its own, or that of its items or alternatives.
 *
 * @param {Spec} spec
 * @param {Schema} schema
 * @returns {Schema | null}
 */
export function objectIn(spec, schema) {
  const whole = resolved(spec, schema);
  if (whole.properties) return whole;
  const inner = whole.items ?? whole.anyOf?.find((/** @type {Schema} */ each) => each.$ref || each.items);
  return inner ? objectIn(spec, inner) : null;
}

/**
 * A value that fits the schema: its example, else made of its fields.
 *
 * @param {Spec} spec
 * @param {Schema} schema
 * @returns {unknown}
 */
export function exampleOf(spec, schema) {
  const whole = resolved(spec, schema);
  if (whole.examples) return whole.examples[0];
  if ("default" in whole) return whole.default;
  if (whole.enum) return whole.enum[0];
  if (whole.anyOf) return exampleOf(spec, whole.anyOf[0]);
  if (whole.properties) {
    const required = Object.entries(whole.properties).filter(([name]) => whole.required?.includes(name));
    return Object.fromEntries(required.map(([name, inner]) => [name, exampleOf(spec, inner)]));
  }
  return { array: [], object: {}, integer: 1, number: 1, boolean: true }[/** @type {string} */ (whole.type)] ?? "…";
}
