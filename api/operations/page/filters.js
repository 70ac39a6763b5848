// Checkboxes with counts, and ranges of dates and numbers. A facet is counted without its own conditions, so that the
// counts say what else could be chosen.
const profiles = new Map(), FEW = 6, MANY = 60, MOST_FACETS = 10, LEAST = .25, DOUBLED = {dateModified: "updated_at"};
const expanded = new Set(), wide = matchMedia("(min-width: 62.01rem)");

async function profiled(name, signal) {
  if (!name || profiles.has(name) || !about.endpoints?.profile) return;
  profiles.set(name, await ask(`collections/${encode(name)}/profile`, {signal}));
}

function offered(name) {
  const facets = profiles.get(name)?.facets ?? [], names = new Set(facets.map(one => one.field));
  return facets.filter(one => !names.has(DOUBLED[one.field])).slice(0, MOST_FACETS);
}

const asked = name => offered(name).map(({field}) => ({field, limit: expanded.has(field) ? MANY : FEW + 1, exclude_own: true}));

function readable(field, others = []) {
  if (field === "updated_at") return "Date";
  const words = one => one.split(".").filter(word => word !== "name"), last = words(field).at(-1);
  const alike = others.filter(one => words(one.field).at(-1) === last).length > 1;
  const text = words(field).slice(alike ? -2 : -1).join(" ").replace(/[_-]/g, " ").replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return text ? text[0].toUpperCase() + text.slice(1) : field;
}

// A field that few of the documents have is offered once it is chosen, or once a filter leaves more that have it.
const worth = (field, facet) => facet && (facet.documents - facet.missing >= facet.documents * LEAST || field in state.filters || field in state.ranges);

const plain = value => typeof value === "boolean" ? (value ? "yes" : "no") : String(value).replace(/^https?:\/\/schema\.org\/(?=.)/, "");

function count({facets = {}}, name) {
  const focused = document.activeElement?.dataset.mark;
  const groups = offered(name).map(({field, kind}) => worth(field, facets[field]) && (kind === "value" ? ticks(field, facets[field]) : range(field, kind, facets[field])));
  const number = Object.values(state.filters).flat().length + Object.keys(state.ranges).length;
  part.facets.replaceChildren(...groups.filter(Boolean));
  part.filters.hidden = !part.facets.childElementCount && !number;
  part.filters.open ||= wide.matches;
  part.chosen.textContent = number ? `${number} chosen` : "";
  part.clear.hidden = !number;
  if (focused) [...part.facets.querySelectorAll("[data-mark]")].find(one => one.dataset.mark === focused)?.focus();
}

function group(field, ...inner) {
  return make("fieldset", null, make("legend", null, readable(field, offered(known()?.name))), ...inner);
}

function ticks(field, {values, distinct}) {
  // Values that look alike, such as InStock with and without the address of schema.org, are one choice.
  const chosen = state.filters[field] ?? [], listed = new Map();
  for (const {value, count} of [...values.slice(0, expanded.has(field) ? MANY : FEW), ...chosen.map(value => ({value, count: 0}))]) {
    const {alike = [], most = 0} = listed.get(plain(value)) ?? {};
    listed.set(plain(value), {alike: [...new Set([...alike, value])], most: Math.max(most, count)});
  }
  if (listed.size < 2 && !chosen.length) return;
  const rows = [...listed].map(([label, {alike, most}]) => {
    const tick = make("input", {type: "checkbox", checked: alike.some(one => chosen.includes(one)), "data-mark": field + "=" + label});
    tick.onchange = () => {
      const kept = chosen.filter(one => !alike.includes(one)), filters = {...state.filters, [field]: tick.checked ? [...kept, ...alike] : kept};
      go({...state, filters});
    };
    return make("label", {class: "tick"}, tick, make("span", null, short(label, 80)), make("span", {class: "count"}, most.toLocaleString()));
  });
  const more = make("button", {type: "button", class: "plain", hidden: distinct <= FEW || expanded.has(field), "aria-label": `More: ${readable(field)}`}, "More");
  more.onclick = () => { expanded.add(field); search() };
  return group(field, make("div", null, rows), more);
}

function range(field, kind, {min, max}) {
  const chosen = state.ranges[field] ?? {};
  if ((min === undefined || min === max) && !chosen.from && !chosen.to) return;
  const ends = ["from", "to"].map(end => {
    const bound = String((end === "from" ? min : max) ?? ""), box = make("input", kind === "date"
      ? {type: "date", value: chosen[end] ?? "", "data-mark": field + end}
      : {type: "number", step: "any", value: chosen[end] ?? "", placeholder: bound, "data-mark": field + end});
    box.onchange = () => {
      const {[end]: gone, ...kept} = chosen, made = box.value ? {...kept, [end]: box.value} : kept;
      const {[field]: former, ...others} = state.ranges;
      go({...state, ranges: Object.keys(made).length ? {...others, [field]: made} : others});
    };
    return make("label", null, end === "from" ? "From" : "To", box);
  });
  return group(field, make("div", {class: "range"}, ends));
}

part.clear.onclick = () => { go({...state, filters: {}, ranges: {}}); part.query.focus() };
const unfold = () => { if (wide.matches) part.filters.open = true };
part.filters.ontoggle = unfold;
wide.onchange = unfold;
