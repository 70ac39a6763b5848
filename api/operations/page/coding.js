// The search of the page as a program would send it: curl, Python and JavaScript, for each protocol that is served.
const LANGUAGES = ["curl", "Python", "JavaScript"], SESSION = crypto.randomUUID?.() ?? "8e03978e-40d5-43dd-bc93-6894a57f9324";
const offers = {};
let protocol = "AIDRE", language = "curl";

const quoted = text => `'${text.replaceAll("'", `'\\''`)}'`;
const json = value => JSON.stringify(value, null, 2);

function python(value, indent = "") {
  const inner = indent + "    ", lines = Array.isArray(value) ? value.map(one => inner + python(one, inner))
    : value && typeof value === "object" ? Object.entries(value).map(([name, one]) => `${inner}${JSON.stringify(name)}: ${python(one, inner)}`) : null;
  if (!lines) return value === true ? "True" : value === false ? "False" : value === null ? "None" : JSON.stringify(value);
  const [left, right] = Array.isArray(value) ? "[]" : "{}";
  return lines.length ? `${left}\n${lines.join(",\n")},\n${indent}${right}` : left + right;
}

// What each protocol is sent for the question of the page.
function requests() {
  const {top_k: most, ...body} = bodyOf({...state, q: state.q || "how does it work"}), query = body.query, {endpoints = {}} = about;
  const made = {AIDRE: {path: "search", body: {...body, top_k: 5, return: {text: true}}}};
  if (endpoints.nlweb) made.NLWeb = {path: "ask", body: {query: {text: query, site: body.collection, limit: 5}, prefer: {mode: "list"}}};
  if (endpoints.mcp) made.MCP = {path: "mcp", body: {jsonrpc: "2.0", id: 1, method: "tools/call", params: {name: "search", arguments: {query, collection: body.collection}}}};
  if (offers.domain) made["Agentic Intent"] = {path: "aip/retrieve", signed: true, body: {
    aip_version: "0.1", request_id: "REQUEST", timestamp: "TIME", platform: {id: "PARTNER"}, intent: {domain: offers.domain},
    context: {language: "en"}, runtime: {session_id: SESSION, turn_index: 0, query_text: query}}};
  if (offers.intake) made["Agent Intake"] = {path: "intakes/" + encode(offers.intake.id), body: {
    aip_version: "0.1.0", agent: {id: "my-agent", platform: "my-platform", consent_scope: ["intake", "offer"]},
    intake_data: filled(offers.intake.input_schema, query), session_id: SESSION}};
  return made;
}

function filled({properties = {}, required = []} = {}, query) {
  const value = ({type, enum: values, examples, default: usual, minimum}) => usual ?? examples?.[0] ?? values?.[0]
    ?? {string: query, integer: minimum ?? 1, number: minimum ?? 1, boolean: true, array: [], object: {}}[type] ?? query;
  return Object.fromEntries(required.map(name => [name, value(properties[name] ?? {})]));
}

// The same three steps in each language: the body, the headers, the request. Requests of Agentic Intent are also signed,
// with the secret of a partner, which this page never knows.
const SIGNED = ["Version", "Key-Id", "Timestamp", "Nonce", "Signature"];

function codeOf({path: route, body, signed}) {
  const url = here() + route, target = JSON.stringify(new URL(url).pathname), bearer = about.auth?.type === "bearer" && !signed, type = "application/json";
  const put = (text, ...values) => ["REQUEST", "TIME", "PARTNER"].reduce((all, name, at) => signed ? all.replace(`"${name}"`, values[at]) : all, text);
  const shell = [`"0.1"`, `"$AIP_PARTNER"`, `"$TIME"`, `"$NONCE"`, `"v1=$SIGNATURE"`], names = SIGNED.map(name => `"X-AIP-${name}"`);
  const values = [`"0.1"`, "partner", "moment", "nonce", `"v1=" + signature`], pairs = names.map((name, at) => `${name}: ${values[at]}`).join(",\n  ");
  const data = put(quoted(json(body)), `"req_'$NONCE'"`, `"'$TIME'"`, `"'$AIP_PARTNER'"`);
  const headers = [`'Content-Type: ${type}'`, `'Accept: ${type}'`, ...(bearer ? [`"Authorization: Bearer $AIDRE_KEY"`] : []), ...(signed ? SIGNED.map((name, at) => `"X-AIP-${name}: ${shell[at].slice(1)}`) : [])];
  return {
    curl: (signed ? `# AIP_PARTNER and AIP_SECRET: as agreed with the publisher\nTIME=$(date -u +%Y-%m-%dT%H:%M:%SZ) NONCE=$(openssl rand -hex 16)\nBODY=${data}\nHASH=$(printf %s "$BODY" | openssl dgst -sha256 -r | cut -d' ' -f1)\nSIGNATURE=$(printf 'POST\\n%s\\n%s\\n%s\\n%s' ${target} "$HASH" "$TIME" "$NONCE" |\n  openssl dgst -sha256 -hmac "$AIP_SECRET" -binary | base64)\n` : "")
      + [`curl -sS ${quoted(url)}`, ...headers.map(one => "-H " + one), `-d ${signed ? `"$BODY"` : data}`].join(" \\\n  "),
    Python: `import ${signed ? "base64, hashlib, hmac, json, os, secrets, time" : bearer ? "json, os" : "json"}, urllib.request\n\n`
      + (signed ? `partner, secret = os.environ["AIP_PARTNER"], os.environ["AIP_SECRET"]\nmoment, nonce = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), secrets.token_hex(16)\n` : "")
      + `body = json.dumps(${put(python(body), `"req_" + nonce`, "moment", "partner")}).encode()\nheaders = {"Content-Type": "${type}", "Accept": "${type}"}\n`
      + (bearer ? `headers["Authorization"] = "Bearer " + os.environ["AIDRE_KEY"]\n` : "")
      + (signed ? `text = "\\n".join(("POST", ${target}, hashlib.sha256(body).hexdigest(), moment, nonce))\nsignature = base64.b64encode(hmac.digest(secret.encode(), text.encode(), "sha256")).decode()\nheaders |= {\n  ${pairs},\n}\n` : "")
      + `request = urllib.request.Request(${JSON.stringify(url)}, body, headers)\nwith urllib.request.urlopen(request) as response:\n    print(json.dumps(json.load(response), indent=2))`,
    JavaScript: (signed ? `import {createHash, createHmac, randomUUID} from "node:crypto";\n\nconst {AIP_PARTNER: partner, AIP_SECRET: secret} = process.env;\nconst moment = new Date().toISOString().slice(0, 19) + "Z", nonce = randomUUID();\n` : "")
      + `const body = JSON.stringify(${put(json(body), `"req_" + nonce`, "moment", "partner")});\nconst headers = {"Content-Type": "${type}", Accept: "${type}"};\n`
      + (bearer ? "headers.Authorization = `Bearer ${process.env.AIDRE_KEY}`;\n" : "")
      + (signed ? `const text = ["POST", ${target}, createHash("sha256").update(body).digest("hex"), moment, nonce].join("\\n");\nconst signature = createHmac("sha256", secret).update(text).digest("base64");\nObject.assign(headers, {\n  ${pairs},\n});\n` : "")
      + `const response = await fetch(${JSON.stringify(url)}, {method: "POST", headers, body});\nconsole.log(JSON.stringify(await response.json(), null, 2));`,
  };
}

async function offersOf(signal) {
  const {endpoints = {}} = about, get = path => ask(path, {signal}).catch(() => ({}));
  const [intent, intake] = await Promise.all([endpoints.intent ? get(".well-known/aip.json") : {}, endpoints.intake ? get(".well-known/agent-intake.json") : {}]);
  if (signal.aborted) return;
  offers.domain = intent.editorial_domains?.[0];
  offers.intake = intake.intakes?.[0];
}

async function code() {
  const signal = begin();
  part.title.textContent = "This search in your own program";
  await offersOf(signal);
  if (!signal.aborted) write();
}

function write(focus) {
  const all = requests();
  if (!all[protocol]) protocol = "AIDRE";
  const request = all[protocol], text = codeOf(request)[language], bearer = about.auth?.type === "bearer" && !request.signed;
  const output = pane("Answer", "pre");
  output.hidden = true;
  const run = make("button", {type: "button", class: "strong", hidden: Boolean(request.signed)}, "Run it here");
  run.onclick = async () => {
    const signal = begin();
    output.hidden = false;
    output.textContent = "…";
    try { output.textContent = json(await ask(request.path, {signal, body: request.body})) } catch (error) { output.textContent = json(error) }
    quiet("Answered");
  };
  const copy = make("button", {type: "button"}, "Copy");
  copy.onclick = () => navigator.clipboard.writeText(text).then(() => quiet("Copied"), () => quiet("The browser did not allow it: select the text instead"));
  part.coding.replaceChildren(
    tabs("Protocol", Object.keys(all), protocol, false, name => { protocol = name; write("Protocol") }),
    tabs("Language", LANGUAGES, language, true, name => { language = name; write("Language") }),
    make("pre", {tabIndex: 0, role: "tabpanel", "aria-label": `${protocol} by ${language}`, id: "snippet"}, text),
    make("div", {class: "buttons"}, run, copy),
    make("p", {class: "quiet"}, request.signed ? "Requests are signed with the secret that the publisher gave a partner." : bearer ? "AIDRE_KEY is the access key, if you need one." : ""), output);
  if (focus) part.coding.querySelector(`[aria-label=${focus}] [aria-selected=true]`).focus();
}
