"""The terms of what a replica has pulled: a publication of an older one was put there by a publisher that is fenced.

Only release 0.2.0 does so, which knows no terms, and only where it finds a dropped collection. A new replica learns the
term from the catalog, as long as that release has not rewritten it.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from aidre.engine.maintenance import Bucket, Catalog, Publication, refused
from aidre.engine.storage import durable

TERMS = ".terms.json"
"""In the cache: the highest term of each collection, where that has one."""


class KnownTerms:
    """The highest term of each collection of a bucket that a replica has seen."""

    def __init__(self, cache: Path, bucket: Bucket) -> None:
        self._path, self._bucket = cache / TERMS, bucket
        self._known: dict[str, int] | None = None
        self._noting = threading.Lock()

    def check(self, name: str, publication: Publication, catalog: Catalog) -> None:
        """PublicationRefused where a publication is of an older term than one before it; StorageFailed."""
        listed = catalog.publications.get(name)
        with self._noting:
            known = self._read()
            highest = max(known.get(name, 0), 0 if listed is None else listed.term)
            if publication.term > known.get(name, 0):
                known[name] = publication.term
                durable.replace_file(self._path, msgspec.json.encode(known))
        if publication.term < highest:
            what = f"is of term {publication.term}, and there was one of term {highest}: a publisher of release 0.2.0 "
            cure = (
                "put it there, or the bucket was made anew; run `aidre publish` on the home node, or begin a new cache"
            )
            raise refused(self._bucket, name, "older_term", what + cure)

    def _read(self) -> dict[str, int]:
        if self._known is None:
            self._known = {}
            with suppress(OSError, ValueError):
                self._known = msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
        return self._known
