"""A server that breaks one sentence of a protocol: the application of aidre behind one of `faults`.

A conformance kit is worth what it finds: it must pass the sound server and find each of these. What a kit cannot
discover over HTTP (keys, data of intakes, a private chunk) is in FIXTURES.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from aidre.api.app import create_app
from aidre.api.config.settings import parse_settings
from aidre.engine.collection.store import Store
from tests.support.clients import a_document, fill
from tests.support.publishers import fill_chunks
from tests.support.recipes import documents
from tests.support.servers import Server
from tests.wrong_servers.faults import FAULTS, Fault, FaultMiddleware
from tests.wrong_servers.faults.fixtures import FIXTURES

CONFIGURATION = f"""
[server]
organization = "Example Press"
default_collection = "{FIXTURES.collection}"
[limits]
top_k_default = 5
top_k_max = 20
[collections.{FIXTURES.private_collection}]
visibility = "private"
[[keys]]
name = "reader"
sha256 = "{hashlib.sha256(FIXTURES.bearer.encode()).hexdigest()}"
collections = ["{FIXTURES.private_collection}"]
[nlweb]
min_score = 0

[intent]
enabled = true
publisher = {{ id = "example", name = "Example Press", domain = "127.0.0.1" }}
max_chunks = 3
max_tokens = 2_000
max_document_fraction = 0.9
[intent.editorial_domains."{FIXTURES.intent_domain}"]
collection = "{FIXTURES.collection}"
[intent.keys]
{FIXTURES.intent_key_id} = "{FIXTURES.intent_secret}"

[intake]
bind_key = "a bind key that the tests know"
"""
_INTAKE = """
[[intakes]]
id = "{id}"
name = "Find an article"
description = "Say what the article must be about."
category = "service/matching"
offer_type = "matched_articles"
collection = "{collection}"
query = "{{need}}"
top_k = 3
decline_reason = "No article fits."
bind_requires = ["email", "full_name"]
{more}
[intakes.input_schema]
type = "object"
required = ["need"]
[intakes.input_schema.properties.need]
type = "string"
[intakes.input_schema.properties.audience]
enum = ["everyone", "expert"]
"""
INTAKES = {
    FIXTURES.intake: 'expires_in = "1h"',
    FIXTURES.declined_intake: "min_score = 1.0",
    FIXTURES.brief_intake: f'expires_in = "{FIXTURES.brief_seconds}s"',
}


def fill_store(folder: Path) -> Path:
    """Writes the collections that all these servers share; none of them writes to it."""
    articles: dict[str, tuple[list[str], dict[str, Any]]] = {
        name: (
            [f"alpha {name} part {number} ‘çığ’ " + "word " * number for number in range(1, 13)],
            {"url": f"https://pages.example/{name}", "metadata": {"topic": "markets"}},
        )
        for name in ("guides/sso", "guides/keys", "stocks", "bonds", "über")
    }
    fill_chunks(folder, FIXTURES.collection, articles)
    fill(folder, "shop", documents())
    private = [a_document("secret", "alpha, and nobody is to read it", url="https://vault.example/secret")]
    fill(folder, FIXTURES.private_collection, private, visibility="private")
    return folder


def sound_app(store: Path, base_url: str, state: Path) -> Starlette:
    """The application without a fault; `state` is a folder for its receipts and offers."""
    intakes = "".join(
        _INTAKE.format(id=name, more=more, collection=FIXTURES.collection) for name, more in INTAKES.items()
    )
    settings = parse_settings(CONFIGURATION.replace("[server]", f'[server]\nbase_url = "{base_url}"') + intakes)
    return create_app(Store(store), settings, state=state)


def faulty_app(name: str | None, inner: ASGIApp) -> ASGIApp:
    """An application behind the fault of that name, or behind none."""
    return FaultMiddleware(inner, None if name is None else FAULTS[name])


@contextmanager
def faulty_server(store: Path, name: str | None = None) -> Iterator[str]:
    """The URL of a server with one fault, or with none, over a store that `fill_store` wrote."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await served(scope, receive, send)

    with tempfile.TemporaryDirectory() as state:
        server = Server(application)
        url = f"http://127.0.0.1:{server.port}"
        app = sound_app(store, url, Path(state))
        served = faulty_app(name, app)
        with server.run():
            yield url
        app.state.intent.receipts.close()


def main(words: list[str]) -> None:
    """Serves a fault (`python -m tests.wrong_servers.faulty_server [NAME]`) until interrupted; prints how to ask it."""
    name = words[0] if words else None
    fault: Fault | None = None if name is None else FAULTS[name]
    with (
        tempfile.TemporaryDirectory() as folder,
        suppress(KeyboardInterrupt),
        faulty_server(fill_store(Path(folder)), name) as url,
    ):
        said = {"url": url, "fault": fault and fault.described(), "fixtures": asdict(FIXTURES)}
        sys.stdout.write(json.dumps(said, indent=2) + "\n")
        sys.stdout.flush()
        while True:
            time.sleep(3_600)


if __name__ == "__main__":
    main(sys.argv[1:])
