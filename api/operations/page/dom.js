// What comes from outside is put in as text. Addresses are relative, since a proxy may strip a prefix.
const part = Object.fromEntries([...document.querySelectorAll("[id]")].map(one => [one.id, one]));

// What holds texts of documents is written in their direction.
const TEXTS = /^(a|b|p|span|legend|dt|dd|th|td)$/;

function make(tag, more, ...children) {
  const made = document.createElement(tag);
  if (TEXTS.test(tag)) made.dir = "auto";
  for (const [name, value] of Object.entries(more ?? {})) {
    if (value === undefined || value === null) continue;
    if (name in made && !name.includes("-")) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.flat().filter(one => one || one === 0));
  return made;
}

const encode = encodeURIComponent;
// What can be scrolled can be reached by keyboard, and has a name.
const pane = (label, tag, ...inner) => make(tag, {tabIndex: 0, role: "region", "aria-label": label}, ...inner);
const path = (...parts) => make("div", {class: "path"}, ...parts.filter(Boolean).map(one => one.nodeType ? one : said(one)));
const short = (text, most = 300) => text.length > most ? text.slice(0, most) + "…" : text;
const many = (number, one, more = one + "s") => `${number.toLocaleString()} ${number === 1 ? one : more}`;
const said = text => make("span", null, short(text));

// Only what leads into the web becomes a link: no javascript:, no data:.
function web(address) {
  try {
    const url = new URL(address);
    if (/^https?:$/.test(url.protocol)) return url;
  // Otherwise it is shown as it is.
  } catch { }
}

function sourceLink(address, label) {
  const link = web(address);
  if (!link) return address && said(address);
  const place = link.host + decoded(link.pathname).replace(/\/$/, "");
  return make("a", {href: link.href, rel: "noopener noreferrer"}, label ?? short(place, 90));
}

function decoded(text) {
  try { return decodeURI(text) } catch { return text }
}

function day(text) {
  const moment = new Date(typeof text === "number" ? text * 1000 : text);
  if (isNaN(moment)) return text && said(String(text));
  return make("time", {dateTime: moment.toISOString()}, moment.toLocaleDateString(undefined, {dateStyle: "medium"}));
}

function size(bytes) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  const place = Math.min(4, Math.max(0, Math.floor(Math.log10(bytes || 1) / 3)));
  return `${(bytes / 1000 ** place).toLocaleString(undefined, {maximumFractionDigits: place && 1})} ${units[place]}`;
}

function facts(rows) {
  const known = rows.filter(([, value]) => value || value === 0);
  return make("dl", {class: "facts"}, known.flatMap(([name, value]) =>
    [make("dt", null, name), make("dd", null, ...[value].flat())]));
}

// Tabs by the pattern of WAI-ARIA: arrow keys move, and what is reached is shown.
function tabs(label, names, chosen, small, choose) {
  const list = make("div", {class: small ? "tabs small" : "tabs", role: "tablist", "aria-label": label});
  for (const name of names) {
    const tab = make("button", {type: "button", role: "tab", "aria-selected": name === chosen, tabIndex: name === chosen ? 0 : -1}, name);
    tab.onclick = () => choose(name);
    tab.onkeydown = event => {
      const step = {ArrowRight: 1, ArrowLeft: -1, Home: -names.indexOf(name), End: names.length - 1 - names.indexOf(name)}[event.key];
      if (step === undefined) return;
      event.preventDefault();
      choose(names.at((names.indexOf(name) + step) % names.length));
    };
    list.append(tab);
  }
  return list;
}
