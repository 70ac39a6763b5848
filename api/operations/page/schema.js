// Schemas as nested lists of members. A reference is drawn once on its way down, so that a circle ends.
let components = {};
const named = ref => ref.split("/").at(-1);

function typeOf(schema = {}) {
  if (schema.$ref) return named(schema.$ref);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map(one => JSON.stringify(one)).join(" | ");
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return several.map(typeOf).join(" | ");
  if (schema.type === "array") return `list of ${typeOf(schema.items)}`;
  return [schema.type ?? "any"].flat().join(" | ") + (schema.format ? ` (${schema.format})` : "");
}

function bounds({minimum, maximum, minLength, maxLength, minItems, maxItems, pattern, default: usual}) {
  const said = [];
  if (minimum !== undefined || maximum !== undefined) said.push(`from ${minimum ?? "any"} to ${maximum ?? "any"}`);
  if (minLength || maxLength) said.push(`${minLength ?? 0} to ${maxLength ?? "any number of"} characters`);
  if (minItems || maxItems) said.push(`${minItems ?? 0} to ${maxItems ?? "any number of"} items`);
  if (pattern) said.push(`matches ${pattern}`);
  if (usual !== undefined && usual !== null) said.push(`${JSON.stringify(usual)} if left out`);
  return said.join("; ");
}

function objectsIn(schema = {}) {
  if (schema.$ref) return [named(schema.$ref)];
  return [...(schema.anyOf ?? schema.oneOf ?? schema.allOf ?? []), ...(schema.items ? [schema.items] : []),
    ...(typeof schema.additionalProperties === "object" ? [schema.additionalProperties] : [])].flatMap(objectsIn);
}

function members(schema = {}, seen = []) {
  const own = schema.$ref ? components[named(schema.$ref)] ?? {} : schema, properties = Object.entries(own.properties ?? {});
  const way = schema.$ref ? [...seen, named(schema.$ref)] : seen;
  if (!properties.length) {
    const inner = objectsIn(own).filter(name => !way.includes(name));
    return inner.length ? inner.map(name => [make("p", {class: "quiet"}, name), members({$ref: "#/" + name}, way)]).flat() : [make("p", {class: "quiet"}, typeOf(own))];
  }
  return [make("ul", {class: "members"}, properties.map(([name, one]) => {
    const further = [...new Set(objectsIn(one))].filter(inner => !way.includes(inner) && components[inner]?.properties);
    return make("li", null, make("code", null, name), " ", make("span", {class: "type"}, short(typeOf(one), 160)),
      (own.required ?? []).includes(name) ? make("span", {class: "needed"}, " required") : "",
      make("span", null, [one.description, bounds(one)].filter(Boolean).map(text => " – " + text).join("")),
      further.map(inner => fold(inner, () => members({$ref: "#/" + inner}, way))));
  }))];
}

// What is folded is drawn when it is unfolded.
function fold(title, inner) {
  const made = make("details", null, make("summary", null, title));
  made.addEventListener("toggle", () => made.append(...inner()), {once: true});
  return made;
}
