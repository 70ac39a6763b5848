const here = () => location.origin + location.pathname.replace(/docs$/, "");
const NOTE = "aidre " + location.pathname.replace(/docs$/, "");
let key = "";
// Without a storage it is forgotten with the page.
try { key = sessionStorage.getItem(NOTE) ?? "" } catch { }

function useKey(given) {
  key = given;
  try { given ? sessionStorage.setItem(NOTE, given) : sessionStorage.removeItem(NOTE) } catch { }
}

async function ask(path, {signal, body} = {}) {
  const type = "application/json", headers = {Accept: type, ...(body ? {"Content-Type": type} : {})};
  if (key) headers.Authorization = "Bearer " + key;
  const sent = {method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal};
  const response = await fetch(here() + path, sent).catch(error => {
    throw error.name === "AbortError" ? error : {message: navigator.onLine ? "the server cannot be reached" : "you are offline"};
  });
  const {ok, status} = response, answer = await response.json().catch(() => null);
  if (ok && answer) return answer;
  throw {message: "the server answered " + status, ...answer, status, seconds: +response.headers.get("Retry-After")};
}

// Refusals say themselves what is wrong, and mostly what to do.
function told({status, seconds, message, request_id: id}) {
  const text = String(message || "it failed"), denied = status === 401 || status === 403;
  const cure = seconds ? `Try again in ${seconds < 120 ? seconds + " s" : Math.ceil(seconds / 60) + " minutes"}.`
    : !status && navigator.onLine ? "See whether it runs. The page tries again when you ask it to."
    : !status ? "The page goes on when the connection is back."
    : denied ? "Give another access key, or none."
    : status === 404 ? "Choose another collection, or give an access key."
    : status > 499 && id ? `If it goes on, tell the operator: ${id}` : "";
  return {what: text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : "."), cure, denied};
}
