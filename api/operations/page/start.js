// Without an organization the collections say what this is: they are named after folders.
const site = () => about.organization ?? (collections[3] || !collections[0] ? "Search" : collections.map(one => one.name).join(" · "));
let from = "";

// The link that led to a document, once it is there again.
function returned() {
  const link = from && [...document.querySelectorAll("main a")].find(one => one.hash === from && one.getClientRects().length);
  if (from && document.activeElement !== part.query) (link || part.title).focus();
  from = "";
}

async function start() {
  const signal = begin();
  let failed;
  working("Loading …");
  [about, {collections}] = await Promise.all([
    ask(".well-known/ai-discovery", {signal}).catch(() => ({})),
    ask("collections", {signal}).catch(error => { failed = error; return {collections: []} }),
  ]);
  if (signal.aborted) return;
  quiet("");
  answers.clear();
  profiles.clear();
  part.home.textContent = site();
  part.access.hidden = about.auth?.type === "none" && !key;
  part.collection.replaceChildren(...(collections[1] ? [new Option("all collections", ALL)] : []), ...collections.map(one => new Option(one.name)));
  if (failed) tell(failed, start);
  else show();
}

// Shows what the address says. Focus follows where a view changes, and comes back to the link that was followed.
function show() {
  const before = state, collection = (state = read(), known()), ways = waysOf(searched()[0]).filter(way => searched().every(one => one.modes.includes(way)));
  const view = state.doc ? "read" : state.view || (state.q ? "search" : "start");
  const left = view !== (document.body.className || view);
  document.body.className = view;
  begin();
  if (view !== "read") part.main.prepend(part.title);
  for (const [id, name] of [["searching", "search"], ["landing", "start"], ["reading", "read"], ["browsing", "browse"], ["coding", "code"]]) part[id].hidden = view !== name;
  part.search.hidden = view === "browse";
  if (document.activeElement !== part.query || view !== "search") part.query.value = state.q;
  part.collection.value = collection?.name ?? ALL;
  part.where.hidden = collections.length < 2;
  part.mode.replaceChildren(...ways.map(one => new Option(WAYS[one], one)));
  part.mode.selectedIndex = Math.max(0, ways.indexOf(state.by));
  part.how.hidden = ways.length < 2;
  part.toresults.hidden = view !== "search";
  part.skip.textContent = view === "search" ? "Skip to the results" : "Skip to the content";
  sorts();
  const shared = {q: state.q, in: state.in, by: state.by, sort: state.sort, filters: state.filters, ranges: state.ranges};
  part.tosearch.href = fragment(shared);
  part.tocode.href = fragment({...shared, view: "code"});
  for (const [id, names] of [["tosearch", ["search", "start", "read"]], ["tobrowse", ["browse"]], ["tocode", ["code"]]])
    names.includes(view) ? part[id].setAttribute("aria-current", "page") : part[id].removeAttribute("aria-current");
  part.title.textContent = view === "search" ? `Results for ${state.q}` : site();
  document.title = (state.q && state.q + " – ") + site();
  part.about.hidden = view !== "start" && view !== "code";
  part.about.textContent = view === "code" ? "Each example asks what you asked here, and runs as it is." : collections.length > 1 || !collection ? "" : `${collection.description ?? ""} ${many(collection.document_count, "document")}.`;
  if (view === "start") {
    part.landing.replaceChildren(collections.length > 1 ? cards() : collections.length ? "" : make("p", {class: "notice"}, "There is nothing here that you may search. An access key may open more."));
    part.results.replaceChildren();
  }
  ({search, read: open, browse, code, start: () => {}})[view]();
  if (left && view !== "read" && !(before.doc && from) && document.activeElement !== part.query) part.title.focus();
}

part.main.addEventListener("click", event => {
  const link = event.target.closest("a[href^='#']");
  if (link && new URLSearchParams(link.hash.slice(1)).has("doc")) from = link.hash;
});
part.mode.onchange = () => go({...state, by: part.mode.selectedIndex > 0 ? part.mode.value : undefined});
part.collection.onchange = () => go({...state, in: part.collection.value, by: undefined, sort: undefined, filters: {}, ranges: {}, of: undefined, doc: undefined, at: undefined});
part.sort.onchange = () => go({...state, sort: part.sort.value || undefined});
part.skip.onclick = part.toresults.onclick = event => {
  event.preventDefault();
  const first = document.body.className === "search" && [...part.searching.querySelectorAll("h2 a, #nearest")].find(one => one.getClientRects().length);
  (first || part.main).focus();
};
part.access.onclick = () => { part.key.value = key; part.wrong.textContent = ""; part.keys.showModal() };
part.cancel.onclick = () => part.keys.close();
part.keyform.onsubmit = event => {
  event.preventDefault();
  const given = part.key.value.trim();
  if (/[^!-~]/.test(given)) { part.wrong.textContent = "A key has no such characters."; return }
  useKey(given);
  part.keys.close();
  start();
};
onpopstate = () => { typed = false; show() };
onkeydown = event => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, dialog")) return;
  event.preventDefault();
  if (part.search.hidden) go({...state, view: "", of: undefined, doc: undefined, at: undefined});
  part.query.select();
};
if (!here().endsWith("/")) history.replaceState(null, "", here() + "/" + location.search + location.hash);
part.search.hidden = false;
part.title.tabIndex = -1;
part.query.value = state.q;
if (!state.q && !state.doc && !state.view && matchMedia("(hover: hover)").matches) part.query.focus();
start();
