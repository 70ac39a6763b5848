from __future__ import annotations

from pathlib import Path

import pytest

from aidre.ingest.sites.settings.data import (
    get_table,
    get_text,
    get_texts,
    read_json,
    read_python,
    read_toml,
    read_yaml,
)


def test_unknown_tags_of_yaml_are_left_out_and_their_neighbours_read() -> None:
    text = """
    a: !!python/name:material.extensions.emoji.twemoji
    b: !!python/object/apply:os.system ["touch /tmp/never"]
    c: !ENV [NAME, "default"]
    d: !relative x
    e: 1
    """
    assert read_yaml(text) == {"a": None, "b": None, "c": "default", "d": None, "e": 1}


@pytest.mark.parametrize("text", [None, "", "- a", "a: [", "a", "\x00", "a: " + "[" * 1500])
def test_yaml_that_is_no_mapping_is_empty(text: str | None) -> None:
    assert read_yaml(text) == {}


def test_yaml_that_repeats_itself_is_empty() -> None:
    laughs = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 60)}]\n" for n in range(1, 9))
    assert read_yaml(laughs) == {}


def test_python_gives_its_literals_and_is_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    text = f"""
import os
open({str(marker)!r}, "w").close()
project = "Mill"
exclude_patterns = ["a"]
exclude_patterns += ["b"]
names = exclude_patterns + ["c"]
html_theme: str = "x"
release = os.environ["X"]
project = compute()
"""
    assert read_python(text) == {"exclude_patterns": ["a", "b"], "names": ["a", "b", "c"], "html_theme": "x"}
    assert not marker.exists()


@pytest.mark.parametrize(
    "text", ["def", "a = " + "(" * 5000, "a = 'x'\n" + "a += a\n" * 60, "a = " + "-" * 50_000 + "1", "a = 9**9**9"]
)
def test_hostile_python_is_in_bounds(text: str) -> None:
    assert len(str(read_python(text))) < 1_000_000


def test_toml_and_json_that_cannot_be_read_are_empty() -> None:
    assert read_toml("a = ") == {}
    assert read_toml('a = "b"\r\n') == {"a": "b"}
    assert read_json("{") is None
    assert read_json("[1]") == [1]


def test_settings_of_another_type_are_as_if_missing() -> None:
    settings = {"a": 1, "b": ["x", 2], "c": {"d": {"e": "f"}}, "g": "h"}
    assert get_text(settings, "a", "default") == "default"
    assert get_texts(settings, "b") == ("x",)
    assert get_texts(settings, "g") == ("h",)
    assert get_table(settings, "c", "d") == {"e": "f"}
    assert get_table(settings, "g", "d") == {}
