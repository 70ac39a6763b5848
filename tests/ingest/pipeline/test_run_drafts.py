"""Documents that their authors have not published: left out, counted, named, and deleted where a source is mirrored."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support.ingests import Bench


def test_drafts_are_left_out_counted_and_named(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    bench.write("b.md", "---\ndraft: true\n---\nPrices will rise.")
    bench.write("c.md", "+++\npublishDate = 2027-01-01\n+++\nCherries.")
    bench.write("d.md", '{"expiryDate": "2026-05-31"}\nDates.')
    summary = bench.run()
    assert bench.ids() == ["docs/a.md"]
    assert (summary.documents, summary.left_out, summary.skipped, summary.exit_status) == (1, 3, 0, 0)
    names = (
        "b.md (draft: true)",
        "c.md (publishDate 2027-01-01T00:00:00Z is ahead)",
        "d.md (expiryDate 2026-05-31T00:00:00Z has passed)",
    )
    assert summary.drafts == names
    assert (summary.as_json()["left_out"], summary.as_json()["drafts"]) == (3, list(names))
    (notice,) = bench.notices
    assert notice.startswith(f"3 documents are not published and left out: {', '.join(names)}; --include-drafts")


def test_of_many_drafts_few_are_named(bench: Bench) -> None:
    bench.write("z.md", "x")
    for number in range(30):
        bench.write(f"{number:02}.md", "---\ndraft: true\n---\nx")
    summary = bench.run()
    assert (summary.left_out, len(summary.drafts)) == (30, 20)
    assert "30 documents" in bench.notices[0] and "19.md (draft: true), ...;" in bench.notices[0]


def test_drafts_are_taken_where_they_are_wanted(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    bench.write("b.md", "---\ndraft: true\n---\nBananas.")
    assert bench.run(include_drafts=True).updated == 2
    assert (bench.notices, bench.metadata("docs/b.md#chunk_1")["draft"]) == ([], True)
    summary = bench.run(mirror=True)
    assert (summary.left_out, summary.deleted, bench.ids()) == (1, 1, ["docs/a.md"])
    assert bench.run(include_drafts=True).new == 1


def test_a_stored_document_that_becomes_a_draft_is_named_until_it_is_mirrored(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    bench.write("b.md", "---\nid: bananas\n---\nBananas.")
    bench.rows("r.jsonl", {"id": "r", "text": "x"})
    bench.run()
    bench.write("b.md", "---\nid: bananas\ndraft: true\n---\nBananas.")
    for _ in range(2):
        summary = bench.run()
        assert (summary.stored_drafts, summary.deleted) == (("bananas",), 0)
        assert summary.as_json()["stored_drafts"] == ["bananas"]
        assert "1 stored document is not published any more: --mirror deletes them (bananas)" in bench.notices
    summary = bench.run(mirror=True)
    assert (summary.stored_drafts, summary.deleted) == ((), 1)
    assert bench.ids() == ["docs/a.md", "r"]
    assert not any("stored" in notice for notice in bench.notices)


def test_drafts_that_may_not_be_deleted_are_named(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    bench.run()
    bench.write("a.md", "---\ndraft: true\n---\nApples.")
    summary = bench.run(mirror=True)
    assert (summary.refused is not None, summary.stored_drafts, summary.exit_status) == (True, ("docs/a.md",), 1)
    assert "--mirror --force deletes them (docs/a.md)" in bench.notices[-1]


def test_a_dry_run_of_a_mirror_counts_drafts_as_deleted(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    bench.write("b.md", "Bananas.")
    bench.run()
    bench.write("b.md", "---\ndraft: true\n---\nBananas.")
    summary = bench.run(mirror=True, dry_run=True)
    assert (summary.deleted, summary.stored_drafts, bench.ids()) == (1, (), ["docs/a.md", "docs/b.md"])


@pytest.mark.parametrize("matter", ["publishDate: 2026-07-01", "PublishDate: 2026-07-01T00:00:00+00:00"])
def test_a_document_is_taken_when_its_time_has_come_though_its_file_is_the_same(bench: Bench, matter: str) -> None:
    bench.write("a.md", "Apples.")
    bench.write("b.md", f"---\n{matter}\n---\nBananas.")
    bench.run()
    bench.now = datetime(2026, 7, 1, tzinfo=UTC)
    assert (bench.run().new, bench.ids()) == (1, ["docs/a.md", "docs/b.md"])


def test_a_document_goes_when_its_time_is_over_though_its_file_is_the_same(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    bench.write("b.md", "---\nexpiryDate: 2026-07-01\n---\nBananas.")
    assert bench.run().new == 2
    bench.now = datetime(2026, 7, 1, tzinfo=UTC)
    assert bench.run().stored_drafts == ("docs/b.md",)
    assert (bench.run(mirror=True).deleted, bench.ids()) == (1, ["docs/a.md"])


def test_a_folder_of_drafts_alone_is_no_failure(bench: Bench) -> None:
    bench.write("a.md", "---\ndraft: true\n---\nApples.")
    summary = bench.run()
    assert (summary.documents, summary.left_out, summary.exit_status, bench.problems) == (0, 1, 0, [])


def test_a_page_of_ones_own_folder_is_no_page_of_a_crawl(bench: Bench) -> None:
    bench.write("a.html", "<meta name=robots content=noindex><p>Apples.")
    assert (bench.run().new, bench.ids()) == (1, ["docs/a.html"])
