"""A real browser on a page of a foreign site: nothing of a server on the same machine can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.browsers import needs_browser, told_by_page
from tests.support.processes import running
from tests.support.recipes import fill_all

pytestmark = [pytest.mark.process, pytest.mark.slow, needs_browser]

FOREIGN = "pages.example"
PAGE = """<!doctype html><script>
const post = (body, type = "application/json") => ({method: "POST", headers: {"Content-Type": type},
  body: JSON.stringify(body)});
const requests = {
  "/": undefined,
  "/.well-known/ai-discovery": undefined,
  "/.well-known/aip.json": undefined,
  "/llms.txt": undefined,
  "/collections": undefined,
  "/ask?query=pasta": undefined,
  "/openapi.json": undefined,
  "/search": post({query: "pasta", collection: "docs"}, "application/aidre+json"),
  "/ask": post({query: {text: "pasta"}}, "text/plain"),
  "/mcp": post({jsonrpc: "2.0", id: 1, method: "tools/list"}),
};
(async () => {
  const told = {};
  for (const [path, options] of Object.entries(requests))
    try {
      const response = await fetch("SERVER" + path, options);
      told[path] = [response.status, (await response.text()).length];
    } catch (error) { told[path] = [0, 0]; }
  await fetch("/told", {method: "POST", body: JSON.stringify(told)});
})();
</script>"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("pages") / "store"
    fill_all(store)
    return store


READ = {"/", "/.well-known/ai-discovery", "/collections", "/search", "/ask?query=pasta", "/mcp"}


def read_by(host: str, named: str, store: Path, profile: Path, settings: Path | None = None) -> dict[str, Any]:
    """The status and length of each answer that a page of one host reads of a server that it calls by another."""
    with running(store, settings=settings) as server:
        page = PAGE.replace("SERVER", server.url.replace("127.0.0.1", named))
        told: dict[str, Any] = told_by_page(page, profile, host, [f"--host-resolver-rules=MAP {FOREIGN} 127.0.0.1"])
    return told


@pytest.mark.parametrize("named", ["127.0.0.1", FOREIGN])
def test_a_foreign_page_reads_nothing_by_any_name_of_the_server(named: str, store: Path, tmp_path: Path) -> None:
    told = read_by(FOREIGN, named, store, tmp_path / "profile")
    assert len(told) == 10
    assert set(map(tuple, told.values())) == {(0, 0)}


@pytest.mark.parametrize(("host", "named"), [("127.0.0.1", "127.0.0.1"), (FOREIGN, FOREIGN)])
def test_a_page_that_is_allowed_reads_what_it_asks_for(host: str, named: str, store: Path, tmp_path: Path) -> None:
    settings = tmp_path / "aidre.toml"
    settings.write_text(f'[server]\ncors_origins = ["*"]\nhosts = ["{FOREIGN}"]\n' if host == FOREIGN else "")
    told = read_by(host, named, store, tmp_path / "profile", settings)
    assert {path for path, (status, length) in told.items() if status == 200 and length > 10} >= READ
