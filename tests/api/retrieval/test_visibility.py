"""Which collections exist for a caller in a protocol, and which one is meant where none is named."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aidre.api.access.caller import ANONYMOUS, Caller
from aidre.api.config.settings import parse_settings
from aidre.api.http import BadRequest, Unavailable
from aidre.api.retrieval.snapshots import LiveSnapshots, OpenCollection
from aidre.api.retrieval.visibility import VisibleCollections
from aidre.engine.errors import CollectionMissing

CONFIGURATION = """
[[keys]]
name = "reader"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
[collections.agents]
protocols = ["intake"]
[collections.closed]
visibility = "private"
description = "said by the configuration"
"""
READER = Caller("reader", frozenset({"closed", "hidden", "damaged"}))


def a_snapshot(visibility: str = "public") -> Any:
    return SimpleNamespace(
        collection=SimpleNamespace(name="", visibility=visibility, description="said by the manifest")
    )


def an_open(snapshot: Any) -> OpenCollection:
    return OpenCollection((1, 1, 1), snapshot)


SHELVES = {
    "agents": an_open(a_snapshot()),
    "closed": an_open(a_snapshot()),
    "damaged": an_open(None),
    "hidden": an_open(a_snapshot("private")),
    "news": an_open(a_snapshot()),
}


def visible(configuration: str = CONFIGURATION, **shelves: OpenCollection) -> tuple[VisibleCollections, Any]:
    snapshots = SimpleNamespace(collections=shelves or SHELVES, aliases={}, used=[].append)
    return VisibleCollections(parse_settings(configuration), cast(LiveSnapshots, snapshots)), snapshots


def test_everybody_sees_what_is_public_and_a_key_what_it_lists() -> None:
    collections, _ = visible()
    assert collections.names(ANONYMOUS, "aidre") == ["news"]
    assert collections.names(READER, "aidre") == ["closed", "damaged", "hidden", "news"]
    assert collections.names(READER, "intake") == ["agents", "closed", "damaged", "hidden", "news"]
    assert [one.name for one in collections.visible(READER, "aidre")] == ["closed", "hidden", "news"]


@pytest.mark.parametrize("name", ["agents", "closed", "damaged", "hidden", "absent"])
def test_what_a_caller_may_not_see_is_not_there(name: str) -> None:
    collections, _ = visible()
    with pytest.raises(CollectionMissing) as refused:
        collections.find(name, ANONYMOUS, "aidre")
    assert str(refused.value) == f"there is no collection {name!r}"


def test_what_is_damaged_is_unavailable_to_those_who_may_know_of_it() -> None:
    collections, _ = visible()
    with pytest.raises(Unavailable):
        collections.find("damaged", READER, "aidre")
    with pytest.raises(Unavailable):  # without keys nothing is private
        visible("")[0].find("damaged", ANONYMOUS, "aidre")


def test_the_configuration_describes_a_collection_before_its_manifest() -> None:
    collections, _ = visible()
    assert collections.find("closed", READER, "aidre").description == "said by the configuration"
    assert collections.find("news", READER, "aidre").description == "said by the manifest"


def test_no_name_means_the_default_one_or_the_only_one() -> None:
    collections, _ = visible()
    assert collections.find(None, ANONYMOUS, "aidre").name == "news"
    with pytest.raises(BadRequest, match="name the collection"):
        collections.find(None, READER, "aidre")
    chosen, _ = visible('[server]\ndefault_collection = "closed"\n' + CONFIGURATION)
    assert chosen.find(None, READER, "aidre").name == "closed"
    assert chosen.find(None, ANONYMOUS, "aidre").name == "news", "a default that is hidden is none"


def test_a_look_up_is_repeated_until_a_snapshot_changes() -> None:
    collections, snapshots = visible()
    found = collections.find("news", ANONYMOUS, "aidre")
    assert collections.find("news", ANONYMOUS, "aidre") is found
    newer = a_snapshot()
    snapshots.collections = {**SHELVES, "news": replace(SHELVES["news"], snapshot=newer)}
    assert collections.find("news", ANONYMOUS, "aidre").snapshot is newer
    snapshots.collections = {**SHELVES, "news": an_open(a_snapshot("private"))}
    with pytest.raises(CollectionMissing):
        collections.find("news", ANONYMOUS, "aidre")


def test_one_callers_look_up_is_not_anothers() -> None:
    collections, _ = visible()
    assert collections.find("hidden", READER, "aidre").name == "hidden"
    for caller, protocol in ((ANONYMOUS, "aidre"), (replace(READER, collections=frozenset()), "aidre")):
        with pytest.raises(CollectionMissing):
            collections.find("hidden", caller, protocol)  # type: ignore[arg-type]


def test_what_is_found_counts_as_used_and_a_look_up_alone_does_not() -> None:
    shelves, snapshots = visible()
    used: list[list[str]] = []
    snapshots.used = used.append
    shelves.known("news", ANONYMOUS, "aidre")
    assert used == []
    shelves.find("news", ANONYMOUS, "aidre")
    assert used == [["news"]]
