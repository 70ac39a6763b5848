"""Callers, what logs say of them, and the collections that are there for them, `api/access/caller.py`."""

from __future__ import annotations

import pytest

from aidre.api.access.caller import ANONYMOUS, Caller, caller_in, intake_caller, may_see, visibility_in_force
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
