"""NLWeb: clients that the package index publishes, in the versions named here: a chat page, and models of messages."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.browsers import needs_browser, told_by_page
from tests.support.clients import Client, serving
from tests.support.ingests import Bench
from tests.support.processes import running
from tests.support.recipes import STREAM, ask, events

pytestmark = [pytest.mark.network, pytest.mark.slow]

CHAT_PAGE, MODELS = "nlweb-network==0.5.6", "nlweb-core==0.7.0"
NAMES = {f"Guide {n}" for n in range(9)}
QUESTION = "patch the tube of a bicycle"
DRIVER = """<script>
localStorage.setItem("nlweb_server_url", "SERVER");
addEventListener("load", () => {
  const value = (id, text) => { document.getElementById(id).value = text; };
  value("site-input", "all");
  value("centered-chat-input", "QUESTION");
  document.getElementById("centered-send-button").click();
  const shown = () => [...document.querySelectorAll(".item-title-link")].map(link => link.textContent);
  const started = Date.now(), timer = setInterval(() => {
    if (shown().length < COUNT && Date.now() - started < 30000) return;
    clearInterval(timer);
    fetch("/told", {method: "POST", body: JSON.stringify(shown())});
  }, 100);
});
</script>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of nine documents without schema.org data."""
    bench = Bench(tmp_path_factory.mktemp("published"))
    for name in sorted(NAMES):
        bench.write(f"{name}.md", f"# {name}\n\nHow to patch tube {name[-1]} of a bicycle.")
    bench.run()
    return bench.root


def unpacked(requirement: str, folder: Path) -> Path:
    """The files of a wheel."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), requirement]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "files")
    return folder / "files"


@pytest.mark.process
@needs_browser
def test_the_published_chat_page_shows_every_document_of_a_folder(folder: Path, tmp_path: Path) -> None:
    static = unpacked(CHAT_PAGE, tmp_path) / "nlweb_network" / "static"
    script = f"<script>{(static / 'nlweb-chat.js').read_text()}</script>"
    page = (static / "index.html").read_text().replace('<script src="/static/nlweb-chat.js"></script>', script)
    assert script in page
    with running(folder / "store") as server:
        driver = DRIVER.replace("SERVER", server.url).replace("QUESTION", QUESTION).replace("COUNT", str(len(NAMES)))
        shown = told_by_page(page.replace("</head>", f"{driver}</head>"), tmp_path / "profile")
    assert set(shown) == NAMES and len(shown) == len(NAMES)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    path = unpacked(MODELS, tmp_path_factory.mktemp("models")) / "nlweb_core" / "protocol" / "models.py"
    spec = importlib.util.spec_from_file_location("published_models", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its annotations are resolved by the name of the module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def client(folder: Path) -> Any:
    with serving(folder / "store") as client:
        yield client


def asked(client: Client, models: ModuleType, text: str, prefer: Mapping[str, Any], meta: Any) -> Any:
    """The answer to a request that the models made, with all of their defaults."""
    request = models.AskRequest.model_validate({"query": {"text": text}, "prefer": prefer, "meta": meta})
    return ask(client, json.loads(request.model_dump_json(by_alias=True)), accept=STREAM)


def test_the_published_models_read_what_their_request_is_answered(client: Client, models: ModuleType) -> None:
    prefer = {"response_format": "conv_search", "streaming": False, "mode": "list"}
    response = asked(client, models, QUESTION, prefer, {"api_version": "0.54"})
    body = response.json()
    for item in body["results"]:
        item["@type"] = item["@type"][-1]  # these models know one type of an item, the React component several
    answer = models.AnswerResponseConvSearch.model_validate(body)
    assert {result.name for result in answer.results} == NAMES, "their least score of 51 keeps what is relevant"
    response = asked(client, models, "x", {**prefer, "mode": "sing"}, {"api_version": "0.54"})
    assert models.FailureResponse.model_validate(response.json()).error.code == "UNSUPPORTED_MODE"


def test_the_published_models_are_answered_without_a_version_too(client: Client, models: ModuleType) -> None:
    prefer = {"response_format": "conv_search", "streaming": True}
    frames = events(asked(client, models, QUESTION, prefer, None))
    assert {item["name"] for frame in frames for item in frame.data.get("results", [])} == NAMES
