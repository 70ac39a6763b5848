// The fragment says what is shown, since no server sees it; ?q= is understood as well. A key is never in it.
const VIEWS = ["browse", "code"];

function read() {
  const given = new URLSearchParams(location.hash.length > 1 ? location.hash.slice(1) : location.search);
  const state = {filters: Object.create(null), ranges: Object.create(null)};
  for (const [name, value] of given) {
    const [kind, ...field] = name.split(":");
    if (!field.length) state[kind] = value;
    else if (kind === "is") (state.filters[field.join(":")] ??= []).push(valueOf(value));
    else if (kind === "from" || kind === "to") (state.ranges[field.join(":")] ??= {})[kind] = value;
  }
  state.q = (state.q ?? "").trim();
  state.view = VIEWS.includes(state.view) ? state.view : "";
  return state;
}

// A value that is no string, or looks like one that is none, is written as JSON.
const MARK = "json:";
const written = value => typeof value === "string" && !value.startsWith(MARK) ? value : MARK + JSON.stringify(value);
function valueOf(text) {
  if (!text.startsWith(MARK)) return text;
  try { return JSON.parse(text.slice(MARK.length)) } catch { return text }
}

function fragment({filters = {}, ranges = {}, ...plain}) {
  const made = new URLSearchParams();
  for (const name of ["view", "q", "in", "by", "sort", "exact", "of", "doc", "at"])
    if (plain[name] || plain[name] === "" && name === "exact") made.set(name, plain[name]);
  for (const [field, values] of Object.entries(filters)) for (const value of values) made.append("is:" + field, written(value));
  for (const [field, range] of Object.entries(ranges))
    for (const end of ["from", "to"]) if (range[end]) made.set(`${end}:${field}`, range[end]);
  return "#" + made;
}

// What is typed replaces its own entry of the history, what is chosen makes one.
let typed = false;
function go(state, typing = false) {
  const address = here() + fragment(state);
  if (address !== location.href) {
    if (typing && typed) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    typed = typing;
  } else if (!typing) typed = false;
  show();
}

function filterOf({filters, ranges}) {
  const all = Object.entries(filters).filter(([, values]) => values.length).map(([field, values]) => ({[field]: {in: values}}));
  for (const [field, {from, to}] of Object.entries(ranges)) {
    const isNumber = ![from, to].some(one => /^\d{4}-\d\d-\d\d$/.test(one)), end = {};
    if (from) end.gte = isNumber ? +from : from + "T00:00:00Z";
    if (to && isNumber) end.lte = +to;
    else if (to) end.lt = following(to);
    if (Object.values(end).every(one => typeof one === "string" || isFinite(one)) && (from || to)) all.push({[field]: end});
  }
  return all.length ? {and: all} : undefined;
}

const following = date => isNaN(Date.parse(date)) ? date : new Date(Date.parse(date) + 864e5).toISOString().slice(0, 19) + "Z";
