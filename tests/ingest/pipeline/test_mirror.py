"""--mirror: what is deleted with its source, and everything that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from aidre.engine.errors import ConfigurationError
from aidre.ingest.pipeline.mirror import SeenIds
from tests.support.ingests import Bench


def test_mirror_deletes_what_a_source_no_longer_has_and_nothing_else(bench: Bench) -> None:
    for name in "abc":
        bench.write(f"{name}.md", name)
    other = bench.root / "other" / "x.md"
    other.parent.mkdir()
    other.write_text("x")
    bench.run(bench.docs, other.parent)
    (bench.docs / "b.md").unlink()
    other.unlink()
    summary = bench.run(mirror=True)
    assert (summary.deleted, summary.unchanged) == (1, 2)
    assert bench.ids() == ["docs/a.md", "docs/c.md", "other/x.md"]


def test_without_mirror_nothing_is_deleted(bench: Bench) -> None:
    bench.write("a.md", "a")
    path = bench.write("b.md", "b")
    bench.run()
    path.unlink()
    assert bench.run().deleted == 0
    assert bench.ids() == ["docs/a.md", "docs/b.md"]


def test_mirror_refuses_to_delete_more_than_half_unless_forced(bench: Bench) -> None:
    for name in "abcd":
        bench.write(f"{name}.md", name)
    bench.run()
    for name in "abc":
        (bench.docs / f"{name}.md").unlink()
    bench.write("e.md", "e")
    summary = bench.run(mirror=True)
    assert summary.refused is not None and "3 of the 4 documents of source 'docs'" in summary.refused
    assert (summary.deleted, summary.exit_status, summary.updated) == (0, 1, 1)
    assert len(bench.ids()) == 5
    assert bench.run(mirror=True, force=True).deleted == 3
    assert bench.ids() == ["docs/d.md", "docs/e.md"]


def test_mirror_deletes_half(bench: Bench) -> None:
    for name in "abcd":
        bench.write(f"{name}.md", name)
    bench.run()
    for name in "ab":
        (bench.docs / f"{name}.md").unlink()
    assert bench.run(mirror=True).deleted == 2


def test_mirror_keeps_what_failed_to_parse(bench: Bench) -> None:
    bench.write("a.md", "a")
    bench.write("b.md", "b")
    bench.rows("r.jsonl", {"id": "r1", "text": "1"}, {"id": "r2", "text": "2"}, {"id": "r3", "text": "3"})
    bench.rows("s.jsonl", {"id": "s1", "text": "1"}, {"id": "s2", "text": "2"})
    bench.run()
    bench.write("b.md", bytes(range(256)))
    bench.rows("r.jsonl", {"id": "r1", "text": "1"}, {"id": "r2", "text": 2})
    bench.write("s.jsonl", '{"id": "s1", "text": "1"}\n{broken\n')
    summary = bench.run(mirror=True)
    assert (summary.failed, summary.deleted) == (3, 1)
    assert bench.ids() == ["docs/a.md", "docs/b.md", "r1", "r2", "s1", "s2"]


def test_mirror_keeps_a_document_that_may_have_moved_into_an_unreadable_file(bench: Bench) -> None:
    path = bench.write("a.md", "---\nid: own\n---\na")
    bench.write("b.md", "b")
    bench.write("c.md", "c")
    bench.run()
    path.rename(bench.docs / "z.md")
    bench.run()
    bench.write("z.md", bytes(range(256)))
    (bench.docs / "b.md").unlink()
    assert bench.run(mirror=True).deleted == 1
    assert bench.ids() == ["docs/c.md", "own"]


def test_mirror_of_one_file_speaks_for_that_file_alone(bench: Bench) -> None:
    bench.write("a.md", "a")
    path = bench.rows("r.jsonl", {"id": "r1", "text": "1"}, {"id": "r2", "text": "2"})
    bench.run()
    bench.rows("r.jsonl", {"id": "r1", "text": "1"})
    assert bench.run(path, mirror=True).deleted == 1
    assert bench.ids() == ["docs/a.md", "r1"]


def test_mirror_of_a_named_source_speaks_for_all_of_it(bench: Bench) -> None:
    one = bench.rows("one.jsonl", {"id": "r1", "text": "1"}, {"id": "r2", "text": "2"})
    two = bench.rows("two.jsonl", {"id": "r1", "text": "1"})
    bench.run(one, source="feed")
    assert bench.run(two, source="feed", mirror=True).deleted == 1
    assert bench.ids() == ["r1"]


def test_two_folders_of_one_name_are_refused_by_name(bench: Bench, tmp_path: Path) -> None:
    bench.write("a.md", "a")
    bench.run()
    second = tmp_path / "elsewhere" / "docs"
    second.mkdir(parents=True)
    (second / "a.md").write_text("b")
    with pytest.raises(ConfigurationError, match=r"'docs'.*--source"):
        bench.run(second)
    assert bench.run(second, source="more").new == 1
    assert bench.ids() == ["docs/a.md", "more/a.md"]


def test_a_vanished_folder_is_an_error_and_deletes_nothing(bench: Bench) -> None:
    bench.write("a.md", "a")
    bench.run()
    bench.docs.rename(bench.root / "gone")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        bench.run(mirror=True, force=True)
    assert bench.ids() == ["docs/a.md"]


def test_ids_are_remembered_however_they_come() -> None:
    seen = SeenIds()
    assert not seen.add(["a", "b"]).any()
    for number in range(300):
        assert not seen.add([f"one {number}", f"two {number}"]).any()
    assert seen.add(["b", "c", "two 7"]).tolist() == [True, False, True]
    assert seen.contains(["c", "d", "one 299"]).tolist() == [True, False, True]
    assert seen.add([]).tolist() == []
