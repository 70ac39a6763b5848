"""The commit records of the collections of a store: what makes rows visible.

A record is written and never changed: the one with the greatest serial holds, and the writer removes older ones when it
is there. Replacing a row in Milvus is to delete it and to insert another one, and a crash in between would lose it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from aidre.engine.errors import BackendUnavailable
from aidre_milvus.expressions import ALL, literal
from aidre_milvus.server import MilvusDatabase, Row
from aidre_milvus.tables import FORMAT, PLAIN_INDEX, RowExtent, name_of, packed, unpacked
from aidre_rows import CollectionState, decode_state

_FIELDS: Final = (
    "row INT64, name VARCHAR(1024), digest VARCHAR(64), serial INT64, piece INT64, token VARCHAR(64), "
    "blob VARCHAR(65535), vector FLOAT_VECTOR(2)"
)


@dataclass(frozen=True, slots=True)
class Commit:
    """A state with what a reader has to know of rows.

    Visible are the rows that were `born` in it or before, save those of commits that failed (`aborted`) and of
    documents that were deleted and may still be there (`dead`). `has_wide`: some documents have more values than a row
    lists. `growing` chunks were written since the graphs were built the last time.
    """

    state: CollectionState
    serial: int = 0
    born: int = 0
    aborted: tuple[int, ...] = ()
    dead: tuple[RowExtent, ...] = ()
    has_wide: bool = False
    growing: int = 0

    @property
    def visible(self) -> str:
        """Of rows of any kind, as an expression."""
        parts = [f"born <= {literal(self.born)}"]
        if self.aborted:
            parts.append(f"born not in {literal(self.aborted)}")
        if self.dead:
            parts.append(f"document not in {literal(extent.document for extent in self.dead)}")
        return " and ".join(parts)

    def again(self, **members: object) -> Commit:
        """A record of the same state, which differs in these members: where dead rows were removed, or graphs built."""
        state = replace(self.state, token=secrets.token_hex(8))
        return replace(self, serial=self.serial + 1, state=state, **members)  # type: ignore[arg-type]


class _CatalogState(msgspec.Struct):
    state: msgspec.Raw


@dataclass(frozen=True, slots=True)
class MilvusCatalog:
    server: MilvusDatabase

    @property
    def _name(self) -> str:
        return f"{self.server.store}_catalog"

    def make(self) -> bool:
        """Make the catalog of a new store; False where there is one."""
        if self.server.call("has_collection", self._name):
            return False
        self.server.make(self._name, _FIELDS, PLAIN_INDEX)
        self.server.wait_for([self._name])
        return True

    def names(self) -> list[str]:
        return sorted({row["name"] for row in self._rows(ALL, ["name"])})

    def token(self, collection: str) -> str | None:
        """That of the newest record."""
        found = self._rows(_of(collection), ["serial", "token"])
        return max(found, key=_serial)["token"] if found else None

    def newest(self, collection: str, *, strong: bool = False) -> Commit | None:
        """The newest record. FormatTooNew."""
        found = self._rows(_of(collection), ["serial", "piece", "blob"], strong=strong)
        if not found:
            return None
        last = max(map(_serial, found))
        pieces: Mapping[int, str] = {row["piece"]: row["blob"] for row in found if _serial(row) == last}
        encoded = unpacked(pieces[place] for place in sorted(pieces))
        state = msgspec.json.decode(encoded, type=_CatalogState).state
        decode_state(collection, bytes(state), FORMAT)  # its format comes first
        return msgspec.json.decode(encoded, type=Commit)

    def publish(self, collection: str, commit: Commit) -> None:
        start = secrets.randbits(62) & ~0xFFFF
        plain = {"name": collection, "digest": name_of(collection), "serial": commit.serial, "vector": [0.0, 0.0]}
        rows = [
            {**plain, "row": start + place, "piece": place, "blob": piece, "token": commit.state.token}
            for place, piece in enumerate(packed(msgspec.json.encode(commit)))
        ]
        self.server.insert(self._name, rows)

    def settle(self, collection: str, commit: Commit) -> bool:
        """Make a record that was published visible to every later reader, and remove older ones. False, and the record
        is withdrawn, where somebody else has written one."""
        found = self._rows(_of(collection), ["row", "serial", "token"], strong=True)
        own = [row["row"] for row in found if row["token"] == commit.state.token]
        is_newest = all(row["row"] in own or _serial(row) < commit.serial for row in found)
        removed = [row["row"] for row in found if row["row"] not in own] if is_newest else own
        if removed:
            self.server.delete(self._name, removed)
        return is_newest

    def remove(self, collection: str) -> None:
        """Remove a collection from the catalog."""
        found = self._rows(_of(collection), ["row"], strong=True)
        self.server.delete(self._name, [row["row"] for row in found])
        self._rows(_of(collection), ["row"], strong=True)

    def _rows(self, expression: str, columns: list[str], *, strong: bool = False) -> list[Row]:
        try:
            return self.server.rows(self._name, expression, columns, strong=strong)
        except BackendUnavailable as error:
            if error.details["reason"] != "absent":
                raise
            return []


def _of(collection: str) -> str:
    return f"digest == {literal(name_of(collection))}"


def _serial(row: Row) -> int:
    serial: Any = row["serial"]
    return int(serial)
