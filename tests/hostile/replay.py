"""Power cuts on the strictest file system that POSIX allows: a recording is replayed, what was not synced is lost.

A file's content is sure once the file was synced, a name once its folder was; nothing else orders what is not sure. At
each point the power may go: then any of the changes that are not sure are lost, any others are kept, and a file whose
content is lost is as it was when it was synced, or as long as it was to be and filled with zeros. What SQLite does to
its own files is trusted.
"""

from __future__ import annotations

import hashlib
import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias

from tests.hostile.recording import TOP, Acknowledged, Event, Named, Node, Recording, Synced, Tree, Wrote

Key: TypeAlias = tuple[Node, str]
Judge: TypeAlias = Callable[[Path, int], None]
"""Looks at what is found after so many acknowledgements; AssertionError where something is missing or wrong."""
Lost: TypeAlias = Literal["earlier", "zeros"]
DATABASE, LOG, SHARED = ".sqlite", ".sqlite-wal", ".sqlite-shm"
FULL = "intake.sqlite"
"""The database that SQLite itself syncs with every commit; the log of the others is synced by the product."""


@dataclass(frozen=True, slots=True)
class State:
    """A folder as a machine finds it: contents by path (by digest, None for a folder), and what was acknowledged."""

    files: tuple[tuple[str, str | None], ...]
    acknowledged: int

    @property
    def key(self) -> tuple[str, int]:
        return hashlib.blake2b(repr(self.files).encode(), digest_size=16).hexdigest(), self.acknowledged


@dataclass(frozen=True, slots=True)
class Cut:
    """The power goes after an event: what is sure then, and the changes that are not, oldest first."""

    event: int
    acknowledged: int
    names: Mapping[Key, Node]
    contents: Mapping[Node, str]
    unsure: Sequence[Wrote | Named]


# -- what is sure ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Disk:
    """What is sure on a disk, and what is not, while events are replayed."""

    names: dict[Key, Node]
    contents: dict[Node, str]
    unsure: list[Wrote | Named] = field(default_factory=list)
    acknowledged: int = 0
    _named: dict[Node, str] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: Tree) -> Disk:
        names = {(folder, name): node for folder, inside in tree.names.items() for name, node in inside.items()}
        return cls(names, dict(tree.files), _named={node: name for (_, name), node in names.items()})

    def apply(self, event: Event) -> None:
        if isinstance(event, Acknowledged):
            self.acknowledged += 1
        elif isinstance(event, Named):
            named = {node: name for (_, name), node in event.names if node is not None}
            self._named |= named
            self.unsure.append(event)
            for node in named:
                self._trust(node)
        elif isinstance(event, Wrote):
            self.unsure = [one for one in self.unsure if not (isinstance(one, Wrote) and one.node == event.node)]
            self.unsure.append(event)
            self._trust(event.node)
        else:
            self._sync(event.node)

    def _trust(self, changed: Node) -> None:
        """SQLite syncs its log before it changes its database, and all of a database that is `FULL` at once."""
        name = self._named.get(changed, "")
        if name.endswith((DATABASE, SHARED)) or name.startswith(FULL):
            self._sync(changed)
        if name.endswith(DATABASE):
            for node in [node for node, other in self._named.items() if other == name.replace(DATABASE, LOG)]:
                self._sync(node)

    def _sync(self, node: Node) -> None:
        left: list[Wrote | Named] = []
        for one in self.unsure:
            if isinstance(one, Wrote):
                if one.node == node:
                    self.contents[node] = one.content
                else:
                    left.append(one)
                continue
            elsewhere = []
            for (folder, name), named in one.names:
                if folder != node:
                    elsewhere.append(((folder, name), named))
                else:
                    _set(self.names, (folder, name), named)
            if elsewhere:
                left.append(Named(tuple(elsewhere)))
        self.unsure = left

    def cut(self, event: int) -> Cut:
        return Cut(event, self.acknowledged, dict(self.names), dict(self.contents), tuple(self.unsure))


def _set(names: dict[Key, Node], key: Key, node: Node | None) -> None:
    if node is None:
        names.pop(key, None)
    else:
        names[key] = node


def keep_all(_: Synced) -> bool:
    return False


def cuts(recording: Recording, dropped: Callable[[Synced], bool] = keep_all) -> Iterator[Cut]:
    """The power cuts before the first event and after each one, were it not for the syncs that are `dropped`."""
    disk = Disk.of(recording.before)
    yield disk.cut(0)
    for number, _ in _replayed(disk, recording, dropped):
        yield disk.cut(number)


def _replayed(disk: Disk, recording: Recording, dropped: Callable[[Synced], bool]) -> Iterator[tuple[int, Event]]:
    """The events, by number from 1, each when it was applied to the disk."""
    for number, event in enumerate(recording.events, 1):
        if not (isinstance(event, Synced) and dropped(event)):
            disk.apply(event)
            yield number, event


# -- what a machine may find -----------------------------------------------------------------------------------------

Loss: TypeAlias = tuple[frozenset[int], Lost]
"""Which of the changes that are not sure are lost, by number, and what becomes of lost contents."""


def losses(cut: Cut) -> Iterator[Loss]:
    """Nothing lost, everything, each change alone, all but one."""
    every = frozenset(range(len(cut.unsure)))
    yield from ((every, "earlier"), (frozenset(), "earlier"), (every, "zeros"))
    for number in every:
        yield frozenset([number]), "earlier"
        if isinstance(cut.unsure[number], Wrote):
            yield frozenset([number]), "zeros"
        yield every - {number}, "earlier"


def pairs(cut: Cut) -> Iterator[Loss]:
    for two in itertools.combinations(range(len(cut.unsure)), 2):
        yield frozenset(two), "earlier"
        if any(isinstance(cut.unsure[one], Wrote) for one in two):
            yield frozenset(two), "zeros"


class Contents:
    """Contents by digest: those that were recorded, and those that a loss makes."""

    def __init__(self, recorded: Mapping[str, bytes]) -> None:
        self._all = dict(recorded)
        self.nothing = self.add(b"")

    def __getitem__(self, digest: str) -> bytes:
        return self._all[digest]

    def add(self, content: bytes) -> str:
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        self._all[digest] = content
        return digest

    def zeros(self, earlier: str, later: str) -> str:
        """As long as the later content, but zeros behind what was there earlier."""
        length = len(self[later])
        return self.add(self[earlier][:length].ljust(length, b"\0"))


def found(cut: Cut, loss: Loss, contents: Contents) -> State:
    """What the machine finds."""
    lost, how = loss
    names, files = dict(cut.names), dict(cut.contents)
    for number, change in enumerate(cut.unsure):
        if isinstance(change, Named):
            if number not in lost:
                for key, node in change.names:
                    _set(names, key, node)
        elif number not in lost:
            files[change.node] = change.content
        elif how == "zeros":
            files[change.node] = contents.zeros(files.get(change.node, contents.nothing), change.content)
    inside: dict[Node, dict[str, Node]] = {}
    for (folder, name), node in names.items():
        inside.setdefault(folder, {})[name] = node
    for change in cut.unsure:
        if isinstance(change, Wrote):
            files.setdefault(change.node, contents.nothing)
    return State(tuple(_paths(TOP, "", inside, files)), cut.acknowledged)


def _paths(
    folder: Node, path: str, inside: Mapping[Node, Mapping[str, Node]], files: Mapping[Node, str]
) -> Iterator[tuple[str, str | None]]:
    for name, node in sorted(inside.get(folder, {}).items()):
        own = f"{path}{name}"
        yield own, files.get(node)
        if node not in files:
            yield from _paths(node, f"{own}/", inside, files)


def put(state: State, contents: Contents, folder: Path) -> None:
    """Make the folder that is found."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path, content in state.files:
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(contents[content])


# -- judging ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Judged:
    """A recording, and what was found of its states; a state is judged once, whatever led to it.

    With `again`, it is done again in every state, and then all of it has to be there.
    """

    name: str
    recording: Recording
    judge: Judge
    place: Path
    again: Callable[[Path], None] | None = None
    contents: Contents = field(init=False)
    verdicts: dict[tuple[str, int], str] = field(default_factory=dict)
    replayed: int = 0

    def __post_init__(self) -> None:
        self.contents = Contents(self.recording.contents)

    def violation(self, tried: Iterable[tuple[Cut, Loss]]) -> str | None:
        """The first loss that must not be: where the power went, what was lost, what is wrong then."""
        for cut, loss in tried:
            self.replayed += 1
            state = found(cut, loss, self.contents)
            if state.key not in self.verdicts:
                self.verdicts[state.key] = self._verdict(state)
            if self.verdicts[state.key]:
                return f"{self._where(cut, loss)}: {self.verdicts[state.key]}"
        return None

    def _verdict(self, state: State) -> str:
        put(state, self.contents, self.place)
        try:
            self.judge(self.place, state.acknowledged)
            if self.again is not None:
                self.again(self.place)
                self.judge(self.place, sum(isinstance(event, Acknowledged) for event in self.recording.events))
        except Exception as error:
            return " ".join(f"{type(error).__name__}: {error}".split())[:600]
        finally:
            shutil.rmtree(self.place, ignore_errors=True)
        return ""

    def _where(self, cut: Cut, loss: Loss) -> str:
        names = _names(self.recording)
        lost, how = loss
        said = ", ".join(_said(cut.unsure[number], names) for number in sorted(lost))
        return f"{self.name}, event {cut.event}, {cut.acknowledged} acknowledged, lost ({how}): {said or 'nothing'}"


def _names(recording: Recording) -> dict[Node, str]:
    """The last name of each node."""
    names = {node: name for inside in recording.before.names.values() for name, node in inside.items()}
    for event in recording.events:
        if isinstance(event, Named):
            names |= {node: name for (_, name), node in event.names if node is not None}
    return names


def _said(change: Wrote | Named, names: Mapping[Node, str]) -> str:
    if isinstance(change, Wrote):
        return f"content of {names.get(change.node)}"
    return " and ".join(
        f"{'no ' if node is None else ''}{names.get(folder, '.')}/{name}" for (folder, name), node in change.names
    )


def worst(recording: Recording, dropped: Callable[[Synced], bool] = keep_all) -> Iterator[tuple[Cut, Loss]]:
    """At each acknowledgement everything lost that is not sure, were it not for the syncs that are `dropped`."""
    disk = Disk.of(recording.before)
    for number, event in _replayed(disk, recording, dropped):
        if isinstance(event, Acknowledged):
            yield disk.cut(number), (frozenset(range(len(disk.unsure))), "earlier")


def singles(recording: Recording, dropped: Callable[[Synced], bool] = keep_all) -> Iterator[tuple[Cut, Loss]]:
    """Every loss but pairs, at every cut."""
    for cut in cuts(recording, dropped):
        for loss in losses(cut):
            yield cut, loss


def continued(first: Recording, upto: int, second: Recording) -> Recording:
    """A process is killed after so many events of the first recording, and a second one goes on with what it finds.

    The second begins with the folder as the first left it, but what was unsure then is unsure still.
    """
    disk = Disk.of(first.before)
    for event in first.events[:upto]:
        disk.apply(event)
    cut = disk.cut(upto)
    names, files = dict(cut.names), dict(cut.contents)
    for change in cut.unsure:
        if isinstance(change, Named):
            for key, node in change.names:
                _set(names, key, node)
        else:
            files[change.node] = change.content
    same = _same(second.before, names)
    count = itertools.count(1 + max(_names(first), default=0))

    def mapped(node: Node) -> Node:
        if node not in same:
            same[node] = next(count)
        return same[node]

    sure = Tree(_inside(cut.names), cut.contents)
    events: list[Event] = [*cut.unsure]
    events += [_moved(event, mapped) for event in second.events]
    return replace(second, before=sure, events=events, contents={**first.contents, **second.contents})


def _inside(names: Mapping[Key, Node]) -> dict[Node, dict[str, Node]]:
    inside: dict[Node, dict[str, Node]] = {TOP: {}}
    for (folder, name), node in names.items():
        inside.setdefault(folder, {})[name] = node
    return inside


def _same(tree: Tree, names: Mapping[Key, Node]) -> dict[Node, Node]:
    """The nodes of one tree by those of another that has the same names."""
    same, inside = {TOP: TOP}, _inside(names)
    waiting = [TOP]
    while waiting:
        folder = waiting.pop()
        for name, node in tree.names.get(folder, {}).items():
            same[node] = inside[same[folder]][name]
            waiting.append(node)
    return same


def _moved(event: Event, mapped: Callable[[Node], Node]) -> Event:
    if isinstance(event, Acknowledged):
        return event
    if isinstance(event, Named):
        names = (((mapped(folder), name), node) for (folder, name), node in event.names)
        return Named(tuple((key, None if node is None else mapped(node)) for key, node in names))
    return replace(event, node=mapped(event.node))
