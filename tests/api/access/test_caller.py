"""The caller: which collections exist for it, and by what name it is logged."""

from __future__ import annotations

import pytest

from aidre.api.access.caller import ANONYMOUS, Caller, caller_in, intake_caller, may_see, visibility_in_force
from aidre.api.config import CollectionSettings
from aidre.engine.model import Visibility

ADA = Caller("key ada", frozenset({"letters"}))


@pytest.mark.parametrize(
    ("caller", "name", "visibility", "sees"),
    [
        (ANONYMOUS, "letters", "public", True),
        (ANONYMOUS, "letters", "private", False),
        (ADA, "letters", "private", True),
        (ADA, "diaries", "private", False),
        (ADA, "diaries", "public", True),
    ],
)
def test_a_private_collection_exists_for_those_who_were_granted_it(
    caller: Caller, name: str, visibility: Visibility, sees: bool
) -> None:
    assert may_see(caller, name, visibility) is sees


@pytest.mark.parametrize("manifest", ["public", "private"])
@pytest.mark.parametrize("configured", ["public", "private"])
def test_the_stricter_visibility_is_in_force(manifest: Visibility, configured: Visibility) -> None:
    expected = "private" if "private" in (manifest, configured) else "public"
    assert visibility_in_force(manifest, CollectionSettings(visibility=configured)) == expected


def test_a_key_is_logged_by_its_name_and_a_token_as_a_token() -> None:
    assert [Caller(name).logged for name in ("key ada", "oauth ada@example.org", "")] == ["key ada", "oauth", ""]


def test_a_request_that_was_not_admitted_is_anonymous() -> None:
    assert caller_in({"state": {}}) is ANONYMOUS
    assert caller_in({"state": {"caller": ADA}}) is ADA


def test_an_intake_sees_its_own_collection_alone() -> None:
    assert intake_caller(None).collections == frozenset()
    assert intake_caller("letters", "account") == Caller(collections=frozenset({"letters"}))
    assert intake_caller("letters", "account").account == "account"
