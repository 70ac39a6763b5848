"""aidre's server with the search stubbed out: every search returns the hits of the first one.

    python -m benchmarks.stored STORE CONFIG PORT

It measures the serving path without the search. The application, its caches and its answers are those of `aidre serve`;
no scan evicts the processor's caches.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from aidre.api.cli.serve import serve
from aidre.engine.backend import Hit
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.model import Query


def main(store: str, config: str, port: str) -> None:
    found: list[list[Hit]] = []
    search_all = Snapshot.search_all

    def stored(snapshot: Snapshot, queries: Sequence[Query]) -> list[list[Hit]]:
        if not found:
            found.extend(search_all(snapshot, queries[:1]))
        return found * len(queries)

    Snapshot.search_all = stored  # type: ignore[method-assign, assignment]
    serve(Path(store), Path(config), "127.0.0.1", int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
