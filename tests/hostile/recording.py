"""What a process does to a folder, recorded where Python asks the system: changes, syncs, acknowledgements, in order.

Before and after each call that names, removes or syncs something the folder is compared with what was known of it. So
what native code writes (Arrow, SQLite, a memory map) is recorded too, as done before the next such call.
"""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from aidre.engine.storage import durable
from tests import ROOT

NAMING = ("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "link")
SYNCING = ("fsync", "fdatasync")
PRODUCT = ("engine/", "ingest/", "api/")
RACY_NS = 50_000_000
"""A file that was changed so short a time ago may be changed again without another time of change."""

Node: TypeAlias = int
"""A file or a folder, whatever its names are."""
Line: TypeAlias = tuple[str, int]
"""A file of the product, from the root of the project, and a line of it."""
TOP: Node = 0


@dataclass(frozen=True, slots=True)
class Wrote:
    """A file has this content (by its digest) from here on."""

    node: Node
    content: str


@dataclass(frozen=True, slots=True)
class Named:
    """Names that changed at once, by (folder, name); None where there is none any more."""

    names: tuple[tuple[tuple[Node, str], Node | None], ...]


@dataclass(frozen=True, slots=True)
class Synced:
    """A file or a folder was synced; `stack` are the lines of the product that asked for it."""

    node: Node
    stack: frozenset[Line]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Everything so far has to be found again."""


Event: TypeAlias = Wrote | Named | Synced | Acknowledged


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder: the names in each folder, and the content of each file by its digest."""

    names: Mapping[Node, Mapping[str, Node]]
    files: Mapping[Node, str]


@dataclass(frozen=True, slots=True)
class Recording:
    """A folder as it was, on disk, and what was done to it. `contents` has all contents by digest."""

    before: Tree
    events: Sequence[Event]
    contents: Mapping[str, bytes]


# -- looking at the folder -----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Watched:
    """What is known of the folder. `real` are the functions that the recorder took the place of."""

    folder: Path
    names: dict[Node, dict[str, Node]] = field(default_factory=lambda: {TOP: {}})
    files: dict[Node, str] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    _by_inode: dict[int, Node] = field(default_factory=dict)
    _stamps: dict[Node, tuple[int, int, int]] = field(default_factory=dict)
    _count: int = TOP

    def tree(self) -> Tree:
        return Tree({node: dict(names) for node, names in self.names.items()}, dict(self.files))

    def node_of(self, inode: int) -> Node | None:
        return self._by_inode.get(inode)

    def changes(self) -> list[Event]:
        """What has changed since the last look."""
        seen: dict[int, Node] = {self.folder.stat().st_ino: TOP}
        names: dict[Node, dict[str, Node]] = {}
        wrote = list(self._look(os.fspath(self.folder), TOP, seen, names))
        changed = {
            (folder, name): names.get(folder, {}).get(name)
            for folder in {*self.names, *names}
            for name in {*self.names.get(folder, {}), *names.get(folder, {})}
            if self.names.get(folder, {}).get(name) != names.get(folder, {}).get(name)
        }
        gone = {key for key in changed if key[0] not in names}  # within a removed folder: nobody can see it
        former = {key: self.names.get(key[0], {}).get(key[1]) for key in changed}
        self.names, self._by_inode = names, seen
        present = set(seen.values())
        self.files = {node: content for node, content in self.files.items() if node in present}
        self._stamps = {node: stamp for node, stamp in self._stamps.items() if node in present}
        return [*wrote, *_at_once({key: node for key, node in changed.items() if key not in gone}, former)]

    def _look(
        self, folder: str, node: Node, seen: dict[int, Node], names: dict[Node, dict[str, Node]]
    ) -> Iterator[Wrote]:
        own = names[node] = {}
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda one: one.name):
                status = entry.stat(follow_symlinks=False)
                inode = status.st_ino
                if inode not in seen:
                    known = self._by_inode.get(inode)
                    if known is None:
                        self._count += 1
                    seen[inode] = self._count if known is None else known
                own[entry.name] = seen[inode]
                if entry.is_dir(follow_symlinks=False):
                    yield from self._look(entry.path, seen[inode], seen, names)
                else:
                    yield from self._read(entry.path, seen[inode], status)

    def _read(self, path: str, node: Node, status: os.stat_result) -> Iterator[Wrote]:
        stamp = status.st_size, status.st_mtime_ns, status.st_ctime_ns
        if self._stamps.get(node) == stamp and time.time_ns() - status.st_mtime_ns > RACY_NS:
            return
        content = Path(path).read_bytes()
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        self._stamps[node] = stamp
        self.contents[digest] = content
        if self.files.get(node) != digest:
            self.files[node] = digest
            yield Wrote(node, digest)


def _at_once(
    changed: Mapping[tuple[Node, str], Node | None], former: Mapping[tuple[Node, str], Node | None]
) -> Iterator[Named]:
    """The changes in groups: one that moves a file from name to name is a single change."""
    groups: dict[object, list[tuple[tuple[Node, str], Node | None]]] = defaultdict(list)
    moved = {node for node in changed.values() if node is not None} & set(former.values())
    links: dict[object, object] = {}

    def root(one: object) -> object:
        while links.get(one, one) != one:
            one = links[one]
        return one

    for key, node in changed.items():
        for each in {node, former[key]} & moved:
            links[root(("name", key))] = root(("node", each))
    for key, node in changed.items():
        groups[root(("name", key))].append((key, node))
    for names in groups.values():
        yield Named(tuple(names))


# -- recording -----------------------------------------------------------------------------------------------------


class Recorder:
    """Records what this process does to a folder, from `recording` on until that ends."""

    def __init__(self, folder: Path) -> None:
        self._watched = _Watched(folder)
        self._watched.changes()
        self._before = self._watched.tree()
        self._events: list[Event] = []
        self._lock = threading.RLock()
        self._thread = threading.local()

    def acknowledge(self) -> None:
        with self._lock:
            self._look()
            self._events.append(Acknowledged())

    def recorded(self) -> Recording:
        self._look()
        return Recording(self._before, self._events, self._watched.contents)

    def _look(self) -> None:
        self._events += self._watched.changes()

    @contextmanager
    def recording(self) -> Iterator[None]:
        names = (*NAMING, *SYNCING)
        real = {name: getattr(os, name) for name in names}
        threads = vars(durable)["ThreadPoolExecutor"]
        for name in names:
            setattr(os, name, self._recorded(real[name], name in SYNCING))
        vars(durable)["ThreadPoolExecutor"] = _InTurn
        try:
            yield
        finally:
            vars(durable)["ThreadPoolExecutor"] = threads
            for name in names:
                setattr(os, name, real[name])

    def _recorded(self, real: Callable[..., Any], is_sync: bool) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                self._look()
                if is_sync:
                    self._sync(arguments[0])
                    return None
                try:
                    return real(*arguments, **named)
                finally:
                    self._look()

        return call

    def _sync(self, descriptor: int) -> None:
        """Nothing is really synced: that would only take its time."""
        node = self._watched.node_of(os.fstat(descriptor).st_ino)
        if node is not None:
            self._events.append(Synced(node, frozenset(_stack())))


class _InTurn:
    """Instead of a pool of threads: what is called has its callers above it."""

    def __init__(self, *_: object, **__: object) -> None:
        return

    def __enter__(self) -> _InTurn:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def map(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> Iterator[Any]:
        return map(function, *arguments)


def _stack() -> Iterator[Line]:
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        file = _file(frame.f_code.co_filename)
        if file is not None:
            yield file, frame.f_lineno


@lru_cache(maxsize=10_000)
def _file(name: str) -> str | None:
    path = os.path.relpath(os.path.realpath(name), ROOT)
    return path if path.startswith(PRODUCT) else None
