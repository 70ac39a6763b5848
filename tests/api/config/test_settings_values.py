"""Any value at any key of the configuration: it is accepted, or one line names the key, and no secret is repeated."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, get_args, get_origin

import pytest
from hypothesis import example, given, settings, strategies as st

from aidre.api.config.nlweb import ActionSettings, ElicitationSettings
from aidre.api.config.settings import OAuth, Settings, Space, settings_of
from aidre.api.config.toml import Secret, Section, bare, is_section, members, path, read
from aidre.engine.errors import ConfigurationError
from tests.commands import reference

Steps: TypeAlias = tuple[str | int, ...]
"""A path in tables: keys, and places in lists."""

HIDDEN = "hunter2-and-more-letters"
SCALARS = (
    st.booleans()
    | st.integers()
    | st.sampled_from([-1, 0, 2**63 - 1, 2**63, -(2**70), 10**400])
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["", " ", "none", "env:", "env:NOT_THERE_AT_ALL", "1s", "5/minute", "docs", "a\nb", "{", "\0"])
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(datetime.UTC))
    | st.times()
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
)
"""What TOML can say."""
BESIDES: Mapping[type[Section], dict[str, Any]] = {
    OAuth: {"jwks": "keys.json"},
    ActionSettings: {"protocol": "HTTP", "method": "POST", "endpoint": "https://shop.example.com/orders"},
    Space: {"dimensions": 8, "provider": "openai", "model": "words-1", "endpoint": "https://api.example.com/v1"},
    ElicitationSettings: {"questions": [{"id": "diet", "text": "Any diet?"}]},
}
"""What the check of a section requires beside the required keys."""


def sections(kind: type[Section], steps: Steps = ()) -> Iterator[tuple[Steps, type[Section]]]:
    """Each section with its path."""
    yield steps, kind
    for key, field in members(kind).items():
        inner, _ = bare(field.type)
        below: Mapping[Any, Steps] = {tuple: (key, 0), Mapping: (key, "name")}
        for section in (item for item in (inner, *get_args(inner)) if is_section(item)):
            yield from sections(section, (*steps, *below.get(get_origin(inner), (key,))))


SECTIONS = dict(sections(Settings))
KINDS = {(*steps, key): field.type for steps, kind in SECTIONS.items() for key, field in members(kind).items()}
"""The types of all keys, by their paths."""
PLACES = st.sampled_from(sorted(KINDS, key=str))
HELD = {steps: bare(kind)[0] for steps, kind in KINDS.items()}
SECRETS = sorted((steps for steps, kind in HELD.items() if Secret in (kind, *get_args(kind))), key=str)


def written(steps: Steps) -> str:
    where = ""
    for step in steps:
        where = f"{where}[{step}]" if isinstance(step, int) else path(where, step)
    return where


def complete(section: type[Section]) -> dict[str, Any]:
    """A table of what a section requires."""
    needed = {key: reference.example(field) for key, field in members(section).items() if field.required}
    return needed | BESIDES.get(section, {})


def tables(steps: Steps, value: Any) -> Any:
    """The value at a path, within tables that are valid without it."""
    for end in reversed(range(len(steps))):
        step, section = steps[end], SECTIONS.get(steps[:end])
        beside = {} if section is None else complete(section)
        value = [value] if isinstance(step, int) else {**beside, step: value}
    return value


def fault(steps: Steps, value: Any) -> str | None:
    try:
        settings_of(tables(steps, value))
    except ConfigurationError as error:
        return str(error)
    return None


def own_fault(steps: Steps, value: Any) -> str | None:
    """What the type of a key alone says of a value."""
    try:
        read(KINDS[steps], value, written(steps))
    except ConfigurationError as error:
        return str(error)
    return None


def test_every_key_is_visited_in_valid_tables() -> None:
    assert len(KINDS) > 170
    assert ("collections", "name", "fusion", "rescore") in KINDS
    for steps, section in SECTIONS.items():
        settings_of(tables(steps, complete(section)))


@settings(max_examples=600, deadline=None)
@given(PLACES, VALUES)
@example(("intent", "keys"), {"a": "x" * 16, "b\n": "y" * 16})
@example(("intakes", 0, "input_schema"), {"pattern": "("})
@example(("intakes", 0, "filter"), {"a\nb": {"near": 1}})
@example(("intakes", 0, "filter"), {"a\nb": {"a\nb": 1}})
@example(("collections", "name", "mapping"), {"a\nb": 1})
@example(("collections", "name", "mapping"), {"text": "{a\nb"})
@example(("collections", "name", "spaces"), ["a\nb"])
@example(("limits", "redis"), "env:a\nb")
@example(("oauth", "jwks_uri"), "https://a\nb")
@example(("server", "base_url"), "https://a\nb")
@example(("server", "base_url"), "https://[")
@example(("nlweb", "llm", "base_url"), "http://[")
@example(("nlweb", "llm", "base_url"), "http://a:99999")
@example(("intakes", 0, "query"), "{a\nb}")
@example(("collections",), {"docs - at `$.limits": 5})
@example(("limits",), {"zzz - at `$.server.tls`": 5})
def test_a_value_is_accepted_or_its_key_is_named_in_one_line(steps: Steps, value: Any) -> None:
    said, own = fault(steps, value), own_fault(steps, value)
    if own is not None:
        assert said == own
        assert own.startswith(written(steps))
    if said is not None:
        assert "\n" not in said
        assert said.startswith(written(steps[:-1])) or written(steps) in said, "a fault of its table, or of two keys"


@settings(max_examples=200, deadline=None)
@given(PLACES, VALUES, st.text(min_size=1, max_size=12))
def test_an_unknown_key_beside_a_known_one_is_named(steps: Steps, value: Any, key: str) -> None:
    section = SECTIONS[steps[:-1]]
    if key in members(section):
        return
    with pytest.raises(ConfigurationError) as caught:
        settings_of(tables(steps[:-1], {key: value, **complete(section)}))
    assert str(caught.value).startswith(f"{path(written(steps[:-1]), key)} is not a key of aidre.toml: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("steps", SECRETS, ids=written)
@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"a": x}, lambda x: {"a": [x]}, lambda x: [{"a": x}], str])
def test_no_message_repeats_a_secret(steps: Steps, wrap: Callable[[str], Any]) -> None:
    for end in range(1, len(steps) + 1):
        assert HIDDEN not in str(fault(steps[:end], wrap(HIDDEN)))


@pytest.mark.parametrize(
    ("steps", "value"),
    [
        (("keys", 0, "sha256"), "hunter2"),
        (("intake", "bind_key"), "hunter2"),
        (("intake", "webhook"), "ftp://hunter2.example"),
        (("intake", "webhook"), "http://hunter2.example"),
        (("intent", "keys"), {"a": "hunter2"}),
        (("intent", "keys"), {"a": "hunter2", "b": "hunter2"}),
        (("nlweb", "llm", "base_url"), "ftp://user:hunter2@example.com"),
        (("server", "base_url"), "https://user:hunter2@example.com"),
        (("oauth", "jwks_uri"), "https://example.com/keys?secret=hunter2"),
    ],
)
def test_a_wrong_secret_is_named_by_its_key_alone(steps: Steps, value: Any) -> None:
    said = str(fault(steps, value))
    assert written(steps) in said
    assert "hunter2" not in said


def test_the_secrets_are_found() -> None:
    found = [
        "intake.bind_key", "intake.webhook", "intent.keys", "limits.redis", "nlweb.llm.key", "server.cursor_secret",
        "spaces[0].key", "store.uri",
    ]  # fmt: skip
    assert [written(steps) for steps in SECRETS] == found
