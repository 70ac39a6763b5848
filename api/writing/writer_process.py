"""The writer process of a server: it makes one commit of the requests that wait for the same collection.

It is a process of its own, so that chunking, embedding and commits do not delay searches. While one commit runs, the
next requests gather (group commit). The lock of a collection is held for one commit and the merges after it; whoever
holds it otherwise is waited for, and requests are then refused. It ends when the server does, after the requests that
it has received.

    python -m aidre.api.writing.writer_process DESCRIPTOR
"""

from __future__ import annotations

import functools
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import orjson

from aidre.api.config import CollectionSettings, Settings, spaces_for
from aidre.api.writing.document_writes import read_start
from aidre.api.writing.write_messages import (
    AnyRequest,
    DeleteDocuments,
    DeletePassing,
    PatchDocuments,
    PutRows,
    RowFormat,
    WriterReply,
    failed,
)
from aidre.engine.embedding import Embedder, load_embedder
from aidre.engine.errors import AidreError, CollectionMissing, InvalidDocument, StorageFailed
from aidre.engine.index.fields import parse_filter
from aidre.engine.model import Document, EmbeddingSpace, Json
from aidre.engine.ports import Reader, Sink, Source
from aidre.ingest.formats.tables import read_json_row
from aidre.ingest.pipeline import DocumentWriter, delete_passing
from aidre.ingest.records import File, Rejected, VectorRules, parse_json, parse_mappings

logger = logging.getLogger("aidre")

LOCK_SECONDS = 5.0
"""How long a request waits for another writer of its collection."""
MAX_GROUP_REQUESTS = 1_024
MAX_GROUP_BYTES = 64 << 20
"""Bodies in one commit."""
NICENESS = 15
"""Below the server: a search goes before a commit."""


class WriterThread:
    """The writes of one collection, in a thread. `answer` may be called from several threads. `is_wanted` tells, with
    the lock held, whether a commit may still be made."""

    def __init__(
        self,
        source: Source,
        name: str,
        settings: Settings,
        answer: Callable[[WriterReply], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._source, self._name, self._settings = source, name, settings
        self._answer, self._is_wanted = answer, is_wanted
        self._queue: queue.SimpleQueue[AnyRequest | None] = queue.SimpleQueue()
        self._embedders: dict[str, Embedder] = {}
        self._newest: Reader | None = None
        self._thread = threading.Thread(target=self._run, name=f"write {name}")
        self._thread.start()

    def put(self, request: AnyRequest) -> None:
        self._queue.put(request)

    def close(self) -> None:
        """Wait until all is committed."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            group = self._next_group()
            if not group:
                return
            try:
                self._commit(group)
            except AidreError as error:
                self._refuse(group, error)
            except Exception:  # the outermost handler of a group
                logger.exception("writing to collection %s failed", self._name)
                self._refuse(group, StorageFailed("the writer failed: the server's log says why"))

    def _next_group(self) -> list[AnyRequest]:
        """The requests that wait, up to the bounds of a group; empty at the end."""
        group, size = list[AnyRequest](), 0
        with suppress(queue.Empty):
            while len(group) < MAX_GROUP_REQUESTS and size < MAX_GROUP_BYTES:
                request = self._queue.get(block=not group)
                if request is None:
                    self._queue.put(None)
                    break
                group.append(request)
                size += len(request.body) if isinstance(request, PutRows) else 0
                size += len(request.changes) if isinstance(request, PatchDocuments) else 0
        return group

    def _refuse(self, group: Sequence[AnyRequest], error: AidreError) -> None:
        for request in group:
            self._answer(failed(request.number, error))

    # -- one commit --------------------------------------------------------------------------------------------

    def _commit(self, group: list[AnyRequest]) -> None:
        """Do the requests of a group; those that are answered leave it, so that a later error is not theirs."""
        left = group[0].arrived + LOCK_SECONDS - time.monotonic()
        alias = self._source.aliases().get(self._name)
        meant = self._name if alias is None else alias.collection
        settings = self._settings.collection(self._name, meant)
        spaces = self._spaces(meant)
        embedders = {space.id: self._embedder(space) for space in spaces if space.model is not None}
        with self._source.writer(
            meant,
            spaces=[embedders[space.id].space if space.id in embedders else space for space in spaces],
            description=settings.description,
            visibility="private" if settings.visibility == "private" else None,  # never makes a private one public
            dates=settings.dates,
            runtimes={space: embedder.runtime for space, embedder in embedders.items()},
            models={space: embedder.embed_queries for space, embedder in embedders.items()},
            previous=self._newest,
            wait=max(0.0, left),
        ) as sink:
            requests = _Group(sink, embedders, settings, functools.partial(self._commit_and_answer, sink, group))
            requests.apply(group)
            self._commit_and_answer(sink, group, requests.answers)
            sink.finish()  # what follows the commit: nothing of it is an error
            self._newest = sink.snapshot

    def _commit_and_answer(self, sink: Sink, group: list[AnyRequest], answers: list[WriterReply]) -> None:
        """Commit, and give the answers, which are durable then; their requests leave the group."""
        if not self._is_wanted():
            raise StorageFailed("the server has ended")
        committed = sink.commit()
        self._newest = sink.snapshot
        stored = 0 if self._newest is None else self._newest.generation
        generation = stored if committed is None else committed.generation
        for answer in answers:
            durable = answer if answer.failure else msgspec.structs.replace(answer, generation=generation)
            self._answer(durable)
        answered = {answer.number for answer in answers}
        group[:] = [request for request in group if request.number not in answered]
        answers.clear()

    def _spaces(self, meant: str) -> Sequence[EmbeddingSpace]:
        if self._newest is not None and self._newest.collection.name != meant:
            self._newest = None  # the alias moved
        if self._newest is None:
            with suppress(CollectionMissing):
                self._newest = self._source.open(meant)
        stored = () if self._newest is None else self._newest.collection.spaces
        return spaces_for(self._settings, meant, stored, ())

    def _embedder(self, space: EmbeddingSpace) -> Embedder:
        embedder = self._embedders.get(space.id)
        if embedder is None:
            embedder = self._embedders[space.id] = load_embedder(
                space, runtime=self._settings.embedding.runtime, endpoints=self._settings.endpoints, fetch=False
            )
        return embedder


class _Group:
    """The requests of one commit, one after the other; one that is refused changes nothing."""

    def __init__(
        self,
        sink: Sink,
        embedders: Mapping[str, Embedder],
        settings: CollectionSettings,
        commit: Callable[[list[WriterReply]], object],
    ) -> None:
        """`commit` makes durable what is done, and gives the answers that it gets."""
        self.answers: list[WriterReply] = []
        self._sink, self._commit = sink, commit
        self._writer = DocumentWriter(sink, embedders)
        self._rules = VectorRules(tuple(sink.spaces.values()), embedders.keys())
        mappings = parse_mappings(settings.mapping, "mapping")
        self._file = File(Path(), "", "", mapping=None if mappings is None else mappings.others)

    def apply(self, group: Sequence[AnyRequest]) -> None:
        """Do the requests; `answers` are those to be given after the next commit."""
        for request in tuple(group):  # which loses those that are answered meanwhile
            self.answers.append(self._apply_one(request))

    def _apply_one(self, request: AnyRequest) -> WriterReply:
        try:
            if isinstance(request, PutRows):
                documents = list(self._documents(_rows(request.body, request.format)))
                self._writer.check(documents)
                written = self._writer.write(documents)
                return WriterReply(request.number, documents=len(documents), written=written)
            if isinstance(request, PatchDocuments):
                return self._patch(request)
            if isinstance(request, DeleteDocuments):
                return WriterReply(request.number, deleted=self._sink.delete(request.document_ids))
            return WriterReply(request.number, deleted=self._delete_passing(request))
        except StorageFailed:
            raise
        except AidreError as error:
            return failed(request.number, error)

    def _patch(self, request: PatchDocuments) -> WriterReply:
        """Changes what came before, too; for that it has to be committed."""
        changes = {key: self._changed(key, members) for key, members in orjson.loads(request.changes).items()}
        self._commit(self.answers)
        return WriterReply(request.number, documents=len(changes), written=self._writer.patch(changes))

    def _changed(self, document_id: str, members: Json) -> dict[str, Any]:
        """Changed members with vectors as a row has them. InvalidDocument."""
        try:
            vectors = {"vectors": self._rules.parse_lists(members["vectors"])} if "vectors" in members else {}
        except InvalidDocument as error:
            message = f"document {document_id!r}: {error.message}"
            raise InvalidDocument(message, document_id=document_id) from None
        return {**members, **vectors}

    def _delete_passing(self, request: DeletePassing) -> int:
        """Deletes what passes of all that came before; for that it has to be committed."""
        parsed = parse_filter(orjson.loads(request.filter))
        self._commit(self.answers)
        return delete_passing(self._sink, parsed, allow_unknown=request.allow_unknown)

    def _documents(self, rows: Iterator[tuple[str, Json]]) -> Iterator[Document]:
        for where, row in rows:
            for item in read_json_row(row, where, self._file, self._rules):
                if isinstance(item, Rejected):
                    raise InvalidDocument(f"{where}: {item.reason}", row=where)
                assert isinstance(item, tuple)
                yield item[1]


def _rows(body: bytes, format: RowFormat) -> Iterator[tuple[str, Json]]:
    """The rows of a body, each with its place. InvalidDocument."""
    if format == "lines":
        for number, line in enumerate(body.splitlines(), 1):
            if line.strip():
                yield f"line {number}", parse_json(line, is_strict=True)
        return
    rows = parse_json(body, is_strict=True)
    for number, row in enumerate(rows if isinstance(rows, list) else [rows]):
        yield f"[{number}]", row


# -- the process -------------------------------------------------------------------------------------------------


def serve(source: Source, settings: Settings, connection: Connection, server: int) -> None:
    """Answer requests until the server, a process id, closes the connection.

    Once it was killed nothing more is committed: its callers may have gone to another worker, whose commits came later.
    """
    writers: dict[str, WriterThread] = {}
    sending = threading.Lock()

    def is_wanted() -> bool:
        return os.getppid() == server

    def answer(reply: WriterReply) -> None:
        with sending, suppress(OSError):  # a server that has gone needs no answer
            connection.send_bytes(msgspec.msgpack.encode(reply))

    with suppress(EOFError, OSError):
        while True:
            request = msgspec.msgpack.decode(connection.recv_bytes(), type=AnyRequest)
            writer = writers.get(request.collection)
            if writer is None:
                writer = writers[request.collection] = WriterThread(
                    source, request.collection, settings, answer, is_wanted
                )
            writer.put(request)
    for writer in writers.values():
        writer.close()


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # the server decides when it ends
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    logging.basicConfig(format="%(message)s")
    connection = Connection(int(sys.argv[1]))
    start = read_start(connection.recv_bytes())
    serve(start.settings.store.open(Path(start.store)), start.settings, connection, start.server)


if __name__ == "__main__":
    main()
