"""Markdown as a document: front matter, headings and their places, and text as it stands in the file."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document
from aidre.ingest.formats import markdown
from aidre.ingest.formats.front_matter import split_front_matter
from aidre.ingest.formats.markdown import find_headings, read_markdown, read_text
from aidre.ingest.records.file import File, Notes
from aidre.ingest.records.source_items import Unpublished
from aidre.ingest.records.vectors import VectorRules
from aidre.ingest.sandbox.parent import SHARED, Sandbox, SandboxLimits
from tests.support.folders import write
from tests.support.rows import one


def read(tmp_path: Path, content: str, url: str | None = None) -> Document:
    path = tmp_path / "page.md"
    path.write_bytes(content.encode())
    return one(list(read_markdown(File(path, "docs", "page.md", url), VectorRules([], []))))


def read_noted(tmp_path: Path, content: str) -> tuple[Document, list[str]]:
    """The document, and the notes on the file."""
    path = write(tmp_path / "page.md", content)
    notes = Notes()
    document = one(list(read_markdown(File(path, "docs", "page.md", notes=notes), VectorRules([], []))))
    return document, [noted.text for noted in notes.items("page.md")]


def test_the_text_is_the_body_without_marks_for_a_generator_of_sites(tmp_path: Path) -> None:
    document = read(tmp_path, "---\nid: x\n---\n# One {#one}\n\n:::tip\nUse it.\n:::\n\n## Two {#two}\n\nend\n")
    assert document.text == "# One\n\nTip: Use it.\n\n## Two\n\nend\n"
    assert [document.text[each.start :].split("\n")[0] for each in document.headings] == ["# One", "## Two"]


def test_words_have_no_characters_that_no_reader_sees(tmp_path: Path) -> None:
    head, body = (
        "---\ntitle: Ti\u00adtel\n---\n",
        "# Kopf\u200bzeile\n\nUnter\u00adneh\u2060men, Auf&shy;lage\u202e `&shy;`",
    )
    page = read(tmp_path, f"{head}{body}\ufeff می\u200cخواهم")
    assert (page.title, page.text) == ("Titel", "# Kopfzeile\n\nUnternehmen, Auflage `&shy;` می\u200cخواهم")
    assert [heading.title for heading in page.headings] == ["Kopfzeile"]
    path = tmp_path / "a.txt"
    path.write_text("Unter\u00adneh\u200bmen می\u200cخواهم", "utf-8")
    assert one(list(read_text(File(path, "docs", "a.txt"), VectorRules([], [])))).text == "Unternehmen می\u200cخواهم"


def test_the_text_is_otherwise_the_body_byte_for_byte(tmp_path: Path) -> None:
    body = "\r\n# Title \x00\r\n\r\nWords  with\ttabs.\r\n\u2028é\n"
    assert read(tmp_path, "---\r\nid: x\r\n---\r\n" + body).text == body.replace("\0", "\ufffd")
    assert read(tmp_path, body).text == body.replace("\0", "\ufffd")


@pytest.mark.slow
def test_front_matter_gives_the_members_and_the_rest_is_metadata(tmp_path: Path) -> None:
    document = read(
        tmp_path,
        "---\nid: 7\ntitle: T\nurl: https://x.org/a\nupdated_at: 2026-04-01\ntype: Guide\nsection: S\n"
        "metadata: {a: 1}\ntags: [x, y]\nday: 2026-05-06\nat: 2026-05-06T10:00:00+02:00\ncount: 3\n---\nbody",
    )
    assert (document.id, document.title, document.url, document.type, document.section) == (
        "7",
        "T",
        "https://x.org/a",
        "Guide",
        "S",
    )
    assert document.updated_at == "2026-04-01T00:00:00Z"
    assert document.metadata == {
        "a": 1,
        "tags": ["x", "y"],
        "day": "2026-05-06",
        "at": "2026-05-06T08:00:00Z",
        "count": 3,
    }


def test_date_is_the_time_of_update_where_no_other_is_given(tmp_path: Path) -> None:
    assert read(tmp_path, "---\ndate: 2026-04-01 10:00:00\n---\nx").updated_at == "2026-04-01T10:00:00Z"
    jekyll = read(tmp_path, "---\ndate: 2026-04-01 10:00:00 +0200\n---\nx")
    assert jekyll.updated_at == "2026-04-01T08:00:00Z"
    document = read(tmp_path, "---\ndate: 2026-04-01\nupdated_at: 2026-05-01\n---\nx")
    assert (document.updated_at, document.metadata) == ("2026-05-01T00:00:00Z", {"date": "2026-04-01"})


@pytest.mark.parametrize(
    ("matter", "metadata"),
    [
        ("lang: de-AT", {"language": "de-AT"}),
        ("language: German", {"language": "German"}),
        ("lang: de\nlanguage: en", {"lang": "de", "language": "en"}),
        ("lang: no", {"language": "no"}),
        ("lang: [de, en]", {"lang": ["de", "en"]}),
    ],
)
def test_the_language_of_a_page_has_one_name(tmp_path: Path, matter: str, metadata: dict[str, object]) -> None:
    assert read(tmp_path, f"---\n{matter}\n---\nx").metadata == metadata


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("---\ntitle: Front\n---\n# First\n", "Front"),
        ("## Second\n\n# *First* `code` [link](x) &amp; more\n\n# Other", "First code link & more"),
        ("Setext\n===\n", "Setext"),
        ("## only second level\n", "only second level"),
        ("words\n\n## Chapter {#chapter}\n\n### Below\n", "Chapter"),
        ("## one\n\n## another\n", "page"),
        ("## Chapter\n\nwords of it\n\n### Below\n\nmore of them\n\n## Summary\n\nshort\n", "Chapter"),
        ("## run() <sup class='badge' data-text='3.5+' /> {#run}\n", "run() 3.5+"),
        ("## deep\n\n# Top {#top}\n", "Top"),
    ],
)
def test_the_title_is_the_front_matters_the_first_h1s_or_the_files(tmp_path: Path, content: str, title: str) -> None:
    assert read(tmp_path, content).title == title


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("Custom Response { #custom-response }", "Custom Response"),
        ("Reactivity {#reactivity .wide data-level=2}", "Reactivity"),
        ("Kramdown {: #anchor .class}", "Kramdown"),
        ("Closed {#anchor} ##", "Closed"),
        ("Permalink¶", "Permalink"),
        ("Several words {#with} {#anchors}", "Several words {#with}"),
        ("`{#code}`", "{#code}"),
        ("Set {a, b}", "Set {a, b}"),
        ("{{ template }}", "{{ template }}"),
        ("Escaped \\{#anchor}", "Escaped {#anchor}"),
        ("{#only}", "{#only}"),
        ("Empty {}", "Empty {}"),
        ("Unopened #a}", "Unopened #a}"),
    ],
)
def test_attributes_behind_a_heading_are_no_part_of_it(heading: str, title: str) -> None:
    assert [each.title for each in find_headings(f"# {heading}\n")] == [title]
    assert [each.title for each in find_headings(f"{heading.removesuffix(' ##')}\n===\n")] == [title]


def test_headings_stand_where_they_begin() -> None:
    text = (
        "intro\r\n\r\n# One\r\ntext\n\nTwo\n---\n\n```\n# no heading\n```\n\n> # quoted\n\n"
        "<div>\n# html\n</div>\n\n   ### Three ###\n"
    )
    headings = find_headings(text)
    assert [(each.level, each.title) for each in headings] == [(1, "One"), (2, "Two"), (3, "Three")]
    assert [text[each.start :].split(maxsplit=1)[0] for each in headings] == ["#", "Two", "###"]


def test_a_page_that_begins_with_a_rule_has_no_front_matter() -> None:
    for text in ("---\njust words\n---\nmore", "---\nnot closed", "--- \n", "----\na: 1\n----\n"):
        assert split_front_matter(text) == ({}, text)


def test_a_canonical_url_elsewhere_makes_a_copy(tmp_path: Path) -> None:
    document = read(tmp_path, "---\nurl: https://x.org/a\ncanonical: https://x.org/b\n---\nx")
    assert (document.url, document.canonical) == ("https://x.org/a", False)
    document = read(tmp_path, "---\ncanonical: https://x.org/b\n---\nx", url="https://base/page.md")
    assert (document.url, document.canonical) == ("https://x.org/b", True)
    assert read(tmp_path, "---\ncanonical: false\n---\nx", url="https://base/p").canonical is False
    assert read(tmp_path, "x", url="https://base/page.md").url == "https://base/page.md"


@pytest.mark.parametrize(
    "matter",
    [
        "updated_at: yesterday",
        "date: 2026-13-45",
        "id: ''",
        "metadata: 3",
        "visibility: private",
        "content_hash: abc",
        "canonical: 7",
        "blob: !!binary aGk=",
        "a: &a [*a]",
        "a: &a [1,1,1,1,1,1,1,1]\n"
        + "\n".join(
            f"{new}: &{new} [*{old},*{old},*{old},*{old},*{old},*{old},*{old},*{old}]"
            for old, new in zip("abcdefg", "bcdefgh", strict=True)
        ),
        "a: &a {x: 1, y: 2}\n"
        + "\n".join(
            f"{new}:\n  &{new}\n  <<: [*{old},*{old},*{old},*{old},*{old},*{old},*{old},*{old}]"
            for old, new in zip("abcdefghijkl", "bcdefghijklm", strict=True)
        ),
    ],
)
def test_front_matter_that_cannot_be_meant_fails_in_one_line(tmp_path: Path, matter: str) -> None:
    with pytest.raises(InvalidDocument) as error:
        read(tmp_path, f"---\n{matter}\n---\nx")
    assert "\n" not in error.value.message
    assert not error.value.message.endswith("Error")  # a reason, not the name of a class of Python


@pytest.mark.parametrize(
    "matter",
    ["a: [1", "a: b: c", "a: !!bool maybe", "a: !!timestamp soon", "a: !!float", "a: \x00", "when: 2026-13-45",
     "x: " + "[" * 1000, "a:\t1"],
)  # fmt: skip
def test_front_matter_that_is_no_yaml_is_read_line_by_line(tmp_path: Path, matter: str) -> None:
    document, notes = read_noted(tmp_path, f"---\ntitle: Bridge: a story\n{matter}\n---\nBuilt in 1890.")
    assert (document.title, document.text) == ("Bridge: a story", "Built in 1890.")
    assert len(notes) == 1 and "\n" not in notes[0]
    assert "front matter is not valid YAML" in notes[0] and notes[0].endswith("read line by line")


@pytest.mark.parametrize(
    "head",
    ["**THE MILL LTD**\nWeir Lane 4", "{{ front_matter }}", "? [a, b]\n: 1", "*a*: b\n*c*", "\tTo all: neighbours"],
)
def test_what_stands_between_rules_and_is_no_front_matter_is_text(tmp_path: Path, head: str) -> None:
    text = f"---\n{head}\n---\n\nDear neighbours, the sluice opens on Monday.\n"
    document, notes = read_noted(tmp_path, text)
    assert (document.text, notes) == (text, [])


def test_a_draft_stays_one_in_front_matter_that_is_no_yaml(tmp_path: Path) -> None:
    path = write(tmp_path / "page.md", "---\ntitle: Prices: next year\n{{ more }}\ndraft: true\n---\nThey rise.")
    file = File(path, "docs", "page.md", as_of=datetime(2026, 1, 1, tzinfo=UTC))
    (found,) = read_markdown(file, VectorRules([], []))
    assert isinstance(found, Unpublished)


@pytest.mark.parametrize(
    ("date", "read_as"),
    [
        ("May 1, 2024", "2024-05-01T00:00:00Z"),
        ("2024-5-1", "2024-05-01T00:00:00Z"),
        ("1714521600", "2024-05-01T00:00:00Z"),
        ("Wed, 01 May 2024 10:00:00 +0200", "2024-05-01T08:00:00Z"),
        ("05/06/2024", None),
        ("soon", None),
        ("[1, 2]", None),
    ],
)  # fmt: skip
def test_a_date_in_another_form_is_read_or_left_out_and_noted(tmp_path: Path, date: str, read_as: str | None) -> None:
    document, notes = read_noted(tmp_path, f"---\ntitle: Bridge\ndate: {date}\n---\nBuilt in 1890.")
    assert (document.title, document.text, document.updated_at) == ("Bridge", "Built in 1890.", read_as)
    assert len(notes) == 1 and notes[0].startswith(
        "a date is left out" if read_as is None else "a date in another form"
    )


@pytest.mark.parametrize(
    "member", ["title: [a]", "title: yes", "type: 3", "url: 3", "section: [1]", "canonical: 7", "id: ''"]
)
def test_an_optional_member_that_cannot_be_read_is_left_out_and_noted(tmp_path: Path, member: str) -> None:
    document, notes = read_noted(tmp_path, f"---\n{member}\n---\nBuilt in 1890.")
    assert document.text == "Built in 1890."
    assert len(notes) == 1 and notes[0].startswith(f"{member.partition(':')[0]} is left out")


def test_a_header_of_pelican_is_read(tmp_path: Path) -> None:
    text = (
        "Title: Bridge: a story\nDate: 2010-12-03 10:20\nTags: stone, river\nSummary: Short,\n    and so on\n\nBuilt.\n"
    )
    for content in (text, text.replace("\n", "\r\n")):
        document = read(tmp_path, content)
        assert (document.title, document.updated_at) == ("Bridge: a story", "2010-12-03T10:20:00Z")
        assert document.metadata == {"tags": ["stone", "river"], "summary": "Short, and so on"}
        assert document.text.strip() == "Built."


@pytest.mark.parametrize(
    "text",
    ["Note: this is a text.\n\nMore.", "Dear all:\nhello\n\nMore.", "Title: a\nand on it goes\n\nMore.",
     "Date: May 1\n\nDear all", "Title: without a body", "From: a\nTo: b\nDate: c\n\nHello", "Title : x\n- y\n\nz"],
)  # fmt: skip
def test_a_first_paragraph_that_is_no_header_is_text(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).text == text


def test_names_of_members_may_have_a_capital(tmp_path: Path) -> None:
    document = read(tmp_path, "---\nTitle: Bridge\nDate: 2024-05-01\n---\nx")
    assert (document.title, document.updated_at) == ("Bridge", "2024-05-01T00:00:00Z")


MARK = "="
"""A text without any mark of a heading is not parsed at all."""

UNPARSED = 10
"""The calls that such a text takes, at most."""


@pytest.mark.parametrize("part", ["[", "*a_ ", "> ", "- ", "`", "![", "<a "])
def test_a_pathological_text_takes_work_in_proportion_to_its_length(part: str) -> None:
    """Counted in calls of Python functions, which no other process can slow down."""
    short, long = calls_of(part * 2_000 + MARK), calls_of(part * 8_000 + MARK)
    assert short > UNPARSED
    assert long < 6 * short + 1_000


def test_a_text_without_a_mark_of_a_heading_is_not_parsed() -> None:
    assert calls_of("[" * 8_000) <= UNPARSED


def calls_of(text: str) -> int:
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        assert find_headings(text) == ()
    finally:
        sys.setprofile(None)
    return calls


def test_the_count_of_calls_finds_work_that_grows_with_the_square(monkeypatch: pytest.MonkeyPatch) -> None:
    def quadratic(text: str) -> tuple[()]:
        return () if not text else quadratic_step(text, quadratic)

    def quadratic_step(text: str, again: Callable[[str], tuple[()]]) -> tuple[()]:
        for _ in range(len(text) // 100):
            (*map(ord_of, text[:1]),)
        return again(text[100:])

    def ord_of(character: str) -> int:
        return ord(character)

    monkeypatch.setattr(sys.modules[__name__], "find_headings", quadratic)
    assert calls_of("x" * 8_000) > 6 * calls_of("x" * 2_000) + 1_000


def test_front_matter_may_take_over_members_of_its_own(tmp_path: Path) -> None:
    matter = "defaults: &all\n  tags: [a]\n  draft: false\nmetadata:\n  <<: *all\n  draft: true"
    assert read(tmp_path, f"---\n{matter}\n---\nx").metadata["tags"] == ["a"]


def test_a_long_text_has_the_headings_that_a_short_one_has(tmp_path: Path) -> None:
    text = "# One\r\n\r\nwörds 😀\n\nTwo *and* more\n---\n\n" + "words " * 30_000 + "\n\n### Three\n\nend\n"
    document = read(tmp_path, text)
    assert document.text == text
    assert document.headings == find_headings(text)
    assert [each.title for each in document.headings] == ["One", "Two and more", "Three"]


@pytest.mark.slow
def test_a_long_text_of_nothing_but_markup_is_refused_and_takes_no_memory_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "-\n" * 200_000 + "# a"
    assert len(text) > markdown.MAX_LOCAL_CHARACTERS
    with Sandbox(SandboxLimits(memory=200 << 20)) as sandbox:
        monkeypatch.setattr(markdown, "SHARED", sandbox)
        tracemalloc.start()
        try:
            with pytest.raises(InvalidDocument, match="needs more than 200 MiB of memory to read"):
                read(tmp_path, text)
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()


def test_a_long_text_of_too_many_headings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown, "MAX_HEADINGS", 1000)
    assert len(markdown.parse(b"# a\n" * 1000, {})) == 1000
    with pytest.raises(InvalidDocument, match="has more than 1,000 headings: split it"):
        markdown.parse(b"# a\n" * 1001, {})


@pytest.mark.parametrize(
    ("content", "title"),
    [
        (".. _about:\n\nAbout these documents\n=====================\n\nwords", "About these documents"),
        ("====\nThe\n====\n", "The"),
        (":mod:`!abc` --- Abstract ``Base``\n=================================\n", "abc --- Abstract Base"),
        ("Notes of Monday\n===\n", "page"),
        ("- one\n---\n", "page"),
        ("words\nand more\n", "page"),
    ],
)
def test_the_title_of_a_text_is_its_first_underlined_line_or_the_files_name(
    tmp_path: Path, content: str, title: str
) -> None:
    path = tmp_path / "page.txt"
    path.write_text(content, encoding="utf-8")
    document = one(list(read_text(File(path, "docs", "page.txt", None), VectorRules([], []))))
    assert (document.title, document.text) == (title, content)


def test_tables_of_html_are_tables_of_markdown(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text(
        "# Fares\n\n<table><tr><th></th><th>Adult</th></tr><tr><td>Bus</td><td></td></tr></table>\n\nMore.\n"
    )
    with SHARED:
        found = one(list(read_markdown(File(path, "docs", "a.md"), VectorRules([], []))))
    assert found.text == "# Fares\n\n|  | Adult |\n|---|---|\n| Bus |  |\n\nMore.\n"
