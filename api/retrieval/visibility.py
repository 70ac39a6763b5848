"""The collections that exist for a caller in a protocol. Any other name behaves as if there were no such collection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aidre.api.access import Caller, may_see, visibility_in_force
from aidre.api.config import CollectionSettings, Protocol, Settings
from aidre.api.http import BadRequest, Unavailable
from aidre.api.retrieval.cursor import lineage_digest
from aidre.api.retrieval.snapshots import LiveSnapshots, OpenCollection
from aidre.engine.errors import CollectionMissing
from aidre.engine.model import Mode, Visibility
from aidre.engine.ports import Reader, Unpulled
from aidre.engine.retrieve import State, text_modes

MAX_CACHED_LOOKUPS = 1_024
MAX_NAME_CHARACTERS = 64
"""Longest name of a collection."""


class NotHere(Unavailable):
    """The documents of a collection are not on this machine yet."""

    def __init__(self, name: str) -> None:
        super().__init__("this collection is being fetched: try again in a moment", collection=name)
        self.name = name


@dataclass(frozen=True, slots=True)
class VisibleCollection:
    """A collection that a caller may see, at one snapshot; `state` is that and the policy of its searches.

    Not `is_here`, its documents are not on this machine yet."""

    name: str
    snapshot: Reader
    state: State
    settings: CollectionSettings
    visibility: Visibility
    is_here: bool = True

    @property
    def description(self) -> str:
        return self.settings.description or self.snapshot.collection.description

    @property
    def text_modes(self) -> list[Mode]:
        """The modes in which it is searched by text, the default one first."""
        return text_modes(self.state)


class VisibleCollections:
    """Look-ups by caller and protocol. `find` caches them until a snapshot changes, refusals too: however often a name
    is asked for, the time does not tell a hidden collection from none."""

    def __init__(self, settings: Settings, snapshots: LiveSnapshots) -> None:
        self._settings = settings
        self._snapshots = snapshots
        self._cached_for = snapshots.collections
        self._cache: dict[tuple[str | None, Protocol, frozenset[str]], VisibleCollection | None] = {}

    def names(self, caller: Caller, protocol: Protocol) -> list[str]:
        """Names of the visible collections, including those that cannot be opened at the moment. One that has an alias
        which the caller may see is listed by that alone."""
        aliases, names = self._snapshots.aliases, self._seen(caller, protocol)
        meant = {aliases[name].collection for name in names if name in aliases}
        return [name for name in names if name not in meant]

    def _seen(self, caller: Caller, protocol: Protocol) -> list[str]:
        return [
            name
            for name, current in self._snapshots.collections.items()
            if self._may_see(caller, name, self._visibility(current), protocol, self._meant(name, current))
        ]

    def sees(self, name: str, caller: Caller, protocol: Protocol) -> bool:
        """Whether the caller sees a collection of that name or alias, also one that is listed by its alias alone."""
        current = self._snapshots.collections.get(name)
        visibility: Visibility = "private" if current is None else self._visibility(current)
        meant = None if current is None else self._meant(name, current)
        # The same work for a missing name as for a hidden one: the time tells them apart no better than the answer.
        return self._may_see(caller, name, visibility, protocol, meant) and current is not None

    def settings_of(self, name: str) -> CollectionSettings:
        """The settings by a name, which may be an alias."""
        current = self._snapshots.collections.get(name)
        return self._settings.collection(name, None if current is None else self._meant(name, current))

    def visible(self, caller: Caller, protocol: Protocol) -> Iterator[VisibleCollection]:
        """The visible collections that are open."""
        for name in self.names(caller, protocol):
            current = self._snapshots.collections.get(name)
            if current is not None and current.snapshot is not None:
                yield self._at(name, current.snapshot)

    def find(self, name: str | None, caller: Caller, protocol: Protocol) -> VisibleCollection:
        """The collection of a name, for questions to it; for None the default one, or the only one.

        Raises CollectionMissing, BadRequest if None is ambiguous, Unavailable if the collection cannot be opened, and
        NotHere, which `Retrieval.find_here` mends.
        """
        collection = self.known(name, caller, protocol)
        if not collection.is_here:
            raise NotHere(collection.name)
        self._snapshots.used([collection.name])
        return collection

    def known(self, name: str | None, caller: Caller, protocol: Protocol) -> VisibleCollection:
        """The same, to tell what it is; its documents need not be on this machine."""
        if name is not None and len(name) > MAX_NAME_CHARACTERS:  # no collection has it, and no cache should
            raise CollectionMissing(f"there is no collection {name!r}", collection=name)
        collections = self._snapshots.collections
        if collections is not self._cached_for or len(self._cache) > MAX_CACHED_LOOKUPS:
            self._cached_for, self._cache = collections, {}
        key = name, protocol, caller.collections
        if key not in self._cache:
            self._cache[key] = self._look_up(name, caller, protocol)
        collection = self._cache[key]
        if collection is None:
            raise CollectionMissing(f"there is no collection {name!r}", collection=name)
        return collection

    def is_here(self, name: str) -> bool:
        """Whether the documents of a collection, or of what an alias means, are on this machine."""
        current = self._snapshots.collections.get(name)
        return current is None or not isinstance(current.snapshot, Unpulled)

    def before(self, collection: VisibleCollection, snapshot: Reader) -> VisibleCollection | None:
        """What an alias meant before, at a snapshot of that; None where other settings hold there, so that a cursor
        shows nothing that they withhold."""
        found = self._at(collection.name, snapshot)
        same = (found.settings, found.visibility) == (collection.settings, collection.visibility)
        return found if same else None

    def dropped(self, name: str | None, caller: Caller, protocol: Protocol) -> frozenset[bytes]:
        """The lineage digests of the dropped collections that `find` would otherwise have found. Blocking: call it from
        a thread."""
        default = self._settings.server.default_collection
        names = self._snapshots.gone if default is None else {default}
        return frozenset(
            lineage_digest(reader.lineage)
            for reader in self._snapshots.dropped(names if name is None else {name})
            if self._may_see(caller, reader.name, reader.visibility, protocol)
        )

    def _look_up(self, name: str | None, caller: Caller, protocol: Protocol) -> VisibleCollection | None:
        """None for a missing name as for a hidden one."""
        if name is None:
            name = self._default_name(caller, protocol)
        if not self.sees(name, caller, protocol):
            return None
        current = self._snapshots.collections[name]
        if current.snapshot is None:
            raise Unavailable("this collection cannot be read at the moment: try again later", collection=name)
        return self._at(name, current.snapshot)

    def _default_name(self, caller: Caller, protocol: Protocol) -> str:
        default = self._settings.server.default_collection
        if default is not None and self.sees(default, caller, protocol):
            return default
        names = self.names(caller, protocol)
        if len(names) != 1:
            raise BadRequest("collection is missing: name the collection to search", missing=["collection"])
        return names[0]

    def _visibility(self, current: OpenCollection) -> Visibility:
        """The visibility by the manifest; a damaged collection counts as private if keys are configured."""
        unknown: Visibility = "private" if self._settings.knows_callers else "public"
        return current.snapshot.collection.visibility if current.snapshot else unknown

    def _meant(self, name: str, current: OpenCollection) -> str | None:
        """The collection that a name, maybe an alias, means: that of the snapshot, which cannot be another one."""
        if current.snapshot is not None:
            return current.snapshot.collection.name
        alias = self._snapshots.aliases.get(name)
        return None if alias is None else alias.collection

    def _may_see(
        self, caller: Caller, name: str, visibility: Visibility, protocol: Protocol, meant: str | None = None
    ) -> bool:
        settings = self._settings.collection(name, meant)
        return protocol in settings.protocols and may_see(caller, name, visibility_in_force(visibility, settings))

    def _at(self, name: str, snapshot: Reader) -> VisibleCollection:
        settings = self._settings.collection(name, snapshot.collection.name)
        visibility = visibility_in_force(snapshot.collection.visibility, settings)
        state, is_here = State(snapshot, settings.policy), not isinstance(snapshot, Unpulled)
        return VisibleCollection(name, snapshot, state, settings, visibility, is_here)
