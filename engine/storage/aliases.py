"""Aliases: names of collections that move from one collection to another in one step.

All of a store are in one file, which is replaced atomically: a reader of any process sees the old names or the new
ones. Of an alias that moved, the file keeps the collections that it meant in the ten minutes before: there cursors go
on.
A file that cannot be read hides the aliases and no collection.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from aidre.engine.errors import InvalidInput, Missing, StoreDamaged
from aidre.engine.model import Alias
from aidre.engine.storage import durable

FILE: Final = ".aliases.json"
FORMER_SECONDS: Final = 600.0
"""The lifetime of a cursor."""
_FORMAT: Final = 1
_NONE: Final[Mapping[str, Alias]] = {}


class _AliasFile(NamedTuple):
    """Inode, mtime in nanoseconds and size of the file, what it says, and why it cannot be read."""

    mark: tuple[int, int, int] | None
    aliases: Mapping[str, Alias]
    problem: StoreDamaged | None


class Aliases:
    """The aliases of a store, by name. The file is read again when it has changed."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._name = str(self._file)
        self._read: _AliasFile = _AliasFile(None, _NONE, None)

    def known(self) -> Mapping[str, Alias]:
        """The aliases; none where the file is damaged. One call of the system where it is unchanged."""
        return self._newest().aliases

    def _newest(self) -> _AliasFile:
        """What the file says, as one value: several threads may read it at once."""
        read = self._read
        try:
            # By a string, as `Store.mark`: this is called for every search of the library.
            status = os.stat(self._name)  # noqa: PTH116
        except FileNotFoundError:
            return _AliasFile(None, _NONE, None)
        except OSError:
            return read
        mark = status.st_ino, status.st_mtime_ns, status.st_size
        if mark != read.mark:
            try:
                read = _AliasFile(mark, _decoded(self._file.read_bytes()), None)
            except OSError:
                return read
            except StoreDamaged as problem:
                read = _AliasFile(mark, _NONE, problem)
            self._read = read
        return read

    def read(self) -> Mapping[str, Alias]:
        """The aliases. StoreDamaged."""
        read = self._newest()
        if read.problem is not None:
            raise read.problem
        return read.aliases

    def point(self, name: str, collection: str) -> None:
        """Let a name mean a collection from now on, durable on return. InvalidInput, StoreDamaged, StorageFailed."""
        with durable.write_errors(self._file), durable.locked_folder(self._file.parent):
            aliases = dict(self.read())
            if collection in aliases:
                raise InvalidInput(f"{collection!r} is an alias itself: name the collection {aliases[collection][0]!r}")
            old, since = aliases.get(name), time.time()
            if old is not None and old.collection == collection:
                return
            former = () if old is None else ((old.collection, since), *old.former)
            recent = tuple(
                (target, at) for target, at in former if target != collection and at > since - FORMER_SECONDS
            )
            self._write(aliases | {name: Alias(collection, recent)})

    def remove(self, name: str) -> None:
        """Missing, StoreDamaged, StorageFailed."""
        with durable.write_errors(self._file), durable.locked_folder(self._file.parent):
            aliases = dict(self.read())
            if aliases.pop(name, None) is None:
                raise Missing(f"there is no alias {name!r} in this store", alias=name)
            self._write(aliases)

    def forget(self, collection: str) -> None:
        """Leave no trace of a collection that no alias means any more. StoreDamaged, StorageFailed."""
        if not any(collection in dict(alias.former) for alias in self.read().values()):
            return
        with durable.write_errors(self._file), durable.locked_folder(self._file.parent):
            self._write(
                {
                    name: alias._replace(former=tuple(pair for pair in alias.former if pair[0] != collection))
                    for name, alias in self.read().items()
                }
            )

    def replace(self, aliases: Mapping[str, Alias]) -> None:
        """Take those of another store in place of all, for a replica of it. StorageFailed."""
        read = self._newest()
        if read.problem is not None or read.aliases != aliases:
            with durable.write_errors(self._file):
                self._write(aliases)

    def _write(self, aliases: Mapping[str, Alias]) -> None:
        members = {name: alias._asdict() for name, alias in sorted(aliases.items())}
        durable.replace_file(self._file, orjson.dumps({"format": _FORMAT, "aliases": members}))


def _decoded(content: bytes) -> Mapping[str, Alias]:
    """StoreDamaged."""
    try:
        members = orjson.loads(content)
        if members["format"] != _FORMAT:
            raise ValueError(members["format"])
        return {
            str(name): Alias(str(member["collection"]), tuple((str(old), float(at)) for old, at in member["former"]))
            for name, member in members["aliases"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StoreDamaged(
            f"{FILE} is damaged: restore it from a backup, or remove it and run `aidre alias` again",
            file=FILE,
            problem="cannot be read",
        ) from None
