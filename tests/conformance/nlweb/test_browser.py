"""A real browser, on a page of another origin: EventSource, a stream by fetch, promises and MCP."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.browsers import needs_browser, told_by_page
from tests.support.processes import running
from tests.support.recipes import fill_all

PAGE = """<!doctype html><script>
const server = "SERVER";
const json = (path, body) => fetch(server + path, {
  method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
const heard = () => new Promise((done, fail) => {
  const frames = [], source = new EventSource(server + "/ask?query=pasta");
  source.onerror = () => { source.close(); fail("EventSource failed"); };
  source.onmessage = event => {
    frames.push(JSON.parse(event.data));
    if (frames.at(-1).message_type === "complete") { source.close(); done(frames); }
  };
});
async function streamed() {
  const response = await json("/ask", {query: {text: "pasta"}, prefer: {streaming: true, mode: "list, summarize"}});
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  return text;
}
async function promised() {
  const later = await json("/ask", {query: {text: "pasta"}, prefer: {"respond-async": true}});
  const {promise} = await later.json();
  for (;;) {
    const response = await json("/await", {promise_token: promise.token, action: "checkin"});
    if (response.status !== 202) return await response.json();
  }
}
async function called() {
  const response = await fetch(server + "/mcp", {method: "POST",
    headers: {"Content-Type": "application/json", "MCP-Protocol-Version": "2025-11-25"},
    body: JSON.stringify({jsonrpc: "2.0", id: 1, method: "tools/call",
                          params: {name: "ask", arguments: {query: {text: "pasta"}}}})});
  return await response.json();
}
(async () => {
  const told = {};
  for (const step of [heard, streamed, promised, called])
    try { told[step.name] = await step(); } catch (error) { told[step.name] = "failed: " + error; }
  await fetch("/told", {method: "POST", body: JSON.stringify(told)});
})();
</script>"""


@pytest.mark.process
@pytest.mark.slow
@needs_browser
def test_a_browser_gets_what_it_asks_for(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill_all(store)
    with running(store) as server:
        told = told_by_page(PAGE.replace("SERVER", server.url), tmp_path / "profile")
    heard = [frame["message_type"] for frame in told["heard"]]
    assert heard[0] == "start" and heard[-1] == "complete" and heard.count("complete") == 1
    assert [item["name"] for frame in told["heard"] for item in frame.get("results", [])]
    names = [line.removeprefix("event: ") for line in told["streamed"].splitlines() if line.startswith("event: ")]
    assert names[0] == "start" and names[-1] == "complete" and "SearchSummary" in told["streamed"]
    assert told["promised"]["_meta"]["response_type"] == "answer"
    assert told["called"]["result"]["structuredContent"]["results"] == told["promised"]["results"]
