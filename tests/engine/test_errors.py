"""The root of all errors, and names from outside in their messages."""

from __future__ import annotations

import pytest

from aidre.engine import errors
from aidre.engine.errors import AidreError, printable_name


def tree(root: type[AidreError]) -> list[type[AidreError]]:
    return [root, *(below for child in root.__subclasses__() for below in tree(child))]


def test_an_error_is_its_message_and_carries_facts() -> None:
    error = AidreError("the row is too long: shorten it", row=7)
    assert (str(error), error.message, error.details) == (error.args[0], "the row is too long: shorten it", {"row": 7})


def test_every_error_has_a_code_of_its_own() -> None:
    own = [one for one in tree(AidreError) if one.__module__ in {errors.__name__, AidreError.__module__}]
    codes = [one.code for one in own if "code" in vars(one)]
    assert len(set(codes)) == len(codes) > 20


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("notes", "notes"),
        ("Ä 漢", "Ä 漢"),
        ("n" * 64, "n" * 64),
        ("n" * 65, "n" * 64 + "…"),
        ("a\nb", r"a\nb"),
        ("\x1b[31m\u202e", r"\x1b[31m\u202e"),
    ],
)
def test_a_name_from_outside_is_short_and_of_one_line(name: str, shown: str) -> None:
    assert printable_name(name) == shown
