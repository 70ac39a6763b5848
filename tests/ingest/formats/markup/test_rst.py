"""reStructuredText as a document: its structure, directives and roles of Sphinx, and what it must not read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from aidre.engine.errors import InvalidDocument
from aidre.ingest.formats.markup.rst import parse


def read(text: str) -> dict[str, Any]:
    return parse(text.encode(), {})


def text(markup: str) -> str:
    found = read(markup)["text"]
    assert isinstance(found, str)
    return found


def test_sections_are_headings_below_the_title() -> None:
    found = read("=====\nTitle\n=====\n\nIntro *text*.\n\nOne\n===\n\nwords\n\nTwo\n---\n\nmore\n")
    assert found["title"] == "Title"
    assert [(level, title) for _, level, title in found["headings"]] == [(1, "Title"), (2, "One"), (3, "Two")]
    assert all(found["text"][start:].startswith(title) for start, _, title in found["headings"])
    assert found["text"] == "Title\n\nIntro text.\n\nOne\n\nwords\n\nTwo\n\nmore"


def test_code_stays_as_it_is_and_is_marked() -> None:
    found = read("See::\n\n    a\n      b\n\n.. code-block:: python\n   :caption: A file\n\n   def f():\n       pass\n")
    assert [found["text"][start:end] for start, end in found["verbatim"]] == ["a\n  b", "def f():\n    pass"]
    assert "A file" in found["text"] and "python" not in found["text"]


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (".. note:: Mind *this*.", "Note: Mind this."),
        (".. seealso::\n\n   Other", "See also: Other"),
        (".. admonition:: Fresh paint\n\n   wet", "Fresh paint: wet"),
        (".. versionadded:: 1.2\n   The ``x`` option.", "New in version 1.2: The x option."),
        (".. deprecated:: 3.0", "Deprecated since version 3.0"),
        (".. py:function:: f(*args, x=1)\n\n   Does it.", "f(*args, x=1)\n\nDoes it."),
        (".. py:function::\n\n   Does it.", "Does it."),
        (".. option:: -v, --verbose\n\n   Says more.", "-v, --verbose\n\nSays more."),
        (".. toctree::\n   :maxdepth: 2\n\n   a\n   b", ""),
        (".. automodule:: x\n   :members:", ""),
        (".. include:: /etc/hostname", ""),
        (".. raw:: html\n   :file: /etc/hostname", ""),
        (".. unknown-thing:: argument\n   :odd: 1\n\n   Its *text*.", "argument\n\nIts text."),
        (".. unknown-thing:: target", ""),
        (".. tab-set::\n\n   .. tab-item:: Linux\n\n      apt", "Linux\n\napt"),
        (".. image:: a.png\n   :alt: A red mill", "A red mill"),
        (".. math:: a = b", "a = b"),
        (".. productionlist:: grammar\n   a: b\n    : c", "a: b\n : c"),
        (".. deprecated-removed:: 3.1 3.4\n   Use it.", "Deprecated since version 3.1, removed in 3.4: Use it."),
        ("A `link`_ without a target_", "A link without a target"),
        (".. centered:: Some words here", "Some words here"),
    ],
)
def test_directives_keep_what_readers_see(markup: str, expected: str) -> None:
    assert text(f"{markup}\n") == expected


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (":ref:`the guide <guide>`", "the guide"),
        (":ref:`guide-label`", "guide-label"),
        (":doc:`/deploying/index`", "index"),
        (":class:`~flask.Flask`", "Flask"),
        (":meth:`.Flask.run`", ".Flask.run"),
        (":py:func:`!open`", "open"),
        (":pep:`8`", "PEP 8"),
        (":menuselection:`File --> Save`", "File > Save"),
        (":what-is-this:`some words`", "some words"),
        ("`a link <https://x.org>`_ and ``code`` |missing|", "a link and code |missing|"),
    ],
)
def test_roles_keep_their_words(markup: str, expected: str) -> None:
    assert text(markup) == expected


def test_lists_and_definitions_keep_their_order_and_numbers() -> None:
    markup = "* one\n* two\n\n  - inner\n\n1. first\n2. second\n\nterm\n    meaning\n\n:field: value\n"
    assert text(markup) == "one\ntwo\ninner\n1. first\n2. second\nterm\nmeaning\nfield: value"


def test_tables_are_tables_of_markdown_with_cells_that_span() -> None:
    grid = "+---+---+\n| a | b |\n+===+===+\n| 1 | 2 |\n+   +---+\n|   | 3 |\n+---+---+\n"
    assert text(grid) == "| a | b |\n|---|---|\n| 1 | 2 |\n| 1 | 3 |"
    listed = (
        ".. list-table:: Name\n   :header-rows: 1\n   :no-such-option: x\n\n   * - a\n     - b\n   * - 1\n     - x|y\n"
    )
    assert text(listed) == "Name\n\n| a | b |\n|---|---|\n| 1 | x\\|y |"
    assert text('.. csv-table::\n   :header: "a", "b"\n\n   1, 2\n') == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_no_text_of_a_malformed_table_is_lost() -> None:
    assert "words of it" in text("+---+---+\n| words of it |\n+---+\n")


def test_no_other_file_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("SECRET")
    for directive in ("include", "literalinclude", "csv-table", "raw", "code-block", "table", "unknown"):
        for option in ("file", "url", "literal"):
            markup = f".. {directive}:: {secret}\n   :{option}: {secret.as_uri() if option == 'url' else secret}\n"
            assert "SECRET" not in text(f"Words.\n\n{markup}\n\n.. role:: raw-html(raw)\n   :format: html\n")


def test_fields_and_front_matter_are_members() -> None:
    found = read("Title\n=====\n\n:Date: 2024-03-01\n:Author: Ann\n:tags: a, b\n:orphan:\n\nText\n")
    assert (found["updated_at"], found["metadata"]) == ("2024-03-01", {"author": "Ann", "tags": ["a", "b"]})
    assert found["text"] == "Title\n\nText"
    found = read("---\ntitle: Other\ndate: 2024-01-02\nmood: fine\n---\n\nText\n")
    assert (found["title"], found["updated_at"], found["metadata"]) == ("Other", "2024-01-02", {"mood": "fine"})
    found = read(".. title: Post\n.. date: 2024-01-03\n.. status: draft\n\nText\n")
    assert (found["title"], found["updated_at"], found["metadata"]) == ("Post", "2024-01-03", {"draft": True})


def test_a_role_of_one_document_is_not_that_of_the_next() -> None:
    assert text(".. role:: mine(literal)\n\n:mine:`*a*`") == "*a*"
    assert text(":mine:`~a.b`") == "b"


def test_what_is_no_text_in_utf8_is_read_and_noted() -> None:
    assert parse("Straße".encode("cp1252"), {})["text"] == "Straße"
    assert parse(b"", {})["text"] == ""


def test_without_docutils_the_reason_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docutils.utils", None)
    with pytest.raises(InvalidDocument, match=r"needs docutils: pip install 'aidre\[office\]'"):
        read("Text")


def test_sections_inside_a_condition_are_headings() -> None:
    found = read("T\n=\n\n.. only:: html\n\n   In\n   --\n\n   words\n\nOut\n---\n\nmore\n")
    assert found["text"] == "T\n\nIn\n\nwords\n\nOut\n\nmore"
    assert [(level, title) for _, level, title in found["headings"]] == [(1, "T"), (2, "In"), (2, "Out")]
