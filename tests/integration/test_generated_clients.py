"""Clients generated from /openapi.json, in Python and TypeScript: they pass strict type checks and read each answer.

The programs give a search its text and its collection alone: a generated type that demands more does not compile.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.hostile.publisher import publish
from tests.support.javascript import installed, told
from tests.support.servers import served

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
assert isinstance(answer, models.AskAnswer)
told = {"search": id, "chunk": chunk.text, "error": blank.error, "ask": [item["name"] for item in answer.results]}
print(json.dumps(told))
"""
OPENAPI_FETCH = """
import createClient from "openapi-fetch";
import type { paths } from "./schema.js";

const client = createClient<paths>({ baseUrl: process.argv[2] });
const found = await client.POST("/search", { body: { query: "alpha", collection: "docs" } });
const id = found.data!.results[0]!.id!;
const place = { path: { id }, query: { collection: "docs" } };
const chunk = await client.GET("/chunks/{id}", { params: place });
const blank = await client.POST("/search", { body: { query: " ", collection: "docs" } });
const answer = await client.POST("/ask", { body: { query: { text: "alpha", site: "docs" } } });
const data = answer.data!;
if (typeof data !== "object" || !("results" in data)) throw new Error("no results");
const told = { search: id, chunk: chunk.data!.text, error: blank.error!.error, ask: data.results.map(item => item.name) };
console.log(JSON.stringify(told));
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
if (!("results" in data)) throw new Error("no results");
const told = { search: id, chunk: chunk.data!.text, error: blank.error!.error, ask: data.results.map(item => item.name) };
console.log(JSON.stringify(told));
"""
COMPILER = {
    "compilerOptions": {"strict": True, "module": "nodenext", "target": "es2022", "outDir": "compiled"},
    "files": ["program.ts"],
}
MYPY = """
[mypy]
strict = true
[mypy-generated_client.client]
# the generator's own, the same for every document: __exit__ hands on `*args: object`
ignore_errors = true
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Of a publisher who offers every protocol, keys and signatures."""
    folder = tmp_path_factory.mktemp("publisher")
    store, configuration = publish(folder)
    settings = configuration.read_text("utf-8").replace("keys.pem", str(folder / "keys.pem"))
    with served(store, settings) as (_, client):
        yield client


@pytest.fixture(scope="module")
def document(server: httpx.Client, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_bytes(server.get("/openapi.json").raise_for_status().content)
    return path


def expected(server: httpx.Client) -> dict[str, Any]:
    """What a client without generated code is told."""
    found = server.post("/search", json={"query": "alpha", "collection": "docs"}).json()
    [id] = [result["id"] for result in found["results"][:1]]
    chunk = server.get(f"/chunks/{id.replace('/', '%2F').replace('#', '%23')}", params={"collection": "docs"}).json()
    blank = server.post("/search", json={"query": " ", "collection": "docs"})
    assert blank.status_code == 400
    answer = server.post("/ask", json={"query": {"text": "alpha", "site": "docs"}}).json()
    names = [item["name"] for item in answer["results"]]
    assert "/" in id and "#" in id and chunk["text"] and names
    return {"search": id, "chunk": chunk["text"], "error": blank.json()["error"], "ask": names}


@pytest.fixture(scope="module")
def python_client(document: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package `generated_client`. The generator is installed beside it, with what it needs."""
    folder = tmp_path_factory.mktemp("python")
    python = [sys.executable, "-m"]
    told([*python, "pip", "install", "--quiet", "--target", "generator", PYTHON_GENERATOR], folder)
    (folder / "options.yaml").write_text("post_hooks: []", encoding="utf-8")  # no ruff over what was generated
    options = ["--path", str(document), "--meta", "none", "--output-path", str(folder / "generated_client")]
    generate = [*python, "openapi_python_client", "generate", "--fail-on-warning", "--config", "../options.yaml"]
    told([*generate, *options], folder / "generator")
    return folder


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the generators for TypeScript."""
    return installed(tmp_path_factory.mktemp("typescript"), PACKAGES)


def test_every_module_of_the_python_client_loads_and_passes_a_strict_type_check(python_client: Path) -> None:
    (python_client / "mypy.ini").write_text(MYPY, encoding="utf-8")
    told([sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "generated_client"], python_client)
    names = [path.with_suffix("") for path in (python_client / "generated_client").rglob("*.py")]
    modules = sorted(".".join(name.relative_to(python_client).parts) for name in names)
    assert len(modules) > 100
    told([sys.executable, "-c", "\n".join(f"import {name}" for name in modules)], python_client)


def test_the_python_client_reads_every_answer(server: httpx.Client, python_client: Path) -> None:
    (python_client / "mypy.ini").write_text(MYPY, encoding="utf-8")
    (python_client / "program.py").write_text(PYTHON, encoding="utf-8")
    told([sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "program.py"], python_client)
    answers = told([sys.executable, "program.py", str(server.base_url)], python_client)
    assert json.loads(answers) == expected(server)


GENERATE = {
    "openapi-fetch": ["openapi-typescript", "openapi.json", "--output", "schema.d.ts"],
    "hey-api": ["openapi-ts", "-i", "openapi.json", "-o", "hey", "-c", "@hey-api/client-fetch", "--no-log-file"],
}
PROGRAMS = {"openapi-fetch": OPENAPI_FETCH, "hey-api": HEY_API}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_typescript_client_compiles_strictly_and_reads_every_answer(
    name: str, server: httpx.Client, document: Path, packages: Path
) -> None:
    (packages / "openapi.json").write_bytes(document.read_bytes())
    (packages / "tsconfig.json").write_text(json.dumps(COMPILER), encoding="utf-8")
    (packages / "program.ts").write_text(PROGRAMS[name], encoding="utf-8")
    told(GENERATE[name], packages)
    told(["tsc"], packages)
    answers = told(["node", "compiled/program.js", str(server.base_url)], packages)
    assert json.loads(answers) == expected(server)
