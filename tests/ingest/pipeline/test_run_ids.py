"""Ids of front matter that several files have: each is called by its path, and nothing is lost when that changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.model import Query
from tests.support.ingests import Bench


def page(own_id: str, text: str) -> str:
    return f"---\nid: {own_id}\n---\n{text}"


def texts(bench: Bench) -> dict[str, str]:
    return {one: bench.text(f"{one}#chunk_1") for one in bench.ids()}


def generations(bench: Bench) -> int:
    return bench.store.current("c") or 0


def test_two_files_of_one_id_are_called_by_their_paths_and_named(bench: Bench) -> None:
    bench.write("a/intro.md", page("intro", "Alpha."))
    bench.write("b/intro.md", page("intro", "Beta."))
    bench.write("c.md", page("own", "Gamma."))
    summary = bench.run()
    assert texts(bench) == {"docs/a/intro.md": "Alpha.", "docs/b/intro.md": "Beta.", "own": "Gamma."}
    assert bench.notices == [
        "docs: intro is the id of 2 files (a/intro.md, b/intro.md): they are called by their paths"
    ]
    assert (summary.documents, summary.exit_status) == (3, 0)


@pytest.mark.parametrize("commit_every", [None, 1])
@pytest.mark.parametrize("mirror", [False, True])
def test_an_id_that_stops_being_unique_moves_its_files_and_deletes_the_document(
    bench: Bench, commit_every: int | None, mirror: bool
) -> None:
    bench.write("b/intro.md", page("intro", "Beta."))
    bench.write("c.md", "Gamma.")
    bench.run()
    assert bench.ids() == ["docs/c.md", "intro"]
    before = generations(bench)
    bench.write("a/intro.md", page("intro", "Alpha."))
    summary = bench.run(commit_every=commit_every, mirror=mirror)
    assert texts(bench) == {"docs/a/intro.md": "Alpha.", "docs/b/intro.md": "Beta.", "docs/c.md": "Gamma."}
    assert (summary.deleted, summary.embedded) == (1, 1)
    assert generations(bench) == before + (1 if commit_every is None else 2)
    assert bench.run(mirror=mirror).updated == 0


def test_the_old_document_goes_in_the_commit_that_brings_the_new_one(bench: Bench) -> None:
    bench.write("b.md", page("intro", "Beta."))
    bench.run()
    bench.write("a.md", page("intro", "Alpha."))
    bench.run(commit_every=1)
    for commit in bench.commits:
        snapshot = bench.store.open("c", generation=commit.generation)
        found = [chunk.text for chunk in snapshot.scan()]
        assert found.count("Beta.") == 1, "never lost, and never twice"


def test_an_id_that_becomes_unique_again_is_used_again(bench: Bench) -> None:
    bench.write("a/intro.md", page("intro", "Alpha."))
    path = bench.write("b/intro.md", page("intro", "Beta."))
    bench.run()
    path.unlink()
    assert bench.run().deleted == 1
    assert texts(bench) == {"docs/b/intro.md": "Beta.", "intro": "Alpha."}, "what has no file stays without --mirror"
    assert bench.run(mirror=True).deleted == 1
    assert bench.ids() == ["intro"]


def test_a_store_that_lost_one_of_two_gets_both(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """As release 0.2.0 left it: one document for both files, the last one's."""
    bench.write("a/intro.md", page("intro", "Alpha."))
    bench.write("b/intro.md", page("intro", "Beta."))
    with monkeypatch.context() as patch:
        patch.setattr("aidre.ingest.sources.own_ids.read_own_id", lambda _: None)
        bench.run()
    assert texts(bench) == {"intro": "Beta."}
    assert bench.run().deleted == 1
    assert texts(bench) == {"docs/a/intro.md": "Alpha.", "docs/b/intro.md": "Beta."}


def test_an_id_that_is_the_path_of_another_file_gives_way(bench: Bench) -> None:
    bench.write("a.md", "Alpha.")
    bench.write("b.md", page("docs/a.md", "Beta."))
    bench.write("c.md", page("docs/c.md", "Gamma."))
    bench.run()
    assert texts(bench) == {"docs/a.md": "Alpha.", "docs/b.md": "Beta.", "docs/c.md": "Gamma."}
    assert bench.notices == [
        "docs: docs/a.md is the id of a file and the path of another (b.md): it is called by its path"
    ]


def test_the_same_id_in_two_sources_is_the_same_document(bench: Bench) -> None:
    bench.write("a.md", page("intro", "Alpha."))
    other = bench.root / "other" / "a.md"
    other.parent.mkdir()
    other.write_text(page("intro", "Beta."))
    bench.run(bench.docs, other.parent)
    assert texts(bench) == {"intro": "Beta."}
    bench.run(bench.docs)
    assert texts(bench) == {"intro": "Alpha."}


def test_an_id_that_another_source_brings_in_the_same_run_is_not_deleted(bench: Bench) -> None:
    bench.write("b.md", page("intro", "Beta."))
    bench.run()
    other = bench.root / "other" / "a.md"
    other.parent.mkdir()
    other.write_text(page("intro", "Other."))
    bench.write("a.md", page("intro", "Alpha."))
    for sources in ([bench.docs, other.parent], [other.parent, bench.docs]):
        bench.run(*sources)
        assert texts(bench) == {"docs/a.md": "Alpha.", "docs/b.md": "Beta.", "intro": "Other."}


def test_an_id_that_a_row_brings_in_the_same_run_is_not_deleted(bench: Bench) -> None:
    bench.write("b.md", page("intro", "Beta."))
    bench.run()
    rows = bench.root / "rows.jsonl"
    rows.write_text('{"id": "intro", "text": "Row."}\n')
    bench.write("a.md", page("intro", "Alpha."))
    for sources in ([rows, bench.docs], [bench.docs, rows]):
        bench.run(*sources)
        assert texts(bench) == {"docs/a.md": "Alpha.", "docs/b.md": "Beta.", "intro": "Row."}


def test_a_document_that_cannot_be_stored_leaves_the_former_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write("a.md", page("one", "Alpha."))
    bench.run()
    monkeypatch.setattr("aidre.ingest.pipeline.record_builder.MAX_FIELDS", 1)
    bench.write("a.md", "---\nid: two\nm: 1\nn: 2\n---\nAlpha.")
    summary = bench.run()
    assert (summary.failed, summary.deleted, bench.ids()) == (1, 0, ["one"])


def test_files_that_swap_their_ids_lose_nothing(bench: Bench) -> None:
    bench.write("a.md", page("x", "Alpha."))
    bench.write("b.md", page("y", "Beta."))
    bench.run()
    bench.write("a.md", page("y", "Alpha."))
    bench.write("b.md", page("x", "Beta."))
    assert bench.run(commit_every=1).deleted == 0
    assert texts(bench) == {"x": "Beta.", "y": "Alpha."}


def test_a_file_whose_id_changes_has_one_document(bench: Bench) -> None:
    bench.write("a.md", "Alpha.")
    bench.run()
    for own_id in ("one", "two"):
        bench.write("a.md", page(own_id, "Alpha."))
        assert (bench.run().deleted, bench.ids()) == (1, [own_id])
    bench.write("a.md", "Alpha.")
    assert (bench.run().deleted, bench.ids()) == (1, ["docs/a.md"])


def test_a_file_alone_does_not_take_the_id_of_one_that_is_stored(bench: Bench) -> None:
    one = bench.write("a.md", page("intro", "Alpha."))
    two = bench.write("sub/a.md", page("intro", "Beta."))
    bench.run()
    former = bench.ids()
    bench.write("a.md", page("intro", "Alpha again."))
    bench.run(one)
    assert (bench.ids(), bench.text("docs/a.md#chunk_1")) == (former, "Alpha again.")
    two.unlink()
    bench.run(one)
    assert bench.ids() == ["docs/sub/a.md", "intro"]


def test_a_file_alone_gives_way_to_the_one_that_has_the_id(bench: Bench) -> None:
    bench.write("a.md", page("intro", "Alpha."))
    bench.run()
    two = bench.write("b.md", page("intro", "Beta."))
    bench.run(two)
    assert texts(bench) == {"docs/b.md": "Beta.", "intro": "Alpha."}
    bench.run()
    assert texts(bench) == {"docs/a.md": "Alpha.", "docs/b.md": "Beta."}


def test_files_named_one_by_one_are_one_source(bench: Bench) -> None:
    paths = [bench.write(name, page("intro", name)) for name in ("a.md", "b.md")]
    bench.run(*paths, source="mine")
    assert bench.ids() == ["mine/a.md", "mine/b.md"]


def test_a_file_that_fails_does_not_take_its_document_with_it(bench: Bench) -> None:
    bench.write("b.md", page("intro", "Beta."))
    bench.run()
    bench.write("a.md", page("intro", "Alpha."))
    bench.write("b.md", page("intro", "Beta.").encode() + bytes(range(256)))
    summary = bench.run(mirror=True)
    assert (summary.failed, summary.deleted) == (1, 0)
    assert texts(bench) == {"docs/a.md": "Alpha.", "intro": "Beta."}


def test_a_link_to_a_file_is_no_second_file_with_its_id(bench: Bench) -> None:
    path = bench.write("b.md", page("intro", "Beta."))
    Path(bench.docs / "a.md").symlink_to(path)
    bench.run()
    assert bench.ids() == ["intro"]


def test_of_many_shared_ids_few_are_named(bench: Bench) -> None:
    for number in range(7):
        for folder in "abcdefg":
            bench.write(f"{folder}/{number}.md", page(f"x{number}", "x"))
    bench.run()
    assert len(bench.notices) == 6
    assert bench.notices[0].endswith(
        "x0 is the id of 7 files (a/0.md, b/0.md, c/0.md, d/0.md, e/0.md, ...): they are called by their paths"
    )
    assert bench.notices[-1] == "docs: 2 more ids of several files, called by their paths"


def test_a_dry_run_counts_what_would_move(bench: Bench) -> None:
    bench.write("b.md", page("intro", "Beta."))
    bench.run()
    bench.write("a.md", page("intro", "Alpha."))
    summary = bench.run(dry_run=True)
    assert (summary.new, summary.deleted, bench.ids()) == (2, 1, ["intro"])


def test_a_moved_document_is_found_by_the_same_words(bench: Bench) -> None:
    bench.write("b.md", page("intro", "Yellow bananas."))
    bench.run()
    bench.write("a.md", page("intro", "Red apples."))
    bench.run()
    query = bench.embedder.embed_queries(["yellow bananas"])[0]
    hits = bench.store.open("c").search(Query(query, "words", top_k=1))
    assert [hit.chunk.document_id for hit in hits] == ["docs/b.md"]
