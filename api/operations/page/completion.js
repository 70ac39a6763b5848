// The last word is completed as it is typed: a combobox with a list, by the pattern of WAI-ARIA.
const TYPING = 220, COMPLETING = 90, COMPLETED = 3, REFUSED = new Set();
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
  const text = part.query.value, names = searched().map(one => one.name).filter(one => !REFUSED.has(one)).slice(0, COMPLETED);
  completing?.abort();
  completing = new AbortController();
  if (!names[0] || !/[\p{L}\p{N}]{2,}$/u.test(text)) return close();
  const {signal} = completing;
  try {
    const found = await Promise.all(names.map(name => ask(`collections/${encode(name)}/suggest?limit=6&q=${encode(text)}`, {signal}).catch(error => {
      if (/^4(?!29)/.test(error.status)) REFUSED.add(name);
      return {suggestions: []};
    })));
    if (signal.aborted || part.query.value !== text || document.activeElement !== part.query) return;
    const others = [...new Set(found.flatMap(one => one.suggestions))].filter(one => one !== text).slice(0, 6);
    if (!others.length) return close();
    picked = -1;
    part.query.removeAttribute("aria-activedescendant");
    part.completions.replaceChildren(...others.map((one, number) => option(one, text, number)));
    part.completions.hidden = false;
    part.query.setAttribute("aria-expanded", "true");
  } catch (error) {
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
  const {exact, of, doc, at, ...kept} = state, q = part.query.value.trim();
  const same = q === state.q, changed = same ? state : kept.q && q ? {...kept, q} : {...kept, q, filters: {}, ranges: {}};
  go(state.doc ? {...changed, of: undefined, doc: undefined, at: undefined, q} : {...changed, q}, typing);
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
  const [first] = document.body.className === "search" ? part.results.querySelectorAll("h2 a") : [];
  if (step === 1 && !open && !event.altKey && first?.getClientRects().length) { event.preventDefault(); first.focus() }
  else if (step) {
    event.preventDefault();
    if (open) pick(step === 1 || picked >= 0 ? step : -1);
    else complete();
  } else if (event.key === "Escape" && open) { event.preventDefault(); close() }
  else if (event.key === "Enter" && picked >= 0) { event.preventDefault(); take(part.completions.children[picked].textContent) }
};
part.query.onblur = close;
part.search.onsubmit = event => { event.preventDefault(); submit(false) };
