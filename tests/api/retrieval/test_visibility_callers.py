"""Which collections exist for a caller in a protocol; any other behaves like one that does not exist."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from aidre.api.access.caller import ANONYMOUS, Caller
from aidre.api.config.settings import Protocol, parse_settings
from aidre.api.http.http_errors import BadRequest, Unavailable
from aidre.api.retrieval.visibility import VisibleCollections
from aidre.engine.errors import CollectionMissing

ADA = Caller("key ada", frozenset({"secret", "broken"}))
KEYS = f'[[keys]]\nname = "ada"\nsha256 = "{"0" * 64}"\n'
CONFIGURATION = '[collections.quiet]\nprotocols = ["nlweb"]\n[collections.hidden]\nvisibility = "private"\n'
NAMES: dict[str, str | None] = {
    "open": "public",
    "secret": "private",
    "hidden": "public",
    "quiet": "public",
    "broken": None,
}


def collections(configuration: str = CONFIGURATION, **stored: str | None) -> VisibleCollections:
    """Collections by name with the visibility that they are stored with; None for one that cannot be opened."""

    def opened(visibility: str | None) -> Any:
        collection = SimpleNamespace(name="", visibility=visibility, description="")
        return SimpleNamespace(snapshot=None if visibility is None else SimpleNamespace(collection=collection))

    snapshots: Any = SimpleNamespace(
        collections={name: opened(visibility) for name, visibility in stored.items()},
        aliases={},
        used=lambda names: None,
    )
    return VisibleCollections(parse_settings(configuration), snapshots)


@pytest.mark.parametrize(
    ("caller", "protocol", "keys", "names"),
    [
        (ANONYMOUS, "aidre", "", ["open", "broken"]),
        (ANONYMOUS, "nlweb", "", ["open", "quiet", "broken"]),
        (ANONYMOUS, "aidre", KEYS, ["open"]),
        (ADA, "aidre", KEYS, ["open", "secret", "broken"]),
        (ADA, "nlweb", KEYS, ["open", "secret", "quiet", "broken"]),
    ],
)
def test_a_caller_sees_what_is_public_and_what_it_was_granted(
    caller: Caller, protocol: Protocol, keys: str, names: list[str]
) -> None:
    visible = collections(keys + CONFIGURATION, **NAMES)
    assert visible.names(caller, protocol) == names
    assert [one.name for one in visible.visible(caller, protocol)] == [name for name in names if name != "broken"]
    for name in (*NAMES, "missing"):
        if name not in names:
            with pytest.raises(CollectionMissing, match=f"there is no collection '{name}'"):
                visible.find(name, caller, protocol)
        elif name == "broken":
            with pytest.raises(Unavailable):
                visible.find(name, caller, protocol)
        else:
            assert visible.find(name, caller, protocol).name == name


def test_a_look_up_of_one_caller_or_protocol_answers_no_other() -> None:
    visible = collections(KEYS, secret="private", other="public")
    assert visible.find("secret", ADA, "aidre").visibility == "private"
    with pytest.raises(CollectionMissing):
        visible.find("secret", ANONYMOUS, "aidre")
    narrow = collections('[collections.one]\nprotocols = ["nlweb"]\n', one="public", two="public")
    assert narrow.find("one", ANONYMOUS, "nlweb").name == "one"
    with pytest.raises(CollectionMissing):
        narrow.find("one", ANONYMOUS, "aidre")


DEFAULT = '[server]\ndefault_collection = "two"\n'


@pytest.mark.parametrize(
    ("configuration", "stored", "found"),
    [
        ("", {"one": "public"}, "one"),
        ("", {"one": "public", "secret": "private"}, "one"),
        ("", {"one": "public", "two": "public"}, None),
        ("", {"secret": "private"}, None),
        ("", {}, None),
        (DEFAULT, {"one": "public", "two": "public"}, "two"),
        (DEFAULT, {"one": "public", "three": "public"}, None),
        (DEFAULT, {"one": "public", "two": "private"}, "one"),
        (DEFAULT, {"one": "public"}, "one"),
    ],
)
def test_without_a_name_the_default_or_the_only_visible_collection_is_meant(
    configuration: str, stored: dict[str, str | None], found: str | None
) -> None:
    visible = collections(configuration, **stored)
    if found is not None:
        assert visible.find(None, ANONYMOUS, "aidre").name == found
    else:
        with pytest.raises(BadRequest, match="collection is missing"):
            visible.find(None, ANONYMOUS, "aidre")
