const WAYS = {hybrid: "meaning and words", dense: "meaning", lexical: "words"};
const PAGE = 12, SLOW = 1200, KEPT = 30;
let collections = [], about = {}, state = read(), turn, slowly, waiting;
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

const known = () => collections.find(one => one.name === state.in) ?? collections.find(one => one.name === about.defaults?.collection) ?? collections[0];

function waysOf(collection) {
  return (collection?.modes ?? []).filter(one => WAYS[one]);
}

function bodyOf(from = state) {
  const collection = known(), name = collection?.name ?? from.in, filter = filterOf(from);
  return {
    query: from.q, collection: name, top_k: PAGE, group: "document",
    ...(waysOf(collection).slice(1).includes(from.by) ? {mode: from.by} : {}),
    ...("exact" in from ? {correct: false, operators: false} : {}),
    ...(filter ? {filter} : {}),
  };
}

async function find(body, signal) {
  const text = !withheld.has(body.collection), more = text && !body.cursor ? asked(body.collection) : [];
  const remembered = JSON.stringify([body, text, key, more]);
  if (answers.has(remembered)) return answers.get(remembered);
  const sent = {...body, return: {text, metadata: true}, ...(text ? {highlight: {snippets: 1}} : {}), ...(more.length ? {facets: more} : {})};
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

async function search(cursor) {
  const signal = begin(), began = performance.now();
  part.results.classList.toggle("old", !cursor && part.results.childElementCount > 0);
  part.results.setAttribute("aria-busy", "true");
  part.more.disabled = true;
  working();
  try {
    const body = {...bodyOf(), ...cursor}, profile = profiled(body.collection, signal).catch(() => {});
    const answer = await find(body, signal);
    if (signal.aborted) return;
    list(answer, body, Math.ceil(performance.now() - began));
    if (cursor) return;
    await profile;
    if (signal.aborted) return;
    const late = !answer.facets && asked(body.collection).length && !withheld.has(body.collection);
    const counted = late ? await find({...body, top_k: 1}, signal) : answer;
    if (!signal.aborted) count(counted, body);
  } catch (error) {
    if (!signal.aborted) tell(error, () => search(error.status === 409 ? undefined : cursor));
  } finally {
    if (!signal.aborted) {
      part.results.setAttribute("aria-busy", "false");
      part.more.disabled = false;
    }
  }
}

const words = text => ` ${text.toLowerCase().replace(/[^\p{L}\p{M}\p{N}]+/gu, " ").trim()} `;

// How quotes and minus in the query were read, what was answered in its place, and what it may mean; with a link to the
// other. Where no passage has the phrases, their words are answered. Conditions that were read in it, with a link to the
// query without them; others that may be meant, as filters.
function spell({corrected, suggestion, understood: {phrases = [], excluded = [], conditions = []} = {}}, [{text, source} = {}]) {
  const {exact, ...plain} = state, best = words(`${text} ${source?.title} ${source?.section}`), told = [];
  const lacks = corrected && phrases.some(one => !best.includes(words(one)));
  const bold = (...names) => make("b", {dir: "auto"}, names.join(", ")), found = ["Results for ", bold(corrected)];
  const link = (more, label) => make("a", {href: fragment({...plain, ...more}), dir: "auto"}, label);
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

function list({results, meta}, body, milliseconds) {
  const {mode, next_cursor: cursor, relevance_bound: bound = 0} = meta, fits = one => !(one.relevance < bound);
  clearTimeout(slowly);
  if (!body.cursor) {
    shown = {documents: 0, passages: 0, rest: false};
    part.results.classList.remove("old");
    part.results.replaceChildren();
    spell(meta, results);
  }
  const fresh = [], none = !body.cursor && !results.some(fits);
  for (const one of results) {
    const {passages = []} = one;
    shown.documents++;
    shown.passages += 1 + passages.length;
    if (!none && !fits(one) && !shown.rest) {
      shown.rest = true;
      part.results.append(make("li", {class: "rest"}, "Less certain:"));
    }
    const made = item(one);
    if (one.copies) made.append(copied(one.copies));
    if (passages.length) made.append(make("ul", {class: "further"}, passages.map(passage => further(passage, one.source.title))));
    part.results.append(made);
    fresh.push(made);
  }
  const fell = mode === "lexical" && !body.mode && waysOf(known())[0] !== mode ? ", by words alone" : "";
  const found = shown.passages ? `${cursor ? "The best " : ""}${inDocuments(shown.passages, shown.documents)}${fell}` : "";
  part.nothing.hidden = !none;
  part.results.hidden = none;
  part.more.hidden = none || !cursor;
  if (none) nothing(results.length, cursor);
  quiet(none ? "Nothing fits" : `${found}, in ${milliseconds.toLocaleString()} ms`);
  part.more.onclick = () => search({mode, cursor});
  if (body.cursor) fresh[0]?.querySelector("a")?.focus();
  else returned();
}

function inDocuments(passages, documents) {
  return (passages > documents ? many(passages, "passage") + " in " : "") + many(documents, "document");
}

function nothing(results, cursor) {
  const narrowed = filterOf(state);
  part.none.textContent = results ? "Nothing here seems to fit" : "Nothing was found";
  part.hint.textContent = narrowed ? "Fewer filters may leave more." : "Other words may help, or another collection.";
  part.nearest.hidden = !results;
  part.nearest.onclick = () => {
    part.nearest.hidden = part.results.hidden = true;
    part.results.hidden = false;
    part.more.hidden = !cursor;
    part.results.querySelector("a")?.focus();
  };
}

const opened = one => fragment({...state, doc: documentOf(one.id), at: one.id});

function item(one) {
  const {id, source: {url, title, section}, text, metadata, highlight: {text: words = [], title: ofTitle = [], section: ofSection = [], snippets = []} = {}} = one;
  const made = make("li"), name = title || documentOf(id);
  const heading = make("a", {href: opened(one), dir: "auto"}, name.length > 300 ? short(name) : marked(name, 0, name.length, title ? units(title, ofTitle) : []));
  const place = section && section !== title ? make("span", {dir: "auto"}, section.length > 200 ? short(section, 200) : marked(section, 0, section.length, units(section, ofSection))) : "";
  made.append(path(sourceLink(url), metadata?.updated_at && day(metadata.updated_at)),
    make("h2", null, heading), place && make("p", {class: "quiet"}, place));
  if (text) made.append(make("div", {class: "text"}, excerpt(text, units(text, words), units(text, snippets))));
  return made;
}

// Near-copies of a document stand behind it, each a link to its own text.
function copied({count, ids}) {
  const links = ids.flatMap((id, number) => [number ? ", " : "", make("a", {href: opened({id}), dir: "auto"}, short(documentOf(id), 60))]);
  return make("p", {class: "quiet"}, `${many(count, "near-copy", "near-copies")}: `, ...links, count > ids.length ? " …" : "");
}

function further(one, title) {
  const {section, text = "", highlight} = one, [[from, to] = [0, 140]] = units(text, highlight?.snippets ?? []);
  const label = section && section !== title ? section.split(" > ").at(-1) : `Passage ${/\d+$/.exec(one.id) ?? ""}`;
  return make("li", null, make("a", {href: opened(one), dir: "auto"}, short(label, 120)),
    text ? make("span", {class: "quiet", dir: "auto"}, inline(text, from, to, units(text, highlight?.text))) : "");
}
