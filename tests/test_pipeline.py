"""Ingest from files to a real store, with the hashing embedder: what is written, skipped, counted, deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from numpy.typing import NDArray

from aidre.engine.embed import Embedder
from aidre.engine.errors import ConfigurationError
from aidre.engine.hashing import HashingEmbedder
from aidre.engine.model import EmbeddingSpace, Query
from aidre.engine.store import Store
from aidre.ingest.pipeline import ingest
from aidre.ingest.progress import Committed, Event, Notice, Problem, Summary
from aidre.ingest.run import IngestOptions

WORDS = EmbeddingSpace("words", 32, "cosine", normalized=True, provider="aidre", model="hashing")
BROUGHT = EmbeddingSpace("brought", 4, "cosine")
SCALED = EmbeddingSpace("scaled", 4, "dot", normalized=True)


class CountingEmbedder(HashingEmbedder):
    """Remembers what it was asked to embed."""

    def __init__(self, space: EmbeddingSpace) -> None:
        super().__init__(space)
        self.texts: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.texts += texts
        return super().embed_documents(texts)


@dataclass
class Bench:
    """A store, a folder of sources, and one collection that is ingested again and again."""

    root: Path
    spaces: tuple[EmbeddingSpace, ...] = (WORDS,)
    events: list[Event] = field(default_factory=list)
    embedder: CountingEmbedder = field(default_factory=lambda: CountingEmbedder(WORDS))

    @property
    def store(self) -> Store:
        return Store(self.root / "store")

    @property
    def docs(self) -> Path:
        return self.root / "docs"

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.docs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def rows(self, name: str, *rows: Any) -> Path:
        return self.write(name, b"".join(orjson.dumps(row) + b"\n" for row in rows))

    def run(self, *sources: Path, **options: Any) -> Summary:
        self.events, self.embedder.texts = [], []
        embedders: dict[str, Embedder] = {WORDS.id: self.embedder} if WORDS in self.spaces else {}
        return ingest(
            self.store,
            "c",
            sources or [self.docs],
            spaces=self.spaces,
            embedders=embedders,
            options=IngestOptions(**options),
            report=self.events.append,
        )

    @property
    def problems(self) -> list[str]:
        return [f"{event.where}: {event.reason}" for event in self.events if isinstance(event, Problem)]

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    @property
    def commits(self) -> list[Committed]:
        return [event for event in self.events if isinstance(event, Committed)]

    def ids(self) -> list[str]:
        with self.store.writer("c", spaces=[self.embedder.space if s is WORDS else s for s in self.spaces]) as writer:
            return sorted(id for name in writer.source_roots() for id, _ in writer.documents_of(name))

    def text(self, chunk_id: str) -> str:
        chunk = self.store.open("c").get(chunk_id)
        assert chunk is not None
        return chunk.text

    def metadata(self, chunk_id: str) -> dict[str, Any]:
        chunk = self.store.open("c").get(chunk_id)
        assert chunk is not None
        read: dict[str, Any] = orjson.loads(b"{" + chunk.json_metadata + b"}")
        return read


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_folder_becomes_chunks_that_a_query_finds(bench: Bench) -> None:
    bench.write("a.md", "# Apples\n\nApples are red.\n")
    bench.write("deep/b.txt", "Bananas are yellow.")
    summary = bench.run()
    assert (summary.documents, summary.updated, summary.new, summary.chunks, summary.embedded) == (2, 2, 2, 2, 2)
    assert bench.ids() == ["docs/a.md", "docs/deep/b.txt"]
    query = bench.embedder.embed_queries(["yellow bananas"])[0]
    hits = bench.store.open("c").search(Query(query, "words", top_k=1))
    assert [hit.chunk.document_id for hit in hits] == ["docs/deep/b.txt"]


def test_a_second_run_over_the_same_files_writes_and_embeds_nothing(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    bench.run()
    generation = bench.store.current("c")
    summary = bench.run()
    assert (summary.unchanged, summary.updated, summary.embedded, summary.documents) == (1, 0, 0, 1)
    assert bench.store.current("c") == generation
    assert bench.commits == [] and bench.embedder.texts == []


def test_changed_metadata_are_written_but_not_embedded(bench: Bench) -> None:
    bench.rows("r.jsonl", {"id": "a", "text": "Apples.", "metadata": {"n": 1}})
    bench.run()
    bench.rows("r.jsonl", {"id": "a", "text": "Apples.", "metadata": {"n": 2}})
    summary = bench.run()
    assert (summary.updated, summary.new, summary.embedded) == (1, 0, 0)
    assert bench.metadata("a#chunk_1")["n"] == 2


def test_an_invented_date_stays_while_the_text_does(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def at(moment: str) -> None:
        monkeypatch.setattr("aidre.engine.writer.now", lambda: moment)

    at("2026-01-01T00:00:00Z")
    bench.rows("r.jsonl", {"id": "a", "text": "Apples."})
    bench.run()
    at("2026-02-02T00:00:00Z")
    bench.rows("r.jsonl", {"id": "a", "text": "Apples.", "metadata": {"n": 1}})
    bench.run()
    assert bench.metadata("a#chunk_1")["updated_at"] == "2026-01-01T00:00:00Z"
    bench.rows("r.jsonl", {"id": "a", "text": "Pears.", "metadata": {"n": 1}})
    bench.run()
    assert bench.metadata("a#chunk_1")["updated_at"] == "2026-02-02T00:00:00Z"


def test_a_changed_document_replaces_all_its_chunks(bench: Bench) -> None:
    bench.write("a.md", "# One\n\nfirst\n\n# Two\n\nsecond\n")
    bench.run()
    bench.write("a.md", "# One\n\nfirst\n")
    assert bench.run().chunks == 1
    snapshot = bench.store.open("c")
    assert (snapshot.chunks, snapshot.get("docs/a.md#chunk_2")) == (1, None)


def test_equal_strings_are_embedded_once_and_known_ones_not_again(bench: Bench) -> None:
    bench.rows("r.jsonl", *({"id": str(n), "title": "t", "text": "the same words"} for n in range(5)))
    assert bench.run().embedded == 1
    bench.rows("s.jsonl", {"id": "new", "title": "t", "text": "the same words"})
    summary = bench.run()
    assert (summary.new, summary.embedded) == (1, 0)


def test_rows_bring_vectors_and_are_one_chunk_each(bench: Bench) -> None:
    bench.spaces = (BROUGHT, SCALED)
    long = "# A\n\n" + "many words " * 900 + "\n\n# B\n"
    vectors = {"brought": [0, 3, 0, 4], "scaled": [0, 0, 0, 2]}
    bench.rows("r.jsonl", {"id": "a", "text": long, "vectors": vectors}, {"id": "b", "vectors": vectors})
    summary = bench.run()
    assert (summary.documents, summary.chunks, summary.embedded, summary.failed) == (2, 2, 0, 0)
    chunk = bench.store.open("c").get("a#chunk_1")
    assert chunk is not None and chunk.text == long
    stored = chunk.vectors()
    assert stored["brought"] == pytest.approx([0, 3, 0, 4])
    assert stored["scaled"] == pytest.approx([0, 0, 0, 1])


def test_a_row_with_vectors_is_still_embedded_for_a_space_with_a_model(bench: Bench) -> None:
    bench.spaces = (WORDS, BROUGHT)
    bench.rows("r.jsonl", {"id": "a", "title": "T", "text": "Apples.", "vectors": {"brought": [1, 0, 0, 0]}})
    assert bench.run().embedded == 1
    assert bench.embedder.texts == ["T\nApples."]


def test_a_vector_that_a_row_brings_wins_over_the_model(bench: Bench) -> None:
    own = np.eye(1, 32, 7, dtype=np.float32)[0]
    bench.rows(
        "r.jsonl",
        {"id": "a", "text": "Apples.", "vectors": {"words": own.tolist()}},
        {"id": "b", "text": "Pears."},
    )
    summary = bench.run()
    assert (summary.embedded, bench.embedder.texts) == (1, ["Pears."])
    chunk = bench.store.open("c").get("a#chunk_1")
    assert chunk is not None and chunk.vectors()["words"] == pytest.approx(own)


def test_a_document_without_a_vector_that_nobody_can_make_fails_by_name(bench: Bench) -> None:
    bench.spaces = (WORDS, BROUGHT)
    bench.write("a.md", "Apples.")
    bench.rows("r.jsonl", {"id": "a", "text": "Apples."}, {"id": "b"})
    summary = bench.run()
    assert (summary.failed, summary.documents, summary.skipped) == (3, 0, 0)
    assert [problem.split(": ")[0] for problem in bench.problems] == ["a.md", "r.jsonl:1", "r.jsonl:2"]
    assert "no vector for embedding space 'brought'" in bench.problems[0]


def test_a_vector_that_only_the_engine_refuses_fails_alone(bench: Bench) -> None:
    bench.spaces = (replace(BROUGHT, distance="dot", precision="float16"),)
    rows = [{"id": str(n), "vectors": {"brought": [1e5 if n == 1 else 1, 0, 0, 0]}} for n in range(3)]
    bench.rows("r.jsonl", *rows)
    summary = bench.run()
    assert (summary.failed, summary.updated) == (1, 2)
    assert bench.problems[0].startswith("r.jsonl:2: ") and "float16" in bench.problems[0]
    assert bench.ids() == ["0", "2"]


def test_a_document_without_text_is_skipped_and_no_failure(bench: Bench) -> None:
    bench.write("a.md", " \n\n")
    bench.rows("r.jsonl", {"id": "a", "title": "only a title"})
    summary = bench.run()
    assert (summary.skipped, summary.failed, summary.documents, summary.exit_status) == (2, 0, 0, 0)
    assert bench.notices == ["a.md: no text, skipped", "r.jsonl:1: no text, skipped"]


def test_failures_are_named_counted_and_do_not_stop_the_rest(bench: Bench) -> None:
    bench.write("r.jsonl", '{"id": "a", "text": "x"}\n{oops\n\n[1]\n{"id": "b", "text": "y"}\n')
    bench.write("bad.md", b"caf\xe9")
    summary = bench.run()
    assert (summary.documents, summary.failed, summary.exit_status) == (2, 3, 1)
    assert [problem.split(": ")[0] for problem in bench.problems] == ["bad.md", "r.jsonl:2", "r.jsonl:4"]


def test_the_last_of_equal_ids_wins_whether_or_not_a_commit_lies_between(bench: Bench) -> None:
    rows = [{"id": "a", "text": "one"}, {"id": "b", "text": "b"}, {"id": "a", "text": "two"}]
    bench.rows("r.jsonl", *rows)
    assert bench.run().documents == 3
    assert bench.text("a#chunk_1") == "two"
    assert any("id that came before" in notice for notice in bench.notices)
    bench.rows("r.jsonl", *rows[:2], {"id": "a", "text": "three"})
    bench.run(commit_every=1)
    assert (bench.text("a#chunk_1"), bench.ids()) == ("three", ["a", "b"])


def test_commit_every_commits_after_exactly_so_many_documents(bench: Bench) -> None:
    bench.rows("r.jsonl", *({"id": str(n), "text": f"text {n}"} for n in range(7)))
    bench.run(commit_every=3)
    assert [commit.documents for commit in bench.commits] == [3, 6, 7]
    assert [commit.chunks for commit in bench.commits] == [3, 6, 7]
    generations = [commit.generation for commit in bench.commits]
    assert generations == sorted(set(generations))


def test_an_interrupted_run_resumes_after_its_last_commit(bench: Bench) -> None:
    bench.rows("r.jsonl", *({"id": str(n), "text": f"text {n}"} for n in range(6)))

    def stop(event: Event) -> None:
        if isinstance(event, Committed) and event.documents == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest(
            bench.store,
            "c",
            [bench.docs],
            spaces=bench.spaces,
            embedders={WORDS.id: bench.embedder},
            options=IngestOptions(commit_every=2),
            report=stop,
        )
    summary = bench.run(commit_every=2)
    assert (summary.unchanged, summary.updated, summary.embedded) == (4, 2, 2)


def test_the_done_event_has_the_promised_members(bench: Bench) -> None:
    bench.write("a.md", "Apples.")
    summary = bench.run()
    assert bench.events[-1] is summary
    members = "event documents chunks embedded updated unchanged deleted failed skipped seconds"
    assert list(summary.as_json()) == members.split()
    assert bench.commits[0].as_json() == {"event": "commit", "generation": 1, "documents": 1, "chunks": 1}


def test_a_change_of_chunking_or_spaces_ingests_anew(bench: Bench) -> None:
    bench.write("a.md", "Apples. " * 200)
    first = bench.run()
    second = bench.run(chunk_tokens=50)
    assert second.updated == 1 and second.chunks > first.chunks


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
    bench.write("b.md", b"\xff")
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
    bench.write("z.md", b"\xff")
    (bench.docs / "b.md").unlink()
    assert bench.run(mirror=True).deleted == 1
    assert bench.ids() == ["docs/c.md", "own"]


def test_a_reason_is_one_printable_line_whatever_a_row_says(bench: Bench) -> None:
    bench.rows("r.jsonl", {"id": "a", "vectors": {"\x1b[31m\n" + "x" * 9999: [1]}})
    bench.run()
    (problem,) = bench.problems
    assert problem.isprintable() and len(problem) < 600


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


def test_a_dry_run_reports_and_writes_nothing(bench: Bench) -> None:
    bench.write("a.md", "a")
    bench.write("b.md", "b")
    summary = bench.run(dry_run=True)
    assert (summary.documents, summary.new, summary.chunks, summary.embedded) == (2, 2, 2, 0)
    assert not bench.store.path.exists()
    bench.run()
    generation = bench.store.current("c")
    bench.write("a.md", "changed")
    (bench.docs / "b.md").unlink()
    bench.write("c.md", "c")
    summary = bench.run(dry_run=True, mirror=True)
    assert (summary.updated, summary.new, summary.unchanged, summary.deleted) == (2, 1, 0, 1)
    assert bench.store.current("c") == generation
    assert bench.embedder.texts == []
    assert (summary.as_json()["dry_run"], summary.as_json()["new"]) == (True, 1)


def test_a_vanished_folder_is_an_error_and_deletes_nothing(bench: Bench) -> None:
    bench.write("a.md", "a")
    bench.run()
    bench.docs.rename(bench.root / "gone")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        bench.run(mirror=True, force=True)
    assert bench.ids() == ["docs/a.md"]


def test_half_a_surrogate_in_the_front_matter_fails_by_name(bench: Bench) -> None:
    bench.write("a.md", '---\ntitle: "\\ud800"\n---\nApples.')
    bench.run()
    assert len(bench.problems) == 1 and bench.problems[0].startswith("a.md: ")


def test_a_row_that_cannot_be_written_back_as_json_fails_by_name(bench: Bench) -> None:
    bench.write("r.jsonl", '{"id":"a","text":"x","metadata":{"d":' + "[" * 400 + "]" * 400 + "}}\n")
    assert bench.run().failed == 1
    assert "r.jsonl:1: cannot be written as JSON" in bench.problems[0]
