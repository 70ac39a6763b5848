"""What --mirror may delete: documents of a source that it no longer has, and nothing that may only be unreadable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from aidre.engine.writer import Writer
from aidre.ingest.found import Rejected, Unchanged
from aidre.ingest.sources import AnySource


class SeenIds:
    """The ids of a run by 64-bit hash: eight bytes each, in sorted runs that merge as they grow."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.int64]] = []

    def add(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Which of the ids were there before; afterwards all of them are."""
        hashes = self._hashes(ids)
        known = self._find(hashes)
        run = np.unique(hashes[~known])
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]))
        if len(run):
            self._runs.append(run)
        return known

    def known(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        return self._find(self._hashes(ids))

    def _find(self, hashes: NDArray[np.int64]) -> NDArray[np.bool_]:
        order = np.argsort(hashes)
        wanted = hashes[order]  # looked up in order, neighbours are found in the same places of the cache
        found = np.zeros(len(hashes), dtype=np.bool_)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, wanted), len(run) - 1)
            found |= run[places] == wanted
        known = np.empty_like(found)
        known[order] = found
        return known

    @staticmethod
    def _hashes(ids: Sequence[str]) -> NDArray[np.int64]:
        return np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids))


class Mirror:
    """Collects what a run saw and what it could not read, and then says what the sources no longer have."""

    def __init__(self, sources: Sequence[AnySource], whole: bool) -> None:
        """With `whole` a source is what this run was given; else one that is a file speaks for that file alone.

        One that is an address has a name of its own, and always speaks for all of it.
        """
        self._files = {each.name: set[str]() for each in sources}
        self._whole = {each.name for each in sources if whole or each.only is None}
        for each in sources:
            if each.only is not None:
                self._files[each.name].add(each.only)
        self._roots = {each.name: each.root for each in sources}
        self._unchanged: set[tuple[str, str]] = set()
        self._kept: set[tuple[str, str]] = set()
        self._kept_folders: list[tuple[str, str]] = []
        self._before: dict[str, int] = {}

    def begin(self, writer: Writer) -> None:
        """Count what each source has in the store before this run changes it."""
        self._before = {name: sum(1 for _ in self._in_scope(writer, name)) for name in self._files}

    def keep(self, rejected: Rejected) -> None:
        """Something could not be read: what may have stood there stays."""
        if rejected.folder:
            self._kept_folders.append((rejected.source, "" if rejected.origin == "." else f"{rejected.origin}/"))
        else:
            self._kept.add((rejected.source, rejected.origin))

    def pass_over(self, unchanged: Unchanged) -> None:
        """What came from there stands there still."""
        self._unchanged.add((unchanged.source, unchanged.origin))

    def gone(self, writer: Writer, seen: SeenIds) -> dict[str, list[str]]:
        """Ids by source name of what was not seen in this run; call it with nothing pending."""
        gone = {}
        for name in self._files:
            documents = list(self._in_scope(writer, name))
            known = seen.known([identity for identity, _ in documents])
            gone[name] = [
                identity
                for (identity, origin), was_seen in zip(documents, known.tolist(), strict=True)
                if not was_seen and not self._is_kept(name, origin) and not self._may_have_moved(name, identity, origin)
            ]
        return gone

    def refusal(self, gone: dict[str, list[str]]) -> str | None:
        """Why so much must not be deleted, None where it may be."""
        for name, ids in gone.items():
            if 2 * len(ids) > self._before.get(name, 0):
                return (
                    f"--mirror would delete {len(ids)} of the {self._before.get(name, 0)} documents of source "
                    f"{name!r}, more than half: nothing was deleted; --force deletes them"
                )
        return None

    def _in_scope(self, writer: Writer, name: str) -> Iterable[tuple[str, str]]:
        whole, files = name in self._whole, self._files[name]
        return (each for each in writer.documents_of(name) if whole or each[1] in files)

    def _is_kept(self, source: str, origin: str) -> bool:
        return (
            (source, origin) in self._unchanged
            or (source, origin) in self._kept
            or any(source == name and origin.startswith(folder) for name, folder in self._kept_folders)
        )

    def _may_have_moved(self, source: str, identity: str, origin: str) -> bool:
        """Whether a document with an id of its own, whose file is gone, may stand in a file that could not be read."""
        if identity in (origin, f"{source}/{origin}") or not any(
            name == source for name, _ in (*self._kept, *self._kept_folders)
        ):
            return False
        root = self._roots[source]
        return isinstance(root, str) or not (root / origin).exists()
