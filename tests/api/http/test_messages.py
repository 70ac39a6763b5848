"""Messages read into structs, `api/http/messages.py`: what fits, what is said of what does not, and their schemas."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from msgspec import UNSET, Meta, UnsetType, field

from aidre.api.http.http_errors import BadRequest
from aidre.api.http.messages import (
    MIN_FLOAT_INTEGER,
    ClosedMessage,
    Message,
    OpenMessage,
    Text,
    Timestamp,
    parse_rfc3339,
    read_integers,
    read_message,
    schema_components,
)
from aidre.engine.errors import printable_name


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
        ({"inner": {"flag": True, "words": ["a"] * 3}}, "inner.words must be a list of at most 2 strings"),
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
    assert unknown.message == "inner.price is not a member of this message: leave it out"


class Closed(ClosedMessage):
    """A message without further members."""

    mode: Literal["one", "two"] | None = None
    name: Annotated[str, Meta(min_length=1)] | None = None
    names: Annotated[list[Annotated[str, Meta(min_length=2, max_length=3)]], Meta(min_length=1)] | None = None
    inner: Inner | None = None


@pytest.mark.parametrize("name", ["x` - at `$.y", "x` - at `$.y\n\x1b[31m", "x` - at `$" + ".y" * 99, "`", "` - at `$"])
def test_a_name_that_looks_like_a_path_is_shown_as_a_name(name: str) -> None:
    shown = printable_name(name)
    for body, place in ({name: 1}, ""), ({"inner": {"flag": True, name: 1}}, "inner."):
        with pytest.raises(BadRequest) as caught:
            read_message(body, Closed)
        assert caught.value.message == f"{place}{shown} is not a member of this message: leave it out"
        assert caught.value.details == {"member": place + shown}


def test_a_value_that_looks_like_a_path_is_not_shown() -> None:
    with pytest.raises(BadRequest) as caught:
        read_message({"mode": "x' - at `$.y\n"}, Closed)
    assert caught.value.message == "mode must be one of one, two"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"name": ""}, "name must be a string of at least 1 character"),
        ({"names": []}, "names must be a list of at least 1 string"),
        ({"names": ["x"]}, "names[0] must be a string of 2 to 3 characters"),
    ],
)
def test_sizes_are_said_in_good_english(body: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read_message(body, Closed)
    assert caught.value.message == message


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


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01t00:00:01.25z", 1.25),
        ("1970-01-01T02:00:01+02:00", 1.0),
        ("2016-12-31T23:59:60Z", 1_483_228_800.0),
        ("1970-01-01T00:00:01", None),
        ("1970-01-01 00:00:01Z", None),
        ("1970-01-01T00:00:01+0100", None),
        ("1970-02-30T00:00:01Z", None),
        ("1970-01-01T25:00:01Z", None),
        ("1970-01-01T00:00:01+24:00", None),
        ("9999-12-31T23:59:59Z", 253_402_300_799.0),
        ("0000-01-01T00:00:00Z", None),
        ("٢٠٢٦-01-01T00:00:01Z", None),
        ("1970-01-01T00:00:01Z\n", None),
    ],
)
def test_instants_are_those_of_rfc_3339(text: str, instant: float | None) -> None:
    assert parse_rfc3339(text) == instant
    assert Timestamp.admits(text) is (instant is not None)
