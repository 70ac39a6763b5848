"""A source without any document ends with status 1, says why, and what to do."""

from __future__ import annotations

import pytest

from tests.support.ingests import Bench
from tests.support.websites import Site, feed, page, run


def test_a_folder_of_other_kinds_names_them_and_those_that_are_read(bench: Bench) -> None:
    for name in ("a.key", "b.key", "c.svg"):
        bench.write(name, "text")
    summary = bench.run()
    assert (summary.documents, summary.failed, summary.empty, summary.exit_status) == (0, 0, ("docs",), 1)
    assert summary.as_json()["empty"] == ["docs"]
    (problem,) = bench.problems
    assert problem.startswith(
        "docs: has no document: its files are of kinds that are not read (.key 2: save as .pptx or PDF; .svg 1): "
    )
    assert " .md " in problem and " .pdf " in problem


def test_a_folder_without_a_file_may_be_the_wrong_one(bench: Bench) -> None:
    bench.docs.mkdir()
    assert bench.run().exit_status == 1
    assert bench.problems == ["docs: has no document: the folder holds no file that is read: check the path"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("r.csv", "id,text\n1,\n", "[collections.NAME.mapping]"),
        ("r.jsonl", '{"id": "a", "text": ""}\n', "[collections.NAME.mapping]"),
        ("r.jsonl", "", "[collections.NAME.mapping]"),
        ("a.md", "\n", "none of its files has a text"),
    ],
)
def test_files_without_a_text_are_no_documents(bench: Bench, name: str, content: str, said: str) -> None:
    bench.write(name, content)
    assert bench.run().exit_status == 1
    assert said in bench.problems[-1]


def test_one_source_of_several_that_is_empty_is_named(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    other = bench.root / "other"
    other.mkdir()
    summary = bench.run(bench.docs, other)
    assert (summary.updated, summary.empty, summary.exit_status) == (1, ("other",), 1)


@pytest.mark.parametrize("mirror", [False, True])
def test_a_source_that_has_not_changed_is_not_empty(bench: Bench, mirror: bool) -> None:
    bench.write("a.md", "Apples.")
    bench.write("b.rst", "Bananas.")
    bench.run()
    assert bench.run(mirror=mirror).exit_status == 0


def test_files_that_another_source_has_read_are_not_missing(bench: Bench) -> None:
    bench.write("sub/a.md", "Apples.")
    assert bench.run(bench.docs, bench.docs / "sub").exit_status == 0


def test_files_named_one_by_one_are_one_source(bench: Bench) -> None:
    assert bench.run(bench.write("a.md", "Apples."), bench.write("b.md", "\n")).exit_status == 0


def test_an_address_that_has_not_changed_is_not_empty(bench: Bench, site: Site) -> None:
    site.put("/p", page("one"), ETag='"p"')
    for unchanged in (0, 1):
        summary = run(bench, site.url("/p"))
        assert (summary.unchanged, summary.exit_status) == (unchanged, 0)


def test_an_address_that_lists_nothing_is_named(bench: Bench, site: Site) -> None:
    site.put("/f", feed(), "application/rss+xml")
    site.put("/p", page("one"))
    summary = run(bench, site.url("/f"), site.url("/p"))
    assert (summary.updated, summary.exit_status) == (1, 1)
    assert "check the address" in bench.problems[0]
