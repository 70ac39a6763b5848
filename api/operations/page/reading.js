// One document: its chunks in order, the words of the query marked, and the way to its source.
const CHUNKS = 60;

async function open() {
  const signal = begin(), collection = known()?.name, {doc, at} = state, route = `collections/${encode(collection)}/browse/${encode(doc)}`;
  part.reading.replaceChildren(back());
  working("Opening the document …");
  try {
    const first = Math.max(0, (+/#chunk_(\d+)$/.exec(at ?? "")?.[1] || 1) - CHUNKS / 2);
    const [answer, words] = await Promise.all([ask(`${route}?limit=${CHUNKS}&offset=${first}`, {signal}), wordsOf(collection, doc, signal)]);
    if (signal.aborted) return;
    quiet("");
    draw(answer, words, first, route);
  } catch (error) {
    if (!signal.aborted) tell(error, open);
  }
}

// Where the words of the query are in the chunks of the document: a search within it.
async function wordsOf(collection, doc, signal) {
  if (!state.q || withheld.has(collection)) return new Map();
  const body = {...bodyOf(), top_k: 100, filter: {document_id: doc}, return: {text: true, metadata: false}, highlight: {snippets: 0}};
  const {results} = await ask("search", {signal, body}).catch(() => ({results: []}));
  return new Map(results.map(one => [one.id, one.highlight?.text ?? []]));
}

function back() {
  const {of, doc, at, ...rest} = state;
  return make("a", {class: "back", href: fragment(rest)}, rest.q && !rest.view ? "← Results" : "← Back");
}

function draw({document: one, chunks, next}, words, first, route) {
  const name = one.title || one.id, link = web(one.url);
  part.title.textContent = short(name);
  document.title = `${short(name, 80)} – ${site()}`;
  const place = path(one.type, day(one.updated_at), many(one.chunk_count, "passage"));
  const source = make("p", {class: "buttons"}, link ? make("a", {href: link.href, rel: "noopener noreferrer"}, `Open at ${link.host}`, make("span", {"aria-hidden": "true"}, " ↗")) : one.url && said(one.url));
  const more = Object.entries(one.metadata ?? {}).map(([field, value]) => [readable(field), typeof value === "object" ? JSON.stringify(value) : plain(value)]);
  if (one.semantic_payload) more.push(["schema.org", pane("schema.org object", "pre", JSON.stringify(one.semantic_payload, null, 1))]);
  const details = more.length ? make("details", null, make("summary", null, "Details"), facts(more)) : "";
  const body = make("div");
  part.reading.replaceChildren(...[back(), part.title, place, source, details, body].filter(Boolean));
  part.reading.setAttribute("aria-labelledby", "title");
  let section;
  const add = (list, number) => list.forEach((chunk, place) => {
    const made = make("section", {class: chunk.id === state.at && state.q ? "chunk hit" : "chunk", id: `passage${number + place}`, "data-id": chunk.id, tabIndex: -1, "aria-label": `Passage ${number + place + 1}`});
    if (chunk.section && chunk.section !== section && chunk.section !== one.title && !HEADING.test(chunk.text)) made.append(make("p", {class: "section"}, short(chunk.section)));
    section = chunk.section;
    if (chunk.text) made.append(...whole(chunk.text, units(chunk.text, words.get(chunk.id))));
    else made.append(make("p", {class: "quiet"}, "This collection does not show its text here."));
    body.append(made);
  });
  const page = (label, from) => {
    const button = make("button", {type: "button", class: "wide"}, label);
    button.onclick = async () => {
      button.disabled = true;
      try {
        const answer = await ask(`${route}?limit=${CHUNKS}&offset=${from}`, {signal: turn.signal});
        if (from >= first) add(answer.chunks, from);
        button.remove();
        if (answer.next) page(label, answer.next);
        document.getElementById(`passage${from}`)?.focus();
      } catch (error) { button.disabled = false; tell(error, () => button.click()) }
    };
    part.reading.append(button);
  };
  add(chunks, first);
  if (first) body.before(make("p", {class: "quiet"}, "From passage ", (first + 1).toLocaleString(), ". ", make("a", {href: fragment({...state, at: ""})}, "From the beginning")));
  if (next) page("More of this document", next);
  part.title.focus();
  if (state.at && state.q) body.querySelector(".hit")?.scrollIntoView({block: "center"});
}
