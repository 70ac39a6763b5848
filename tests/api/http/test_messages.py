"""Messages read into structs, `api/http/messages.py`: what fits, what is said of what does not, and their schemas."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, Meta, UnsetType, field

from aidre.api.http.errors import BadRequest
from aidre.api.http.messages import (
    MIN_FLOAT_INTEGER,
    ClosedMessage,
    Message,
    OpenMessage,
    Text,
    read_integers,
    read_message,
    schema_components,
)


class Word(Text, rule="a word", pattern=r"^\S+$", check=str.isalpha):
    pass


class Inner(ClosedMessage):
    """A closed part."""

    flag: bool
    word: Word | None = None
    words: Annotated[list[Word], Meta(max_length=2)] | UnsetType = UNSET


class Open(OpenMessage):
    """A part with further members."""

    name: str


class Outer(Message):
    """The whole."""

    text: Annotated[str, Meta(max_length=3)] | None = None
    count: Annotated[int, Meta(ge=1)] | None = None
    share: Annotated[float, Meta(ge=0, le=1)] | None = None
    mode: Literal["one", "two"] | None = None
    site: str | list[str] | None = None
    inner: Inner | None = None
    free: dict[str, Any] | None = None
    open: Open | None = None
    return_: bool | None = field(default=None, name="return")


def refused(body: dict[str, Any]) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        read_message(body, Outer)
    return caught.value


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"text": 5}, "text must be a string of at most 3 characters"),
        ({"text": "four"}, "text must be a string of at most 3 characters"),
        ({"count": True}, "count must be a whole number of at least 1"),
        ({"count": 5.0}, "count must be a whole number of at least 1"),
        ({"count": "5"}, "count must be a whole number of at least 1"),
        ({"count": 0}, "count must be a whole number of at least 1"),
        ({"share": True}, "share must be a number from 0 to 1"),
        ({"share": 1.5}, "share must be a number from 0 to 1"),
        ({"mode": "three"}, "mode must be one of one, two"),
        ({"mode": 1}, "mode must be one of one, two"),
        ({"site": {}}, "site must be a string or a list of strings"),
        ({"site": [1]}, "site[0] must be a string"),
        ({"return": "yes"}, "return must be true or false"),
        ({"inner": []}, "inner must be an object"),
        ({"inner": {"flag": 1}}, "inner.flag must be true or false"),
        ({"inner": {"flag": True, "word": 5}}, "inner.word must be a word"),
        ({"inner": {"flag": True, "word": "a b"}}, "inner.word must be a word"),
        ({"inner": {"flag": True, "words": ["a", "-"]}}, "inner.words[1] must be a word"),
        ({"inner": {"flag": True, "words": ["a"] * 3}}, "inner.words must be a list of strings of at most 2 strings"),
        ({"free": 5}, "free must be an object"),
    ],
)
def test_a_member_that_does_not_fit_is_named_with_what_it_must_be(body: dict[str, Any], message: str) -> None:
    error = refused(body)
    assert error.message == message
    assert error.details["member"] == message.partition(" must ")[0]
    assert ("supported" in error.details) == ("one of" in message)


def test_a_member_that_is_missing_and_one_that_is_too_many_are_named() -> None:
    assert refused({"inner": {}}).details == {"missing": ["inner.flag"]}
    assert refused({"inner": {}}).message == "inner.flag is missing"
    unknown = refused({"inner": {"flag": True, "price": 1}})
    assert unknown.message == "inner.price is no member of this message: leave it out"


def test_null_counts_as_absent_where_the_struct_says_so_and_unknown_members_are_ignored() -> None:
    assert read_message({"text": None, "unknown": [1]}, Outer) == Outer()
    assert refused({"inner": None, "count": "x"}).details == {"member": "count"}


@pytest.mark.parametrize("value", [2.0**64, 1e300, -(2.0**70)])
def test_integers_of_64_bits_and_more_are_integers(value: float) -> None:
    members = {"count": value}
    read_integers(members, "count", "absent", least=-float("inf"))
    assert members == {"count": int(value)}


@pytest.mark.parametrize("value", [5.0, 2.0**53, 1.5, float("inf"), float("nan"), True, "5", None])
def test_other_values_stay_what_they_are(value: Any) -> None:
    members = {"count": value}
    read_integers(members, "count", least=MIN_FLOAT_INTEGER)
    assert members["count"] is value


def test_schemas_are_plain() -> None:
    schemas = schema_components([Outer])
    assert schemas["Outer"]["properties"] == {
        "text": {"type": ["string", "null"], "maxLength": 3},
        "count": {"type": ["integer", "null"], "minimum": 1},
        "share": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        "mode": {"anyOf": [{"type": "string", "enum": ["one", "two"]}, {"type": "null"}]},
        "site": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
        "inner": {"anyOf": [{"$ref": "#/components/schemas/Inner"}, {"type": "null"}]},
        "free": {"type": ["object", "null"], "additionalProperties": True},
        "open": {"anyOf": [{"$ref": "#/components/schemas/Open"}, {"type": "null"}]},
        "return": {"type": ["boolean", "null"]},
    }
    assert "required" not in schemas["Outer"]
    assert schemas["Inner"]["required"] == ["flag"]
    assert schemas["Inner"]["additionalProperties"] is False
    assert schemas["Inner"]["properties"]["word"] == {"type": ["string", "null"], "pattern": r"^\S+$"}
    assert schemas["Open"]["additionalProperties"] is True
