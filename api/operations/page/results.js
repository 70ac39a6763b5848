const WAYS = {hybrid: "meaning and words", dense: "meaning", lexical: "words"};
const PAGE = 12, SLOW = 1200, KEPT = 60, ALL = "*", MOST = 12, LATER = " descending";
let collections = [], about = {}, state = read(), turn, slowly, waiting, pool = [];
const withheld = new Set(), answers = new Map(), documentOf = id => id.replace(/#chunk_\d+$/, "");

function begin() {
  turn?.abort();
  clearTimeout(waiting);
  part.trouble.hidden = true;
  quiet("");
  return (turn = new AbortController()).signal;
}

function quiet(text, busy = false) {
  clearTimeout(slowly);
  part.status.classList.toggle("slow", busy);
  part.status.textContent = text;
}

// Nothing is said about a search that takes as long as a blink.
function working(what = "Searching …") {
  clearTimeout(slowly);
  slowly = setTimeout(() => {
    quiet(what, true);
    slowly = setTimeout(() => quiet("This takes longer than usual …", true), SLOW * 3);
  }, SLOW / 3);
}

function tell(error, repeat) {
  if (error.name === "AbortError") return;
  const {what, cure, denied} = told(error), {status, seconds} = error;
  part.what.textContent = what;
  part.cure.textContent = cure;
  if (denied) part.access.hidden = false;
  quiet("");
  part.results.classList.remove("old");
  part.trouble.hidden = false;
  part.again.hidden = /^4(?!09|29)/.test(status);
  part.again.disabled = seconds > 0;
  if (seconds < 1e6) waiting = setTimeout(() => part.again.disabled = false, seconds * 1e3);
  part.again.onclick = repeat;
  if (!status) addEventListener("online", () => !part.trouble.hidden && repeat(), {once: true});
}

// The collection that is meant; none where all are searched at once, unless a document of one is shown.
function known() {
  const called = name => collections.find(one => one.name === name);
  return called(state.of ?? state.in) ?? (state.in === ALL && collections[1] ? undefined : called(about.defaults?.collection) ?? (collections[1] ? undefined : collections[0]));
}

// Of many collections the largest.
function searched() {
  const one = known();
  return one ? [one] : [...collections].sort((a, b) => b.document_count - a.document_count).slice(0, MOST);
}

function waysOf(collection) {
  return (collection?.modes ?? []).filter(one => WAYS[one]);
}

function bodyOf(from = state, collection = searched()[0]) {
  const name = collection?.name ?? from.in, filter = filterOf(from), [, field, direction] = /^(.+) ((?:a|de)scending)$/.exec(from.sort) ?? [];
  return {
    query: from.q, collection: name, top_k: PAGE, group: "document",
    ...(waysOf(collection).slice(1).includes(from.by) ? {mode: from.by} : {}),
    ...(field ? {order: {field, direction}} : {}),
    ...("exact" in from ? {correct: false, operators: false} : {}),
    ...(filter ? {filter} : {}),
  };
}

async function find(body, signal) {
  const text = !withheld.has(body.collection), more = text && !body.cursor && known() ? asked(body.collection) : [];
  const remembered = JSON.stringify([body, text, key, more]);
  if (answers.has(remembered)) return answers.get(remembered);
  const sent = {...body, return: {text, metadata: true, image: !("plain" in part.main.dataset)}, ...(text ? {highlight: {snippets: 1}} : {}), ...(more.length ? {facets: more} : {})};
  try {
    const answer = await ask("search", {signal, body: sent});
    answers.set(remembered, answer);
    if (answers.size > KEPT) answers.delete(answers.keys().next().value);
    return answer;
  } catch (error) {
    if (!text || error.error !== "unsupported_return_field") throw error;
    withheld.add(body.collection);
    return find(body, signal);
  }
}

// The next page of each collection whose rows run out. One that fails is left out, unless all do.
async function fill(signal) {
  const wanting = pool.filter(one => one.rows.length < PAGE && (one.cursor || !one.meta));
  const done = await Promise.allSettled(wanting.map(async one => {
    const {results, meta, facets} = await find(one.cursor ? {...one.body, mode: one.meta.mode, cursor: one.cursor} : one.body, signal);
    one.rows.push(...results.map(row => ({...row, of: one})));
    Object.assign(one, {meta, cursor: meta.next_cursor, facets: one.facets ?? facets});
  }));
  if (signal.aborted) return;
  const failed = done.filter(one => one.reason);
  if (failed.length && (!pool[1] || failed.length === wanting.length)) throw failed[0].reason;
  pool = pool.filter(one => one.meta);
}

const fits = ({relevance, of: {meta: {relevance_bound: bound = 0}}}) => !(relevance < bound);

// Each list keeps its order; scores of collections do not compare, relevance and dates do.
function ahead(a, b) {
  if (fits(a) !== fits(b)) return fits(a);
  const key = one => state.sort ? Date.parse(one.metadata?.updated_at) * (state.sort.endsWith(LATER) ? 1 : -1) : one.relevance ?? .5;
  return key(a) > key(b);
}

function taken() {
  const rows = [];
  while (rows.length < PAGE) {
    const lists = pool.filter(one => one.rows.length);
    if (!lists.length) break;
    rows.push(lists.reduce((best, one) => ahead(one.rows[0], best.rows[0]) ? one : best).rows.shift());
  }
  return rows;
}

async function search(further) {
  const signal = begin(), began = performance.now(), collection = known();
  part.results.classList.toggle("old", !further && part.results.childElementCount > 0);
  part.results.setAttribute("aria-busy", "true");
  part.more.disabled = true;
  working();
  try {
    if (!further) pool = searched().map(one => ({body: bodyOf(state, one), rows: []}));
    const profile = collection && profiled(collection.name, signal).catch(() => {});
    await fill(signal);
    if (signal.aborted) return;
    const [first = {}] = pool;
    list(taken(), further, Math.ceil(performance.now() - began));
    if (further) return;
    await profile;
    if (signal.aborted) return;
    sorts();
    const late = collection && !first.facets && asked(collection.name).length && !withheld.has(collection.name);
    const counted = late ? await find({...first.body, top_k: 1}, signal) : first;
    if (!signal.aborted) count(counted, collection?.name);
  } catch (error) {
    if (!signal.aborted) tell(error, () => search(further && error.status !== 409));
  } finally {
    if (!signal.aborted) {
      part.results.setAttribute("aria-busy", "false");
      part.more.disabled = false;
    }
  }
}

// Dates and numbers that the documents of a collection have; where all are searched, the date that each has.
function sorts() {
  const one = known(), fields = one ? offered(one.name).filter(({kind, documents}) => kind !== "value" && documents >= one.document_count * LEAST) : [{field: "updated_at", kind: "date"}];
  const options = fields.flatMap(({field, kind}) => ["descending", "ascending"].map(direction => {
    const [down, up] = kind === "date" ? ["newest", "oldest"] : ["highest", "lowest"];
    return new Option(`${field === "updated_at" ? "" : readable(field, fields) + ", "}${direction === "descending" ? down : up} first`, `${field} ${direction}`);
  }));
  part.sort.replaceChildren(new Option("relevance", ""), ...options);
  part.sort.value = state.sort ?? "";
  part.sorted.hidden = part.sort.length < 2 || document.body.className !== "search";
}

const words = text => ` ${text.toLowerCase().replace(/[^\p{L}\p{M}\p{N}]+/gu, " ").trim()} `;

// How quotes and minus in the query were read, what was answered in its place, and what it may mean; with a link to the
// other. Where no passage has the phrases, their words are answered. Conditions that were read in it, with a link to the
// query without them; others that may be meant, as filters.
function spell({corrected, suggestion, understood: {phrases = [], excluded = [], conditions = []} = {}}, [{text, source} = {}]) {
  const {exact, ...plain} = state, best = words(`${text} ${source?.title} ${source?.section}`), told = [];
  const lacks = corrected && phrases.some(one => !best.includes(words(one)));
  const bold = (...names) => make("b", null, names.join(", ")), found = ["Results for ", bold(corrected)];
  const link = (more, label) => make("a", {href: fragment({...plain, ...more})}, label);
  if (phrases[0]) told.push(lacks ? "No passage has " : "Passages with ", bold(...phrases.map(one => `“${one}”`)), " as it is written");
  if (lacks) told.push(". ", ...found);
  if (excluded[0]) told.push(phrases[0] ? ", without " : "Passages without ", bold(...excluded));
  if (told[0]) told.push(". ");
  if (corrected && !lacks) told.push(...found, ". Search instead for ", link({exact: ""}, state.q), ".");
  else if (told[0] && !lacks) told.push(link({exact: ""}, "Search for the words alone"), ".");
  for (const {words: said, applied, note, filter = {}} of conditions) {
    const [[field, {gte, gt = gte, lte, lt = lte}] = ["", {}]] = Object.entries(filter);
    if (applied) told.push(" Understood: ", bold(said), ". ", link({exact: ""}, "Search as typed"), ".");
    else if (note) told.push(" Nothing fits ", bold(said), ".");
    else if (isFinite(gt ?? lt)) told.push(" ", link({ranges: {...plain.ranges, [field]: {from: gt ?? "", to: lt ?? ""}}}, "Show only " + said), ".");
  }
  if (suggestion) told.push(" Did you mean ", link({q: suggestion}, suggestion), "?");
  part.spelling.replaceChildren(...told);
  part.spelling.hidden = !told[0];
}

let shown = {documents: 0, passages: 0, rest: false};

function list(rows, further, milliseconds) {
  clearTimeout(slowly);
  if (!further) {
    shown = {documents: 0, passages: 0, rest: false};
    part.results.classList.remove("old");
    part.results.replaceChildren();
    spell(rows[0]?.of.meta ?? pool[0]?.meta ?? {}, rows);
  }
  const fresh = [], none = !further && !rows.some(fits), rest = pool.some(one => one.rows.length || one.cursor);
  for (const one of rows) {
    const {passages = []} = one;
    shown.documents++;
    shown.passages += 1 + passages.length;
    if (!none && !fits(one) && !shown.rest) {
      shown.rest = true;
      part.results.append(make("li", {class: "rest"}, "Less certain:"));
    }
    const made = item(one);
    if (one.copies) made.append(copied(one.copies, one.of));
    if (passages.length) made.append(make("ul", {class: "further"}, passages.map(passage => beside(passage, one.source.title, one.of))));
    part.results.append(made);
    fresh.push(made);
  }
  const [{body = {}, meta: {mode} = {}} = {}] = pool;
  const fell = mode === "lexical" && !body.mode && waysOf(searched()[0])[0] !== mode ? ", by words alone" : "";
  const places = known() ? "" : ` in ${pool.length} of ${collections.length} collections`;
  const found = shown.passages ? `${rest ? state.sort ? "The first " : "The best " : ""}${inDocuments(shown.passages, shown.documents)}${fell}${places}` : "";
  part.nothing.hidden = !none;
  part.results.hidden = none;
  part.more.hidden = none || !rest;
  if (none) nothing(rows.length, rest);
  quiet(none ? "Nothing fits" : `${found}, in ${milliseconds.toLocaleString()} ms`);
  part.more.onclick = () => search(true);
  if (further) fresh[0]?.querySelector("h2 a")?.focus();
  else returned();
}

function inDocuments(passages, documents) {
  return (passages > documents ? many(passages, "passage") + " in " : "") + many(documents, "document");
}

function nothing(results, rest) {
  const narrowed = filterOf(state);
  part.none.textContent = results ? "Nothing here seems to fit" : "Nothing was found";
  part.hint.textContent = narrowed ? "Fewer filters may leave more." : "Other words may help" + (known() ? ", or another collection." : ".");
  part.nearest.hidden = !results;
  part.nearest.onclick = () => {
    part.nearest.hidden = part.results.hidden = true;
    part.results.hidden = false;
    part.more.hidden = !rest;
    part.results.querySelector("h2 a")?.focus();
  };
}

// Where all collections are searched the address says of which one the document is.
const opened = (one, {body: {collection}}) => fragment({...state, of: known() ? undefined : collection, doc: documentOf(one.id), at: one.id});

function picture(address) {
  const link = web(address);
  if (!link) return;
  const made = make("img", {alt: "", loading: "lazy", referrerPolicy: "no-referrer", onerror: () => made.remove(), src: link.href});
  return made;
}

function item(one) {
  const {id, of, image, source: {url, title, section}, text, metadata, highlight: {text: words = [], title: ofTitle = [], section: ofSection = [], snippets = []} = {}} = one;
  const made = make("li"), name = title || documentOf(id);
  const heading = make("a", {href: opened(one, of)}, name.length > 300 ? short(name) : marked(name, 0, name.length, title ? units(title, ofTitle) : []));
  const place = section && section !== title ? make("span", null, section.length > 200 ? short(section, 200) : marked(section, 0, section.length, units(section, ofSection))) : "";
  made.append(picture(image) ?? "", path(known() ? "" : of.body.collection, sourceLink(url), metadata?.updated_at && day(metadata.updated_at)),
    make("h2", null, heading), place && make("p", {class: "quiet"}, place));
  if (text) made.append(make("div", {class: "text"}, excerpt(text, units(text, words), units(text, snippets))));
  return made;
}

// Near-copies of a document stand behind it, each a link to its own text.
function copied({count, ids}, of) {
  const links = ids.flatMap((id, number) => [number ? ", " : "", make("a", {href: opened({id}, of)}, short(documentOf(id), 60))]);
  return make("p", {class: "quiet"}, `${many(count, "near-copy", "near-copies")}: `, ...links, count > ids.length ? " …" : "");
}

function beside(one, title, of) {
  const {section, text = "", highlight} = one, [[from, to] = [0, 140]] = units(text, highlight?.snippets ?? []);
  const label = section && section !== title ? section.split(" > ").at(-1) : `Passage ${/\d+$/.exec(one.id) ?? ""}`;
  return make("li", null, make("a", {href: opened(one, of)}, short(label, 120)),
    text ? make("span", {class: "quiet"}, inline(text, from, to, units(text, highlight?.text))) : "");
}

// Arrow keys go through the results, and back to the question.
part.results.onkeydown = event => {
  const links = [...part.results.querySelectorAll("h2 a")], at = links.indexOf(event.target), step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (!step || at < 0) return;
  event.preventDefault();
  (links[at + step] ?? (step < 0 ? part.query : part.more)).focus();
};
