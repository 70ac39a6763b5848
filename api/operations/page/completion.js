// The last word is completed as it is typed: a combobox with a list, by the pattern of WAI-ARIA.
const TYPING = 220, COMPLETING = 90, REFUSED = new Set();
let later, sooner, completing, picked = -1;

function close() {
  clearTimeout(sooner);
  completing?.abort();
  picked = -1;
  part.completions.hidden = true;
  part.completions.replaceChildren();
  part.query.setAttribute("aria-expanded", "false");
  part.query.removeAttribute("aria-activedescendant");
}

async function complete() {
  const text = part.query.value, name = known()?.name;
  completing?.abort();
  completing = new AbortController();
  if (!name || REFUSED.has(name) || !/[\p{L}\p{N}]{2,}$/u.test(text)) return close();
  const {signal} = completing, route = `collections/${encode(name)}/suggest?limit=6&q=${encode(text)}`;
  try {
    const {suggestions} = await ask(route, {signal});
    if (signal.aborted || part.query.value !== text || document.activeElement !== part.query) return;
    const others = suggestions.filter(one => one !== text);
    if (!others.length) return close();
    picked = -1;
    part.query.removeAttribute("aria-activedescendant");
    part.completions.replaceChildren(...others.map((one, number) => option(one, text, number)));
    part.completions.hidden = false;
    part.query.setAttribute("aria-expanded", "true");
  } catch (error) {
    if (/^4(?!29)/.test(error.status)) REFUSED.add(name);
    if (error.name !== "AbortError") close();
  }
}

function option(completion, text, number) {
  const known = completion.startsWith(text) ? text.length : 0;
  const made = make("li", {id: "completion" + number, role: "option", "aria-selected": "false", dir: "auto"},
    completion.slice(0, known), make("b", null, completion.slice(known)));
  made.onpointerdown = event => { event.preventDefault(); take(completion) };
  return made;
}

function pick(step) {
  const options = [...part.completions.children];
  picked = (picked + step + options.length + 1) % (options.length + 1);
  if (picked === options.length) picked = -1;
  options.forEach((one, number) => one.setAttribute("aria-selected", String(number === picked)));
  if (picked < 0) part.query.removeAttribute("aria-activedescendant");
  else part.query.setAttribute("aria-activedescendant", options[picked].id);
}

function take(text) {
  part.query.value = text;
  submit(false);
}

function submit(typing) {
  clearTimeout(later);
  if (!typing) close();
  const {exact, doc, at, ...kept} = state, q = part.query.value.trim();
  const same = q === state.q, changed = same ? state : kept.q && q ? {...kept, q} : {...kept, q, filters: {}, ranges: {}};
  go(state.doc ? {...changed, doc: undefined, at: undefined, q} : {...changed, q}, typing);
}

part.query.oninput = event => {
  if (event.isComposing) return;
  clearTimeout(later);
  if ([...part.completions.children].some(one => !one.textContent.startsWith(part.query.value))) close();
  clearTimeout(sooner);
  sooner = setTimeout(complete, COMPLETING);
  later = setTimeout(() => submit(true), TYPING);
};
part.query.onkeydown = event => {
  const open = !part.completions.hidden, step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (event.isComposing) return;
  if (step) {
    event.preventDefault();
    if (open) pick(step === 1 || picked >= 0 ? step : -1);
    else complete();
  } else if (event.key === "Escape" && open) { event.preventDefault(); close() }
  else if (event.key === "Enter" && picked >= 0) { event.preventDefault(); take(part.completions.children[picked].textContent) }
};
part.query.onblur = close;
part.search.onsubmit = event => { event.preventDefault(); submit(false) };
