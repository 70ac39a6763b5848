"""Front matter in YAML, TOML and JSON: its members, the body after it, and the id that is found without reading on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aidre.engine.model import Document
from aidre.ingest.formats.front_matter import read_own_id, split_front_matter
from aidre.ingest.formats.markdown import read_markdown
from aidre.ingest.records.file import File
from aidre.ingest.records.vectors import VectorRules
from tests.support.rows import one

YAML = "---\ntitle: The mill\ndate: 2024-05-01T10:00:00Z\ntags: [stone, river]\nweight: 3\n---\n"
TOML = '+++\ntitle = "The mill"\ndate = 2024-05-01T10:00:00Z\ntags = ["stone", "river"]\nweight = 3\n+++\n'
JSON = '{\n  "title": "The mill",\n  "date": "2024-05-01T10:00:00Z",\n  "tags": ["stone", "river"],\n  "weight": 3\n}\n'


def file_of(tmp_path: Path, content: str | bytes) -> File:
    path = tmp_path / "page.md"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return File(path, "docs", "page.md")


def read(tmp_path: Path, content: str) -> Document:
    return one(list(read_markdown(file_of(tmp_path, content), VectorRules([], []))))


@pytest.mark.parametrize("matter", [YAML, TOML, JSON, TOML.replace("\n", "\r\n"), JSON.replace("\n", "\r\n")])
def test_all_notations_give_the_same_document(tmp_path: Path, matter: str) -> None:
    document = read(tmp_path, f"{matter}\nBuilt in 1890.\n")
    assert (document.title, document.updated_at) == ("The mill", "2024-05-01T10:00:00Z")
    assert (document.metadata, document.text.strip()) == ({"tags": ["stone", "river"], "weight": 3}, "Built in 1890.")


@pytest.mark.parametrize("matter", [YAML, TOML, JSON])
@pytest.mark.parametrize("before", ["\ufeff", "\n", " \r\n\n"])
def test_a_mark_or_blank_lines_may_come_before(matter: str, before: str) -> None:
    text = (before + matter + "Built.").removeprefix("\ufeff")
    members, body = split_front_matter(text)
    assert (members["title"], body) == ("The mill", "Built.")


def test_terms_and_own_fields_of_zola_are_metadata_as_elsewhere(tmp_path: Path) -> None:
    document = read(
        tmp_path,
        '+++\ntitle = "T"\nauthors = ["a"]\n[taxonomies]\ntags = ["x"]\nauthors = ["b"]\n'
        '[extra]\nlead = "l"\ntitle = "no title"\nid = "no id"\netag = "e"\n+++\nx',
    )
    assert (document.id, document.title) == ("docs/page.md", "T")
    assert document.metadata == {
        "authors": ["a"],
        "tags": ["x"],
        "lead": "l",
        "taxonomies": {"authors": ["b"]},
        "extra": {"title": "no title", "id": "no id", "etag": "e"},
    }


def test_days_and_times_of_toml_are_those_of_yaml(tmp_path: Path) -> None:
    document = read(tmp_path, "+++\ndate = 2024-05-01\nat = 10:00:00\nwhen = 2024-05-01T10:00:00+02:00\n+++\nx")
    assert document.updated_at == "2024-05-01T00:00:00Z"
    assert document.metadata == {"at": "10:00:00", "when": "2024-05-01T08:00:00Z"}


@pytest.mark.parametrize(
    "text",
    [
        "+++\nnot closed",
        "++++\na = 1\n++++\n",
        '{"a": 1} and words',
        "{{ template }}\nwords",
        "{% raw %}\nwords",
        "{#anchor}\nwords",
        '{"a": 1\nwords',
        '{"a": ' + "[" * 100_000 + "\n",
        "{}\nwords",
    ],
    ids=lambda text: text[:12],
)
def test_what_only_looks_like_front_matter_is_text(text: str) -> None:
    assert split_front_matter(text) == ({}, text)


@pytest.mark.parametrize("matter", ["a = ", "a = 1\na = 2", "[a\n", "a = " + "[" * 5_000, "a." * 2_000 + "a = 1"])
def test_toml_that_cannot_be_meant_is_read_line_by_line(matter: str) -> None:
    members, body = split_front_matter(f'+++\ntitle = "Bridge"\ndraft = true\n{matter}\n+++\nx')
    assert body == "x"
    assert (members["title"], members["draft"]) == ("Bridge", "true")


@pytest.mark.parametrize(
    ("content", "own_id"),
    [
        ("---\nid: intro\n---\nx", "intro"),
        ("---\ntitle: T\nid: 'a b'\n---\nx", "a b"),
        ("---\nid: 7\n---\nx", "7"),
        ("---\n{id: flow}\n---\nx", "flow"),
        ("---\nid: yes\n---\nx", None),
        ("---\nid: []\n---\nx", None),
        ("---\nmetadata:\n  id: inner\n---\nx", None),
        ("---\nid: a\ntitle: a: b\n---\nx", "a"),
        ("---\nid: intro\n", None),
        ("id: intro\n", None),
        ('+++\nid = "t"\n+++\nx', "t"),
        ('+++\n[extra]\nid = "t"\n+++\nx', None),
        ('{"id": "j"}\nx', "j"),
        ("\ufeff---\r\nid: intro\r\n---\r\nx", "intro"),
        (f"---\nabout: {'words ' * 2_000}\nid: far\n---\nx", "far"),
        (f"---\nid: near\n---\n{'ä' * 5_000}", "near"),
        (b"---\nid: x\n---\n" + b"\xff" * 9_000, "x"),
    ],
)
def test_the_id_is_found_at_the_beginning_of_a_file(tmp_path: Path, content: str | bytes, own_id: Any) -> None:
    assert read_own_id(file_of(tmp_path, content)) == own_id


def test_a_file_that_cannot_be_read_has_no_id(tmp_path: Path) -> None:
    assert read_own_id(File(tmp_path / "gone.md", "docs", "gone.md")) is None
