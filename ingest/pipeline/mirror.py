"""The deletions of --mirror: stored documents that their source no longer has, except those that may be unreadable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np
from numpy.typing import NDArray

from aidre.engine.ports import Sink
from aidre.ingest.records import Rejected, Unchanged
from aidre.ingest.sources import Source


class SeenIds:
    """The ids of a run by 64-bit hash: eight bytes per id, in sorted arrays that merge as they grow."""

    def __init__(self) -> None:
        self._runs: list[NDArray[np.int64]] = []

    def add(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        """Add ids; returns a mask of the known ones."""
        hashes = self._hashes(ids)
        is_seen = self._find(hashes)
        run = np.unique(hashes[~is_seen])
        while self._runs and len(self._runs[-1]) <= 2 * len(run):
            run = np.sort(np.concatenate([self._runs.pop(), run]))
        if len(run):
            self._runs.append(run)
        return is_seen

    def contains(self, ids: Sequence[str]) -> NDArray[np.bool_]:
        return self._find(self._hashes(ids))

    def _find(self, hashes: NDArray[np.int64]) -> NDArray[np.bool_]:
        order = np.argsort(hashes)
        ordered = hashes[order]  # searching in order keeps neighbouring look-ups in the same cache lines
        is_found = np.zeros(len(hashes), dtype=np.bool_)
        for run in self._runs:
            positions = np.minimum(np.searchsorted(run, ordered), len(run) - 1)
            is_found |= run[positions] == ordered
        mask = np.empty_like(is_found)
        mask[order] = is_found
        return mask

    @staticmethod
    def _hashes(ids: Sequence[str]) -> NDArray[np.int64]:
        return np.fromiter(map(hash, ids), dtype=np.int64, count=len(ids))


def find_stored_drafts(writer: Sink, left_out: Mapping[str, Set[str]]) -> list[str]:
    """Ids of the stored documents of files and pages, by source name, that are not published any more.

    Call it with nothing pending.
    """
    return [
        document_id
        for name, origins in left_out.items()
        for document_id, origin in writer.documents_of(name)
        if origin in origins
    ]


class Mirror:
    """Collects the failures and unchanged pages of a run, then lists the documents that the sources no longer have."""

    def __init__(self, sources: Sequence[Source], whole: bool) -> None:
        """With `whole`, this run lists everything that a source has; without it a source that is one file covers that
        file alone. A web source has a name of its own and is always covered whole."""
        self._files = {source.name: set[str]() for source in sources}
        self._whole = {source.name for source in sources if whole or source.only is None}
        for source in sources:
            if source.only is not None:
                self._files[source.name].add(source.only)
        self._roots = {source.name: source.root for source in sources}
        self._unchanged: set[tuple[str, str]] = set()
        self._rejected: set[tuple[str, str]] = set()
        self._rejected_folders: list[tuple[str, str]] = []
        self._stored: dict[str, int] = {}

    def count_stored(self, writer: Sink) -> None:
        """Count the documents that each source has in the collection before this run changes it."""
        self._stored = {name: sum(1 for _ in self._in_scope(writer, name)) for name in self._files}

    def keep_rejected(self, rejected: Rejected) -> None:
        """A file, page or folder could not be read: documents that came from it are kept."""
        if rejected.folder:
            prefix = "" if rejected.origin == "." else f"{rejected.origin}/"
            self._rejected_folders.append((rejected.source, prefix))
        else:
            self._rejected.add((rejected.source, rejected.origin))

    def keep_unchanged(self, unchanged: Unchanged) -> None:
        """A page, or with the origin "." any page of the source, may be as it was."""
        if unchanged.origin == ".":
            self._rejected_folders.append((unchanged.source, ""))
        self._unchanged.add((unchanged.source, unchanged.origin))

    def missing_ids(self, writer: Sink, seen: SeenIds) -> dict[str, list[str]]:
        """Ids of stored documents that this run did not see, by source name. Call it with nothing pending."""
        missing = {}
        for name in self._files:
            documents = list(self._in_scope(writer, name))
            is_seen = seen.contains([document_id for document_id, _ in documents]).tolist()
            missing[name] = [
                document_id
                for (document_id, origin), was_seen in zip(documents, is_seen, strict=True)
                if not was_seen
                and not self._is_kept(name, origin)
                and not self._may_have_moved(name, document_id, origin)
            ]
        return missing

    def refusal(self, missing: dict[str, list[str]]) -> str | None:
        """The reason why the documents are not deleted, if they are too many; None if they may be."""
        for name, ids in missing.items():
            if 2 * len(ids) > self._stored.get(name, 0):
                return (
                    f"--mirror would delete {len(ids)} of the {self._stored.get(name, 0)} documents of source "
                    f"{name!r}, more than half: nothing was deleted; --force deletes them"
                )
        return None

    def _in_scope(self, writer: Sink, name: str) -> Iterable[tuple[str, str]]:
        """Id and origin of the stored documents of a source that this run covers."""
        is_whole, files = name in self._whole, self._files[name]
        return (document for document in writer.documents_of(name) if is_whole or document[1] in files)

    def _is_kept(self, source: str, origin: str) -> bool:
        return (
            (source, origin) in self._unchanged
            or (source, origin) in self._rejected
            or any(source == name and origin.startswith(folder) for name, folder in self._rejected_folders)
        )

    def _may_have_moved(self, source: str, document_id: str, origin: str) -> bool:
        """Whether a document with an id of its own may have moved from its file, now gone, to one that failed."""
        if document_id in (origin, f"{source}/{origin}") or not any(
            name == source for name, _ in (*self._rejected, *self._rejected_folders)
        ):
            return False
        root = self._roots[source]
        return isinstance(root, str) or not (root / origin).exists()
