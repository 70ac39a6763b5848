<<<<<<< HEAD
"""The caller: which collections exist for it, and by what name it is logged."""
=======
"""Callers, what logs say of them, and the collections that are there for them, `api/access/caller.py`."""
>>>>>>> main

from __future__ import annotations

import pytest

from aidre.api.access.caller import ANONYMOUS, Caller, caller_in, intake_caller, may_see, visibility_in_force
<<<<<<< HEAD
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
=======
from aidre.api.config.settings import CollectionSettings
from aidre.engine.model import Visibility


@pytest.mark.parametrize(
    ("name", "logged"), [("key partner", "key partner"), ("oauth alice@example.com", "oauth"), ("", "")]
)
def test_logs_name_a_key_and_never_a_person(name: str, logged: str) -> None:
    assert Caller(name).logged == logged


@pytest.mark.parametrize(
    ("manifest", "configured", "expected"),
    [
        ("public", "public", "public"),
        ("public", "private", "private"),
        ("private", "public", "private"),
        ("private", "private", "private"),
    ],
)
def test_the_stricter_visibility_is_in_force(manifest: Visibility, configured: Visibility, expected: str) -> None:
    assert visibility_in_force(manifest, CollectionSettings(visibility=configured)) == expected


def test_a_private_collection_is_there_for_those_whom_it_is_granted() -> None:
    granted = Caller("key partner", frozenset({"vault"}))
    assert may_see(granted, "vault", "private")
    assert not may_see(granted, "cellar", "private")
    assert not may_see(ANONYMOUS, "vault", "private")
    assert may_see(ANONYMOUS, "vault", "public")


def test_an_intake_sees_its_own_collection_as_nobody_in_particular() -> None:
    caller = intake_caller("leads", "address 203.0.113.7")
    assert (caller.name, caller.collections, caller.account) == ("", frozenset({"leads"}), "address 203.0.113.7")
    assert intake_caller(None).collections == frozenset()


def test_before_the_guard_has_admitted_a_request_its_caller_is_nobody() -> None:
    assert caller_in({"state": {}}) is ANONYMOUS
    caller = Caller("key partner")
    assert caller_in({"state": {"caller": caller}}) is caller
>>>>>>> main
