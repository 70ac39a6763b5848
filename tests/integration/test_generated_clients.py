"""Clients that published generators make from /openapi.json: strict type checks pass, and they read each answer.

Their programs give a search its text and its collection alone: with a type that demands more they do not compile.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.hostile.publisher import publish
from tests.support.servers import served
from tests.support.tools import install_npm, install_python, made, run_python, run_tool

pytestmark = [pytest.mark.network, pytest.mark.process, pytest.mark.slow]

PYTHON_GENERATOR = "openapi-python-client==0.29.1"
PACKAGES = {
    "openapi-typescript": "7.13.0",
    "openapi-fetch": "0.17.0",
    "@hey-api/openapi-ts": "0.99.0",
    "typescript": "5.9.3",
    "@types/node": "20.19.43",
}
PYTHON = """
import json, sys
from generated_client import Client, models
from generated_client.api.aidre import search, show_chunk
from generated_client.api.nl_web import ask

client = Client(base_url=sys.argv[1], raise_on_unexpected_status=True)
found = search.sync(client=client, body=models.SearchRequest(query="alpha", collection="docs"))
assert isinstance(found, models.SearchAnswer)
id = found.results[0].id
assert isinstance(id, str)
chunk = show_chunk.sync(id, client=client, collection="docs")
assert isinstance(chunk, models.Chunk)
blank = search.sync(client=client, body=models.SearchRequest(query=" ", collection="docs"))
assert isinstance(blank, models.Error)
answer = ask.sync(client=client, body=models.AskRequest(query=models.AskQuery(text="alpha", site="docs")))
assert isinstance(answer, models.AskAnswer) and isinstance(answer.results, list)
names = [item.name for item in answer.results]
print(json.dumps({"search": id, "chunk": chunk.text, "error": blank.error, "ask": names}))
"""
OPENAPI_FETCH = """
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const client = createClient<paths>({ baseUrl: process.argv[2] });
const found = await client.POST("/search", { body: { query: "alpha", collection: "docs" } });
const id = found.data!.results[0]!.id!;
const chunk = await client.GET("/chunks/{id}", { params: { path: { id }, query: { collection: "docs" } } });
const blank = await client.POST("/search", { body: { query: " ", collection: "docs" } });
const answer = await client.POST("/ask", { body: { query: { text: "alpha", site: "docs" } } });
const data = answer.data!;
if (typeof data !== "object" || !("results" in data)) throw new Error("no results");
const names = data.results!.map(item => item.name);
console.log(JSON.stringify({ search: id, chunk: chunk.data!.text, error: blank.error!.error, ask: names }));
"""
HEY_API = """
import { client } from "./hey/client.gen.js";
import { ask, search, showChunk } from "./hey/sdk.gen.js";

client.setConfig({ baseUrl: process.argv[2] });
const found = await search({ body: { query: "alpha", collection: "docs" } });
const id = found.data!.results[0]!.id!;
const chunk = await showChunk({ path: { id }, query: { collection: "docs" } });
const blank = await search({ body: { query: " ", collection: "docs" } });
const answer = await ask({ body: { query: { text: "alpha", site: "docs" } } });
const data = answer.data!;
if (typeof data !== "object" || !("results" in data)) throw new Error("no results");
const names = data.results!.map(item => item.name);
console.log(JSON.stringify({ search: id, chunk: chunk.data!.text, error: blank.error!.error, ask: names }));
"""
OPTIONS = """
post_hooks: []  # what was made is checked as it is
content_type_overrides:  # what crawlers and browsers read; this generator knows no XML
  application/xml: text/plain
  application/opensearchdescription+xml: text/plain
"""
THIS = Path(__file__).read_bytes()
"""Of which the programs, the versions of tools and their options are parts."""
PROGRAMS = {"openapi-fetch": OPENAPI_FETCH, "hey-api": HEY_API}
GENERATE = {
    "openapi-fetch": ("openapi-typescript", "openapi.json", "--output", "schema.d.ts"),
    "hey-api": ("openapi-ts", "-i", "openapi.json", "-o", "hey", "-c", "@hey-api/client-fetch", "--no-log-file"),
}
COMPILER = {
    "compilerOptions": {"strict": True, "module": "nodenext", "target": "es2022", "outDir": "compiled"},
    "files": ["program.ts"],
}
MYPY = """
[mypy]
strict = true
[mypy-generated_client.client]
# the same for every document: its __exit__ passes on `*args: object`
ignore_errors = true
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a publisher who offers every protocol, keys and signatures."""
    folder = tmp_path_factory.mktemp("publisher")
    store, configuration = publish(folder)
    settings = configuration.read_text("utf-8").replace("keys.pem", str(folder / "keys.pem"))
    with served(store, settings) as (_, client):
        yield client


@pytest.fixture(scope="module")
def document(server: httpx.Client) -> bytes:
    return server.get("/openapi.json").raise_for_status().content


@pytest.fixture(scope="module")
def answers(server: httpx.Client) -> dict[str, Any]:
    """What a client without generated code is answered."""
    search = {"query": "alpha", "collection": "docs"}
    id = server.post("/search", json=search).json()["results"][0]["id"]
    assert {"/", "#"} <= set(id)
    chunk = server.get(f"/chunks/{quote(id, safe='')}", params={"collection": "docs"}).json()
    blank = server.post("/search", json={**search, "query": " "})
    assert blank.status_code == 400
    answer = server.post("/ask", json={"query": {"text": "alpha", "site": "docs"}}).json()
    names = [item["name"] for item in answer["results"]]
    assert chunk["text"] and names
    return {"search": id, "chunk": chunk["text"], "error": blank.json()["error"], "ask": names}


@pytest.fixture(scope="module")
def python_client(document: bytes) -> Path:
    """A folder with the package `generated_client`."""

    def make(folder: Path) -> None:
        generator = install_python(PYTHON_GENERATOR)
        (folder / "openapi.json").write_bytes(document)
        (folder / "mypy.ini").write_text(MYPY, encoding="utf-8")
        (folder / "options.yaml").write_text(OPTIONS, encoding="utf-8")
        (folder / "program.py").write_text(PYTHON, encoding="utf-8")
        options = ("--fail-on-warning", "--config", str(folder / "options.yaml"), "--meta", "none")
        output = ("--output-path", str(folder / "generated_client"))
        words = ("-m", "openapi_python_client", "generate", *options, *output)
        run_python(generator, *words, "--path", str(folder / "openapi.json"))

    return made("python-client", make, document, THIS)


def type_checked(client: Path, what: str, document: bytes) -> None:
    """That mypy has nothing to say of a file or package of the client."""

    def check(_: Path) -> None:
        run_python(client, "-m", "mypy", "--config-file", "mypy.ini", what)

    made(f"types-{what}", check, document, THIS, version("mypy"), sys.version)


def test_every_module_of_the_python_client_loads_and_passes_a_strict_type_check(
    python_client: Path, document: bytes
) -> None:
    type_checked(python_client, "generated_client", document)
    paths = [
        path.relative_to(python_client).with_suffix("") for path in python_client.rglob("generated_client/**/*.py")
    ]
    assert len(paths) > 100
    run_python(python_client, "-c", "\n".join(f"import {'.'.join(path.parts)}" for path in paths))


def test_the_python_client_reads_each_answer(
    server: httpx.Client, answers: dict[str, Any], python_client: Path, document: bytes
) -> None:
    type_checked(python_client, "program.py", document)
    assert json.loads(run_python(python_client, "program.py", str(server.base_url))) == answers


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_typescript_client_compiles_strictly_and_reads_each_answer(
    name: str, server: httpx.Client, answers: dict[str, Any], document: bytes
) -> None:
    def make(folder: Path) -> None:
        packages = install_npm(folder, PACKAGES)
        (packages / "openapi.json").write_bytes(document)
        (packages / "tsconfig.json").write_text(json.dumps(COMPILER), encoding="utf-8")
        (packages / "program.ts").write_text(PROGRAMS[name], encoding="utf-8")
        run_tool(packages, *GENERATE[name])
        run_tool(packages, "tsc")

    client = made(f"typescript-{name}", make, document, THIS)
    assert json.loads(run_tool(client, "node", "compiled/program.js", str(server.base_url))) == answers
