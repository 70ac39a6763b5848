// What there is: the collections, and of one its sizes, languages, sources and documents.
function spoken(tag) {
  try { return new Intl.DisplayNames(undefined, {type: "language"}).of(tag) } catch { return tag }
}

function cards(view) {
  return make("ul", {class: "cards"}, collections.map(({name, description, document_count: documents, updated_at: at}) => make("li", null,
    make("a", {href: fragment({in: name, view})}, make("strong", {dir: "auto"}, name), description && make("span", null, short(description)),
      make("span", {class: "quiet"}, make("br"), many(documents, "document"), " · ", day(at))))));
}

async function browse() {
  const signal = begin(), name = state.in && known()?.name;
  part.title.textContent = name ?? "Collections";
  part.browsing.replaceChildren();
  if (!name) {
    part.browsing.append(collections.length ? cards("browse") : make("p", null, "There is nothing here that you may see."));
    return;
  }
  working("Loading …");
  try {
    const route = `collections/${encode(name)}/browse`;
    const [profile, documents] = await Promise.all([ask(`collections/${encode(name)}/profile`, {signal}), ask(route, {signal})]);
    if (signal.aborted) return;
    quiet("");
    profiles.set(name, profile);
    part.browsing.append(make("p", {class: "lead"}, known().description), profileOf(profile), make("h2", null, "Documents"), listing(documents, route));
    returned();
  } catch (error) {
    if (!signal.aborted) tell(error, browse);
  }
}

function profileOf({documents, chunks, bytes, languages, spaces, sites, updated_at: changed, read_at: checked}) {
  const total = Object.values(languages).reduce((sum, one) => sum + one, 0);
  const spoke = Object.entries(languages).slice(0, 8).map(([tag, number]) => `${spoken(tag)}${number < total ? ` ${Math.max(1, Math.round(number * 100 / total))} %` : ""}`);
  const model = ({model, dimensions, recall, is_exact: exact}) => {
    const measured = recall["10"];
    return make("p", null, `${model ?? "given vectors"}, ${dimensions} dimensions; `,
      exact ? "every vector is compared" : measured === undefined ? "not calibrated" : `finds ${(measured * 100).toFixed(1)} % of the ten nearest, as calibrated`);
  };
  return facts([
    ["Documents", `${documents.toLocaleString()} in ${many(chunks, "passage")}`],
    ["Size", size(bytes)],
    ["Languages", spoke.join(", ")],
    ["Sources", sites?.length ? sites.map(({value, count}) => make("p", null, `${short(value, 120)} (${count.toLocaleString()})`)) : ""],
    ["Last change", day(changed)],
    ["Sources read", checked ? day(checked) : ""],
    ["Embedding", spaces.length ? spaces.map(model) : "none: searched by words"],
  ]);
}

function listing(first, route) {
  const list = make("ul", {class: "listed"}), holder = make("div", null, list);
  const add = ({documents, next}) => {
    const fresh = documents.map(({id, title, url, type, updated_at: at, chunk_count: chunks}) => make("li", null,
      make("a", {href: fragment({...state, doc: id, at: ""})}, short(title || id)),
      path(type, sourceLink(url), day(at), many(chunks, "passage"))));
    list.append(...fresh);
    if (!next) return fresh;
    const more = make("button", {type: "button", class: "wide"}, "More documents");
    more.onclick = async () => {
      more.disabled = true;
      try {
        const answer = await ask(`${route}?offset=${next}`, {signal: turn.signal});
        more.remove();
        add(answer)[0]?.querySelector("a").focus();
      } catch (error) { more.disabled = false; tell(error, () => more.click()) }
    };
    holder.append(more);
    return fresh;
  };
  add(first);
  return holder;
}
