"""The writer of one collection: group commit, requests that fail alone, and the lock."""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

import aidre
from aidre.api.config.settings import parse_settings
from aidre.api.http import Unavailable
from aidre.api.writing import document_writes, writer_process
from aidre.api.writing.write_messages import AnyRequest, DeleteDocuments, DeletePassing, PutRows, WriterReply, failed
from aidre.api.writing.writer_process import WriterThread
from aidre.engine.collection.generations import Generations
from aidre.engine.collection.store import Store
from aidre.engine.collection.writer import Writer
from aidre.engine.errors import AidreError, InvalidDocument, StorageFailed, StoreLocked
from aidre.engine.model import EmbeddingSpace
from aidre.engine.types import CommitResult
from tests.support.clocks import WAIT_SECONDS

SPACE = EmbeddingSpace("mine", 2, "cosine")
SETTINGS = parse_settings("""
[[spaces]]
id = "mine"
dimensions = 2
distance = "cosine"
[collections.docs]
spaces = ["mine"]
""")


def row(document_id: str, **members: Any) -> dict[str, Any]:
    return {"id": document_id, "text": f"text of {document_id}", "vectors": {"mine": [1, 2]}, **members}


def put(number: int, *rows: Any) -> PutRows:
    return PutRows(number, "docs", time.monotonic(), orjson.dumps(rows), "array")


def delete(number: int, document_id: str) -> DeleteDocuments:
    return DeleteDocuments(number, "docs", time.monotonic(), [document_id])


def delete_passing(number: int, **filter: Any) -> DeletePassing:
    return DeletePassing(number, "docs", time.monotonic(), orjson.dumps(filter))


class Bench:
    """A writer of a collection, and its answers by number."""

    def __init__(self, path: Path) -> None:
        self.store = Store(path)
        self._answers: queue.SimpleQueue[WriterReply] = queue.SimpleQueue()
        self.writer = WriterThread(self.store, "docs", SETTINGS, self._answers.put)

    def ask(self, *requests: AnyRequest) -> list[WriterReply]:
        """Requests that come at once, and their answers in this order."""
        for request in requests:
            self.writer.put(request)
        found = {answer.number: answer for answer in (self._answers.get(timeout=WAIT_SECONDS) for _ in requests)}
        return [found[request.number] for request in requests]

    def together(self, *requests: AnyRequest) -> list[WriterReply]:
        """The same in one commit: they gather while another writer holds the lock."""
        with self.locked():
            self.writer.put(put(0, row("first")))
            for request in requests:
                self.writer.put(request)
        found = {answer.number: answer for answer in (self._answers.get(timeout=WAIT_SECONDS) for _ in (0, *requests))}
        return [found[request.number] for request in requests]

    @contextmanager
    def locked(self) -> Iterator[Writer]:
        with self.store.writer("docs", spaces=[SPACE]) as writer:
            yield writer

    def ids(self) -> list[str]:
        return sorted({chunk.document_id for chunk in self.store.open("docs").scan()})


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.writer.close()


def failure(answer: WriterReply) -> tuple[type[Exception], str]:
    assert answer.failure is not None
    error = answer.failure.to_error()
    return type(error), error.message


def test_a_request_makes_the_collection_and_is_durable(bench: Bench) -> None:
    (answer,) = bench.ask(put(1, row("a"), row("b")))
    assert (answer.generation, answer.documents, answer.written, answer.failure) == (1, 2, 2, None)
    assert bench.ids() == ["a", "b"]


def test_requests_that_wait_share_a_commit(bench: Bench) -> None:
    answers = bench.together(*(put(number, row(f"d{number}")) for number in range(1, 31)))
    assert len({answer.generation for answer in answers}) <= 2
    assert len(bench.ids()) == 31


def test_a_request_that_fails_takes_no_other_with_it(bench: Bench) -> None:
    good, bad, other = bench.together(put(1, row("a")), put(2, row("b"), {"id": "c", "text": "c"}), put(3, row("d")))
    assert failure(bad)[0] is InvalidDocument
    assert "'c' has no vector" in failure(bad)[1]
    assert (good.failure, other.failure) == (None, None)
    assert bench.ids() == ["a", "d", "first"]


def test_a_row_with_a_vector_for_each_space_needs_no_text(bench: Bench) -> None:
    rows = [{"id": "a", "vectors": {"mine": [1, 2]}}, {"id": "b", "text": " ", "vectors": {"mine": [1, 2]}}]
    (answer,) = bench.ask(put(1, *rows))
    assert (answer.written, answer.failure) == (2, None)
    assert bench.ids() == ["a", "b"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([1], r"\[0\]: not a JSON object"),
        ([{"id": "a"}], "'a' has no text"),
        ([{"id": "a", "text": "x", "vectors": {"mine": [1, 2]}, "n": 2**63}], "beyond 64 bits"),
        ([{"id": "a", "text": " "}], "no text"),
        ([row("a"), row("b", vectors={"mine": [1]})], r"\[1\]: .*2"),
        ([row("a", vectors={"mine": [0, 0]})], "zero|direction"),
        ([row("a", vectors={"other": [1, 2]})], "other"),
        ([row("", text="x")], r"\[0\]: .*id"),
    ],
)
def test_what_is_wrong_is_named(bench: Bench, rows: Sequence[Any], words: str) -> None:
    (answer,) = bench.ask(put(1, *rows))
    assert answer.failure is not None
    with pytest.raises(Exception, match=words):
        raise answer.failure.to_error()


def test_lines_are_rows_and_a_malformed_one_is_named(bench: Bench) -> None:
    lines = b"\n".join([orjson.dumps(row("a")), b"", orjson.dumps(row("b"))])
    (answer,) = bench.ask(PutRows(1, "docs", time.monotonic(), lines, "lines"))
    assert (answer.documents, bench.ids()) == (2, ["a", "b"])
    (answer,) = bench.ask(PutRows(2, "docs", time.monotonic(), orjson.dumps(row("c")) + b"\n{", "lines"))
    assert failure(answer)[0] is InvalidDocument
    assert bench.ids() == ["a", "b"]


def test_what_is_stored_already_is_not_written_again(bench: Bench) -> None:
    bench.ask(put(1, row("a")))
    (again,) = bench.ask(put(2, row("a"), row("b")))
    assert (again.documents, again.written, again.generation) == (2, 1, 2)
    (nothing,) = bench.ask(put(3, row("a")))
    assert (nothing.written, nothing.generation) == (0, 2)


def test_requests_take_effect_in_their_order(bench: Bench) -> None:
    answers = bench.together(
        put(1, row("a", price=9), row("b", price=1)),
        delete(2, "b"),
        delete_passing(3, price={"gt": 5}),
        put(4, row("c", price=9)),
        delete(5, "none"),
    )
    assert [answer.deleted for answer in answers] == [0, 1, 1, 0, 0]
    assert bench.ids() == ["c", "first"]


def test_a_request_waits_for_another_writer_for_a_bounded_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_process, "LOCK_SECONDS", 0.2)
    with bench.locked():
        (answer,) = bench.ask(put(1, row("a")))
        assert failure(answer)[0] is StoreLocked
        assert "process" in failure(answer)[1]
    assert "docs" not in bench.store.collections(), "nothing of it is kept"
    (answer,) = bench.ask(put(2, row("b")))
    assert answer.failure is None
    assert bench.ids() == ["b"]


def test_the_lock_is_free_between_commits(bench: Bench) -> None:
    bench.ask(put(1, row("a")))
    with bench.store.writer("docs", spaces=[SPACE], wait=60) as writer:
        writer.delete(["a"])
        writer.commit()
    (answer,) = bench.ask(put(2, row("b")))
    assert (answer.generation, bench.ids()) == (3, ["b"])


def test_a_commit_that_fails_is_answered_and_keeps_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Writer) -> None:
        raise StorageFailed("cannot write: no space left on device")

    with monkeypatch.context() as full:
        full.setattr(Writer, "commit", refuse)
        (answer,) = bench.ask(put(1, row("a")))
    assert failure(answer) == (StorageFailed, "cannot write: no space left on device")
    (answer,) = bench.ask(put(2, row("b")))
    assert (answer.failure, bench.ids()) == (None, ["b"])


def test_a_fault_of_the_writer_is_answered_and_the_next_request_goes_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Writer) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(Writer, "commit", fail)
        (answer,) = bench.ask(put(1, row("a")))
    assert failure(answer)[0] is StorageFailed
    (answer,) = bench.ask(put(2, row("b")))
    assert answer.failure is None


def test_many_commits_are_merged(bench: Bench) -> None:
    for number in range(60):
        bench.ask(put(number, row(f"d{number}")))
    assert len(bench.store.open("docs").segments) <= 24
    assert len(bench.ids()) == 60


def test_threads_may_send_at_once(bench: Bench) -> None:
    def send(first: int) -> None:
        for number in range(first, first + 20):
            bench.writer.put(put(number, row(f"d{number}")))

    threads = [threading.Thread(target=send, args=(100 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bench.writer.close()
    assert len(bench.ids()) == 80


def test_nothing_is_committed_for_a_server_that_was_killed(tmp_path: Path) -> None:
    answers: queue.SimpleQueue[WriterReply] = queue.SimpleQueue()
    writer = WriterThread(Store(tmp_path), "docs", SETTINGS, answers.put, lambda: False)
    writer.put(put(1, row("a")))
    writer.close()
    assert failure(answers.get(timeout=WAIT_SECONDS)) == (StorageFailed, "the server has ended")
    assert Store(tmp_path).collections() == []


def test_a_new_collection_is_what_the_configuration_says(tmp_path: Path) -> None:
    settings = parse_settings("""
[[spaces]]
id = "mine"
dimensions = 2
distance = "cosine"
[collections.docs]
spaces = ["mine"]
description = "What is new"
visibility = "private"
""")
    answers: queue.SimpleQueue[WriterReply] = queue.SimpleQueue()
    writer = WriterThread(Store(tmp_path), "docs", settings, answers.put)
    writer.put(put(1, row("a")))
    writer.close()
    collection = Store(tmp_path).open("docs").collection
    assert (collection.description, collection.visibility) == ("What is new", "private")


# -- what follows a commit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [StorageFailed("cannot write rows: No space left on device"), ZeroDivisionError()])
def test_an_answer_is_that_of_the_commit_whatever_a_merge_meets(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    def fail(self: Generations) -> None:
        raise fault

    with monkeypatch.context() as broken:
        broken.setattr(Generations, "merge_due", fail)
        answers = [bench.ask(put(number, row(f"d{number}")))[0] for number in range(1, 7)]
        answers += bench.ask(delete(7, "d1"))
        answers += bench.ask(delete_passing(8, document_id="d2"))
    assert [answer.failure for answer in answers] == [None] * 8
    assert (answers[6].deleted, answers[7].deleted) == (1, 1)
    assert len([one for one in caplog.records if "segments were not merged" in one.message]) == 1
    bench.ask(put(9, row("last")))
    bench.writer.close()
    assert bench.ids() == ["d3", "d4", "d5", "d6", "last"]
    assert len(bench.store.open("docs").segments) <= 2


def test_what_a_deletion_by_a_filter_has_committed_is_answered_though_the_next_commit_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Writer.commit

    def refuse(self: Writer) -> CommitResult | None:
        if "b" in self._pending.row_by_id:
            raise StorageFailed("cannot write chunks.arrow: No space left on device", reason="full")
        return commit(self)

    monkeypatch.setattr(Writer, "commit", refuse)
    stored, deleted, refused = bench.together(
        put(1, row("a")), delete_passing(2, document_id="first"), put(3, row("b"))
    )
    assert stored.failure is None
    assert failure(deleted)[0] is failure(refused)[0] is StorageFailed
    assert bench.ids() == ["a", "first"], "as the answers say"


@pytest.mark.parametrize(
    ("error", "words", "retry"),
    [
        (
            StorageFailed("cannot write x: No space", reason="full"),
            "nothing was written, because the disk .* full",
            "30",
        ),
        (StorageFailed("cannot write x: Input/output error"), "nothing was written, because the store refuses", "5"),
        (StorageFailed("cannot write CURRENT: ...", unconfirmed=7), "may be written or not: send it again", "1"),
        (StoreLocked("collection 'docs' is being written"), "nothing was written: .* being written", "5"),
    ],
)
def test_a_caller_is_told_why_nothing_is_written_or_that_it_may_be(
    error: AidreError, words: str, retry: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = document_writes._refusal(failed(1, error).failure.to_error())  # type: ignore[union-attr]
    assert isinstance(told, Unavailable)
    assert re.search(words, told.message)
    assert told.headers["Retry-After"] == retry
    assert "cannot write x" not in told.message, "the operator's log says more"
    assert isinstance(error, StoreLocked) or error.message in caplog.text


def test_a_writer_follows_an_alias_to_a_collection_of_other_spaces(bench: Bench) -> None:
    other = EmbeddingSpace("other", 2, "cosine")
    for name, space in (("docs-1", SPACE), ("docs-2", other)):
        one = {"id": "first", "text": "", "vectors": {space.id: [1, 2]}}
        aidre.open(bench.store.path).collection(name, space=space).add([one])
    bench.store.point_alias("docs", "docs-1")
    [first] = bench.ask(put(1, row("a")))
    bench.store.point_alias("docs", "docs-2")
    [second] = bench.ask(put(2, {**row("b"), "vectors": {"other": [1, 2]}}))
    assert (first.failure, second.failure) == (None, None)
    assert bench.ids() == ["b", "first"]
    assert bench.store.open("docs-1").documents == 2
