const METHODS = ["get", "put", "post", "delete"];
const mark = operation => operation.operationId;

async function start() {
  part.trouble.hidden = true;
  try {
    const described = await ask("openapi.json");
    part.status.textContent = "";
    document.title = `API – ${described.info.title}`;
    part.home.textContent = described.info.title;
    part.title.textContent = `API of ${described.info.title}`;
    part.about.replaceChildren(described.info.description, ". ", make("a", {href: "openapi.json"}, "OpenAPI document"));
    components = described.components?.schemas ?? {};
    draw(described);
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  } catch (error) {
    const {what, cure} = told(error);
    part.status.textContent = "";
    part.what.textContent = what;
    part.cure.textContent = cure;
    part.trouble.hidden = false;
  }
}

function draw({tags, paths}) {
  const all = Object.entries(paths).flatMap(([path, methods]) => METHODS.filter(one => methods[one]).map(method => ({path, method, ...methods[method]})));
  part.operations.replaceChildren();
  part.contents.replaceChildren();
  for (const {name, description} of tags) {
    const own = all.filter(one => one.tags?.includes(name));
    part.operations.append(make("h2", null, name), make("p", {class: "quiet"}, description), ...own.map(operation));
    part.contents.append(make("h2", null, name), make("ul", null, own.map(one => make("li", null, make("a", {href: "#" + mark(one)}, one.summary)))));
  }
}

function operation(one) {
  const {path, method, summary, description, parameters = [], requestBody, responses} = one, body = requestBody?.content?.["application/json"];
  const made = make("section", {class: "operation", id: mark(one), "aria-labelledby": mark(one) + "-name", tabIndex: -1});
  made.append(make("h3", {id: mark(one) + "-name"}, summary), make("p", {class: "route"}, make("span", {class: "method"}, method.toUpperCase()), make("code", null, path)), make("p", null, description));
  if (parameters.length) made.append(make("h4", null, "Parameters"), make("ul", {class: "members"}, parameters.map(({name, in: place, required, description: text, schema}) =>
    make("li", null, make("code", null, name), " ", make("span", {class: "type"}, `${typeOf(schema)}, ${place}`), required ? make("span", {class: "needed"}, " required") : "", ` – ${text}`))));
  if (body) made.append(make("h4", null, "Body"), fold(typeOf(body.schema), () => members(body.schema)));
  made.append(make("h4", null, "Answers"), ...answered(responses), tryOut(one, body));
  return made;
}

function answered(responses) {
  const good = Object.entries(responses).filter(([status]) => status < 300), other = Object.entries(responses).filter(([status]) => status >= 300);
  return [...good.map(([status, {description, content = {}}]) => {
    const {schema, example} = Object.values(content)[0] ?? {};
    const title = `${status} ${description}: ${schema ? typeOf(schema) : "no body"}`;
    return schema ? fold(title, () => [...members(schema), ...(example ? [pane("Example", "pre", JSON.stringify(example, null, 2))] : [])]) : make("p", null, title);
  }), other.length ? make("p", {class: "quiet"}, "Also ", other.map(([status]) => status).join(", "), ".") : ""];
}

function tryOut(one, body) {
  const {path, method, parameters = []} = one;
  return fold("Try it", () => {
    const boxes = parameters.map(({name, in: place, example, required}) => {
      const box = make("input", {value: required || place === "path" ? example ?? "" : "", spellcheck: false, autocomplete: "off"});
      return {name, place, box, label: make("label", null, `${name} (${place})`, box)};
    });
    const text = body && make("textarea", {spellcheck: false, value: JSON.stringify(body.example ?? {}, null, 2)});
    const bearer = make("input", {type: "password", value: key, autocomplete: "off"});
    const output = pane("Answer", "pre");
    output.hidden = true;
    const form = make("form", {class: "try"}, boxes.map(({label}) => label), text && make("label", null, "Body", text),
      make("label", null, "Access key, if any", bearer), make("button", {class: "strong"}, "Send"), output);
    form.onsubmit = event => { event.preventDefault(); send({path, method, boxes, text, bearer, output}) };
    return [form];
  });
}

async function send({path, method, boxes, text, bearer, output}) {
  const query = new URLSearchParams(), headers = {Accept: "application/json, text/plain;q=0.5, */*;q=0.1"};
  let target = path.slice(1);
  for (const {name, place, box} of boxes) {
    if (place === "path") target = target.replace(`{${name}}`, encode(box.value));
    else if (box.value && place === "query") query.set(name, box.value);
    else if (box.value) headers[name] = box.value;
  }
  useKey(bearer.value.trim());
  if (key) headers.Authorization = "Bearer " + key;
  if (text) headers["Content-Type"] = "application/json";
  output.hidden = false;
  output.textContent = "…";
  try {
    const response = await fetch(here() + target + (query.size ? "?" + query : ""), {method: method.toUpperCase(), headers, body: text?.value});
    const answer = await response.text();
    let shown = answer;
    try { shown = JSON.stringify(JSON.parse(answer), null, 2) } catch { /* it is no JSON */ }
    output.textContent = `${response.status} ${response.statusText}\n\n${short(shown, 200000)}`;
  } catch (error) {
    output.textContent = told({message: navigator.onLine ? String(error.message) : "you are offline"}).what;
  }
}

part.again.onclick = start;
part.skip.onclick = event => { event.preventDefault(); part.main.focus() };
start();
