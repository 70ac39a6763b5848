"""The grammar of filters: what is read, what is refused by place and cure, and what counts as the same filter."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, strategies as st

from aidre.engine.errors import InvalidFilter
from aidre.engine.index.fields.filters import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    MAX_NODES,
    MAX_VALUES,
    And,
    Compare,
    Instant,
    Not,
    Or,
    ValueRange,
    field_name,
    filter_digest,
    filter_fields,
    metadata_name,
    parse_filter,
    parse_instant,
    parse_range,
    range_with_dates,
    site_of,
    stored_name,
    unmistakable_name,
    with_dates,
    without_field,
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"lang": "de"}, Compare("lang", "eq", "de")),
        ({"lang": {"ne": "de"}}, Compare("lang", "ne", "de")),
        ({"price": {"gt": 1, "lte": 2}}, And((Compare("price", "gt", 1), Compare("price", "lte", 2)))),
        ({"a": 1, "b": True}, And((Compare("a", "eq", 1), Compare("b", "eq", True)))),
        ({"and": [{"a": 1}]}, And((Compare("a", "eq", 1),))),
        ({"or": [{"a": 1}, {"b": 2}]}, Or((Compare("a", "eq", 1), Compare("b", "eq", 2)))),
        ({"not": {"a": {"exists": True}}}, Not(Compare("a", "exists", True))),
        ({"a": {"nin": [2, 1]}}, Not(Compare("a", "in", (1, 2)))),
        ({"startDate": {"contains": "2026-04-01"}}, Compare("startDate", "contains", "2026-04-01")),
        ({"a": {"in": []}}, Compare("a", "in", ())),
        ({}, And(())),
        ({"and": []}, And(())),
        ({"or": []}, Or(())),
        ({"a": 5.0}, Compare("a", "eq", 5)),
        ({"metadata.a": 1}, Compare("a", "eq", 1)),
        ({"metadata.type": "x"}, Compare("metadata.type", "eq", "x")),
        ({"metadata.and": "x"}, Compare("and", "eq", "x")),
        ({"updated_at": {"gte": "1970-01-01T00:00:01Z"}}, Compare("updated_at", "gte", Instant(1_000_000))),
        ({"site": "https://www.Example.org:8080/a?b"}, Compare("site", "eq", "example.org")),
        ({"site": {"in": ["WWW.EXAMPLE.ORG", 5]}}, Compare("site", "in", (5, "example.org"))),
    ],
)
def test_a_filter_reads_as_typed_nodes(written: Any, meant: Any) -> None:
    assert parse_filter(written) == meant


def test_in_a_field_that_schema_org_gives_to_dates_only_what_reads_as_one_is_an_instant() -> None:
    assert parse_filter({"offers.validThrough": "1970-01-02"}) == Compare(
        "offers.validThrough", "eq", Instant(86_400_000_000)
    )
    assert parse_filter({"metadata.startDate": {"gt": "1970-01-01"}}) == Compare("startDate", "gt", Instant(0))
    assert parse_filter({"startDate": "soon"}) == Compare("startDate", "eq", "soon")
    assert parse_filter({"startDate": {"in": ["soon", "1970-01-01", 5]}}) == Compare(
        "startDate", "in", (Instant(0), 5, "soon")
    )
    assert parse_filter({"startDate.note": "1970-01-01"}) == Compare("startDate.note", "eq", "1970-01-01")
    with pytest.raises(InvalidFilter, match="startDate"):
        with_dates(parse_filter({"startDate": "soon"}), ["startDate"])


def test_whole_floats_are_read_as_integers_of_the_same_value() -> None:
    value = parse_filter({"a": 5.0})
    assert isinstance(value, Compare)
    assert type(value.value) is int


@pytest.mark.parametrize(
    ("written", "place", "cure"),
    [
        (5, "filter", "object"),
        (None, "filter", "object"),
        ([], "filter", "object"),
        ({"and": {"a": 1}}, "filter.and", "list"),
        ({"or": 1}, "filter.or", "list"),
        ({"not": [{"a": 1}]}, "filter.not", "object"),
        ({"and": [{}, {"price": {"gt": None}}]}, "filter.and[1].price.gt", "exists"),
        ({"price": None}, "filter.price", '{"exists": false}'),
        ({"price": [1]}, "filter.price", '{"in": [..]}'),
        ({"price": {"eq": {"a": 1}}}, "filter.price.eq", "one value"),
        ({"price": {}}, "filter.price", "gte"),
        ({"price": {"like": 1}}, "filter.price.like", "eq, ne, in"),
        ({"price": {"exists": 1}}, "filter.price.exists", "true or false"),
        ({"price": {"gt": True}}, "filter.price.gt", "eq, ne or in"),
        ({"price": {"in": 1}}, "filter.price.in", "list"),
        ({"price": {"in": [1, [2]]}}, "filter.price.in[1]", '{"in": [..]}'),
        ({"price": {"nin": 1}}, "filter.price.nin", "list"),
        ({"price": {"nin": [[2]]}}, "filter.price.nin[0]", '{"in": [..]}'),
        ({"price": {"contains": ["a"]}}, "filter.price.contains", '{"in": [..]}'),
        ({"price": {"contains": None}}, "filter.price.contains", '{"exists": false}'),
        ({"updated_at": {"contains": "2026"}}, "filter.updated_at.contains", "use eq"),
        ({"price": math.nan}, "filter.price", "number"),
        ({"updated_at": "yesterday"}, "filter.updated_at", "2026-04-01"),
        ({"updated_at": {"gt": 5}}, "filter.updated_at.gt", "2026-04-01"),
        ({"updated_at": {"in": ["2026-04-01", "2026-02-30"]}}, "filter.updated_at.in[1]", "2026-04-01"),
    ],
)
def test_a_filter_outside_the_grammar_is_refused_with_its_place_and_a_cure(written: Any, place: str, cure: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(written)
    assert caught.value.message.startswith(f"{place} ")
    assert cure in caught.value.message


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"a": 1}
    for _ in range(levels - 1):
        value = {"not": value}
    return value


@pytest.mark.parametrize(
    ("within", "beyond", "limit"),
    [
        (nested(MAX_DEPTH), nested(MAX_DEPTH + 1), MAX_DEPTH),
        ({"a": {"in": list(range(MAX_VALUES))}}, {"a": {"in": list(range(MAX_VALUES + 1))}}, MAX_VALUES),
        ({"or": [{"a": 1}] * (MAX_NODES - 1)}, {"or": [{"a": 1}] * MAX_NODES}, MAX_NODES),
        ({"a": "x" * MAX_CHARACTERS}, {"a": "x" * (MAX_CHARACTERS + 1)}, MAX_CHARACTERS),
        ({"a": {"in": ["x" * MAX_CHARACTERS]}}, {"a": {"in": ["x" * (MAX_CHARACTERS + 1)]}}, MAX_CHARACTERS),
        ({"x" * MAX_CHARACTERS: 1}, {"x" * (MAX_CHARACTERS + 1): 1}, MAX_CHARACTERS),
    ],
)
def test_a_limit_is_inclusive_and_one_more_is_refused_by_its_number(within: Any, beyond: Any, limit: int) -> None:
    parse_filter(within)
    with pytest.raises(InvalidFilter, match=f"{limit:,}"):
        parse_filter(beyond)


def test_nesting_far_beyond_the_limit_is_refused_without_a_recursion_error() -> None:
    with pytest.raises(InvalidFilter):
        parse_filter(nested(100_000))


def test_a_message_stays_on_one_short_line_whatever_the_keys_hold() -> None:
    for key in ("a\nb", "\ud800", "\u2028", "x" * 5_000):
        with pytest.raises(InvalidFilter) as caught:
            parse_filter({key: None})
        assert len(caught.value.message.splitlines()) == 1
        assert len(caught.value.message) < 300
        caught.value.message.encode()


def test_values_of_declared_dates_are_instants() -> None:
    written = {
        "or": [{"born": {"in": ["2026-04-01", "2026-04-01T00:00:00Z"]}}, {"not": {"born": {"lt": "2026-05-01"}}}]
    }
    first, second = Instant(1_775_001_600_000_000), Instant(1_777_593_600_000_000)
    expected = Or((Compare("born", "in", (first,)), Not(Compare("born", "lt", second))))
    assert with_dates(parse_filter(written), ["born"]) == expected
    assert with_dates(parse_filter(written), ["metadata.born"]) == expected
    with pytest.raises(InvalidFilter, match=r"filter\.born\.eq must be a date"):
        with_dates(parse_filter({"not": {"born": "long ago"}}), ["born"])
    with pytest.raises(InvalidFilter, match=r"filter\.born\.contains cannot be asked of a date; use eq"):
        with_dates(parse_filter({"not": {"born": {"contains": "19"}}}), ["born"])


def test_existence_of_a_declared_date_needs_no_date() -> None:
    assert with_dates(parse_filter({"born": {"exists": False}}), ["born"]) == Compare("born", "exists", False)


def test_the_fields_of_a_filter_are_all_names_it_looks_at() -> None:
    written = {"and": [{"a": 1}, {"or": [{"b.c": 1}, {"not": {"metadata.url": {"exists": True}}}]}], "site": "x.org"}
    assert filter_fields(parse_filter(written)) == {"a", "b.c", "metadata.url", "site"}
    assert filter_fields(parse_filter({})) == frozenset()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a": 1}, {"and": [{"a": {"eq": 1.0}}]}),
        ({"a": {"in": [1, "1", 2, 1]}}, {"a": {"in": [2, 1, "1"]}}),
        ({"or": [{"a": 1}, {"b": 2}]}, {"or": [{"b": 2}, {"a": 1}, {"a": 1}]}),
        ({"metadata.a": 1}, {"a": 1}),
        ({"updated_at": "2026-04-01"}, {"updated_at": "2026-04-01T02:00:00+02:00"}),
        ({"a": -0.0}, {"a": 0}),
    ],
)
def test_the_key_is_the_same_for_other_ways_to_write_a_filter(one: Any, other: Any) -> None:
    assert filter_digest(parse_filter(one)) == filter_digest(parse_filter(other))


def test_the_key_differs_where_the_meaning_differs() -> None:
    different = [
        *({}, {"or": []}, {"a": 1}, {"a": "1"}, {"a": True}, {"a": "True"}, {"a": 1.5}, {"a": "1.5"}, {"b": 1}),
        *({"a": {"ne": 1}}, {"not": {"a": 1}}, {"a": {"gt": 1}}, {"a": {"in": [1, 2]}}, {"a": {"in": ["1", "2"]}}),
        *({"a": {"exists": True}}, {"a": {"exists": False}}, {"a": 1, "b": 1}, {"or": [{"a": 1}, {"b": 1}]}),
        *({"a": {"in": []}}, {"a": ""}, {"a": {"in": ["1, 2"]}}, {"a": "\ud800"}, {"a": "\udc00"}, {"a": "\\ud800"}),
        *({"updated_at": "2026-04-01"}, {"metadata.updated_at": "2026-04-01"}, {"a": math.inf}, {"a": "inf"}),
    ]
    assert len({filter_digest(parse_filter(written)) for written in different}) == len(different)


OFFSETS = [timedelta(hours=5, minutes=30), -timedelta(hours=3, minutes=30)]
moments = st.datetimes(timezones=st.sampled_from([UTC, *map(timezone, OFFSETS)]))


@given(moments, st.sampled_from("Tt "), st.booleans())
def test_an_instant_is_the_same_point_in_time_in_every_notation(moment: datetime, between: str, finer: bool) -> None:
    utc_offset = moment.utcoffset()
    assert utc_offset is not None
    expected = (moment.replace(tzinfo=None) - datetime(1970, 1, 1) - utc_offset) // timedelta(microseconds=1)
    text = moment.isoformat(timespec="microseconds").replace("T", between)
    assert parse_instant(text) == expected
    assert parse_instant(text[:26] + "999" * finer + text[26:]) == expected


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02", 86_400),
        ("1970-01-01T00:00:05", 5),
        ("1970-01-01T00:01", 60),
        ("1970-01-01T00:01Z", 60),
        ("1970-01-01T00:00:05.5z", 5.5),
        ("1970-01-01T00:00:05,25Z", 5.25),
        ("1970-01-01 02:00:00+02:00", 0),
        ("1970-01-01T02:00:00 +0200", 0),
        ("1969-12-31T22:00:00-02:00", 0),
        ("1969-12-31T20:30:00-03:30", 0),
        ("1969-12-31T23:59:00-0001", 0),
        ("1970-01-01T05:45:00+05:45", 0),
        ("1970-01-01T00:00:60Z", 60),
    ],
)
def test_the_usual_ways_to_write_a_date_are_read(text: str, seconds: float) -> None:
    assert parse_instant(text) == int(seconds * 1_000_000)


@pytest.mark.parametrize(
    "text",
    [
        *("", "soon", "2026", "2026-04", "20260401", "2026-02-30", "0000-01-01", "2026-04-01T25:00:00Z"),
        *("2026-04-01T10:60:00Z", "2026-04-01T10:00:61Z", "2026-04-01T10:00:00+24:00", "2026-W01-1"),
        *("2026-04-01T10:00:00Zulu", " 2026-04-01", "2026-04-01\n", "٢٠٢٦-٠٤-٠١"),
    ],
)
def test_what_is_no_date_is_none(text: str) -> None:
    assert parse_instant(text) is None


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("https://www.Example.org/a", "example.org"),
        ("http://user:p@ss@example.org:80?x=//other.org", "example.org"),
        ("//example.org", "example.org"),
        ("https://[2001:DB8::1]:443/x", "2001:db8::1"),
        ("https://wwwx.org", "wwwx.org"),
        ("mailto:a@b.org", None),
        ("/relative/path", None),
        ("file:///etc/x", None),
        ("", None),
    ],
)
def test_the_site_of_a_url_is_its_host(url: str, site: str | None) -> None:
    assert site_of(url) == site


@given(st.text())
def test_every_member_of_the_metadata_has_a_name_of_its_own(path: str) -> None:
    assert stored_name(field_name("metadata." + path)) == metadata_name(path)
    assert field_name(metadata_name(path)) == metadata_name(path)


@pytest.mark.parametrize("name", ["id", "title", "text", "section"])
def test_metadata_that_are_named_as_a_member_are_told_from_it(name: str) -> None:
    assert field_name(name) != field_name(f"metadata.{name}") == unmistakable_name(name)
    assert stored_name(name) == stored_name(f"metadata.{name}") == metadata_name(name)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["and", "or", "not", "eq", "in", "exists", "updated_at", "a"]), inner, max_size=3
        )
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(json_values)
def test_any_json_is_either_a_filter_or_refused_by_name(value: Any) -> None:
    try:
        key = filter_digest(parse_filter(value))
    except InvalidFilter as error:
        assert error.message.startswith("filter")
    else:
        assert key == filter_digest(parse_filter(json.loads(json.dumps(value))))


@pytest.mark.parametrize(
    ("written", "rest"),
    [
        ({"a": 1}, None),
        ({"a": {"gt": 1, "lt": 3}}, None),
        ({"a": 1, "b": 2}, And((Compare("b", "eq", 2),))),
        ({"and": [{"not": {"a": 1}}, {"and": [{"a": 3}, {"b": 2}]}]}, And((And((Compare("b", "eq", 2),)),))),
        ({"or": [{"a": 1}, {"a": 2}]}, None),
        ({"or": [{"a": 1}, {"b": 2}]}, Or((Compare("a", "eq", 1), Compare("b", "eq", 2)))),
        ({}, And(())),
    ],
)
def test_conditions_on_one_field_are_left_out_where_they_can_be(written: Any, rest: Any) -> None:
    assert without_field(parse_filter(written), "a") == rest


def test_a_range_reads_its_ends_as_a_filter_does() -> None:
    assert parse_range("a", 1.0, None, "r") == ValueRange(1, None)
    assert parse_range("updated_at", None, "1970-01-01T00:00:01Z", "r") == ValueRange(None, Instant(1_000_000))
    dated = range_with_dates("day", parse_range("day", "1970-01-01", "1970-01-01T00:00:01Z", "r"), ["day"])
    assert dated == ValueRange(Instant(0), Instant(1_000_000))


@pytest.mark.parametrize("bound", [math.nan, True, [1], {}])
def test_an_end_of_a_range_is_a_number_or_a_string(bound: Any) -> None:
    with pytest.raises(InvalidFilter, match=r"^r\.from "):
        parse_range("a", bound, None, "r")
    with pytest.raises(InvalidFilter, match=r"^r has neither"):
        parse_range("a", None, None, "r")
