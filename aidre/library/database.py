"""A store as programs use it: a folder of collections, opened by `aidre.open`."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from aidre.engine.errors import Closed, InvalidInput, Missing
from aidre.engine.model import EmbeddingSpace
from aidre.engine.retrieve import Policy
from aidre.engine.storage import check_collection_name
from aidre.library.arguments import check_wait, to_names, to_path, to_spaces
from aidre.library.collection import WAIT_SECONDS, Collection
from aidre.library.foreign import no_attribute, own_words
from aidre.library.spaces import Configured, Spaces

if TYPE_CHECKING:
    from aidre.engine import Address
    from aidre.engine.embedding import Embedder, Endpoint


class Database:
    """A store; also a context manager that closes it. Opening writes nothing: the folder is made at the first write.

    Examples:
        >>> store = aidre.open(folder)
        >>> store.collection("kitchen").count()
        3
        >>> store.close()
    """

    def __init__(self, path: Path | None, uri: str | None = None, configured: Configured | None = None) -> None:
        """Without a path the store is in memory: in a folder of its own, which goes with it."""
        from aidre.engine import open_source

        self._in_memory = path is None
        if path is None:
            path = make_memory_folder()
        elif path.exists() and not path.is_dir():
            raise Missing(f"{path} is a file: name a folder for the store", store=str(path))
        self._uri, self._configured = uri, configured or Configured()
        address = self._configured.address if uri is None else address_of(uri)
        self._source = open_source(path) if address is None else open_source(path, address)
        self._embedders: dict[EmbeddingSpace, Embedder] = {}
        self._is_open = True
        self._remove: Callable[[], object] | None = None
        if self._in_memory:  # views and collections hold the source, and read on while they live
            self._remove = weakref.finalize(self._source, _remove_folder, path, os.getpid())

    @property
    def path(self) -> Path:
        return self._source.path

    def __repr__(self) -> str:
        where = "in memory" if self._in_memory else self.path
        return f"<Database {where}{'' if self._is_open else ', closed'}>"

    if not TYPE_CHECKING:  # to a type checker a name that is missing is a fault

        def __getattr__(self, name: str) -> Any:
            raise no_attribute(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to another process, it is a database of its own of the same store; one in memory goes with this one."""
        return Database, (self.path, self._uri, self._configured), {"_is_open": self._is_open}

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Everything that returned is durable already; afterwards the database and its collections raise Closed. A
        store in memory is gone then.

        Examples:
            >>> db.close()
            >>> db.collections()
            Traceback (most recent call last):
            aidre_client.errors.Closed: the database is closed: open it again by aidre.open
        """
        self._is_open = False
        self._embedders.clear()
        if self._remove is not None:
            self._remove()

    def collections(self) -> list[str]:
        """The names of the collections, sorted.

        Examples:
            >>> db.collections()
            ['kitchen']
        """
        self._check_open()
        try:
            return list(self._source.collections())
        except Missing:
            return []

    @own_words
    def collection(
        self,
        name: str,
        *,
        space: EmbeddingSpace | Sequence[EmbeddingSpace] | None = None,
        embed: Callable[[list[str]], Any] | None = None,
        endpoint: str | Endpoint | None = None,
        dates: Sequence[str] = (),
        wait: float = WAIT_SECONDS,
    ) -> Collection:
        """The collection of that name, which the first write makes.

        `space` declares its embedding spaces; without it those that are stored, for a new collection the default one,
        whose model is part of the installation. `embed` computes the vectors of a space without a model: a function
        from a list of texts to a matrix (texts, dimensions), brought again whenever the collection is opened. So is
        `endpoint`, which embeds a space that names its model, by OpenAI's embeddings API: the part of its address
        before `/embeddings`, or an `aidre.Endpoint` with a key. `dates` names metadata fields in which strings of
        filters are instants, too, from the next commit on.

        Parameters:
            name: Letters, digits and `-_.`; what a search names.
            space: The embedding spaces of a new collection; None: the default one, or those that are stored.
            embed: A function from texts to their vectors, shape (texts, dimensions).
            endpoint: An address, or an `Endpoint`, that embeds by OpenAI's API.
            dates: Metadata fields whose strings are dates.
            wait: Seconds that a write waits for another writer.

        Examples:
            >>> letters = db.collection(
            ...     "letters",
            ...     space=aidre.EmbeddingSpace("vowels", 2, "euclidean"),
            ...     embed=lambda texts: [[text.count("a"), text.count("e")] for text in texts],
            ... )
            >>> letters.add([{"id": "b", "text": "banana"}, {"id": "c", "text": "eleven"}])
            ['b', 'c']
            >>> letters.search("ananas", k=1)[0].document_id
            'b'
        """
        self._check_open()
        check_collection_name(name)
        check_wait(wait)
        configured = self._configured
        spaces = Spaces(to_spaces(space), embed, endpoint, self._embedders, configured)
        policy = configured.policies.get(name) or Policy()
        declared = tuple(to_names(dates, "dates"))
        return Collection(self._source, name, spaces, self._is_usable, wait, policy=policy, dates=declared)

    def drop(self, name: str, *, purge: bool = False, wait: float = WAIT_SECONDS) -> None:
        """Remove a collection with its files. CollectionMissing, StoreLocked, StorageFailed.

        Its number stays, so that a server tells clients whose cursor or feed has ended; with `purge` no trace of the
        name stays, also of a collection that was dropped before.

        Parameters:
            name: The collection.
            purge: Leave no trace of the name.
            wait: Seconds to wait for a writer.

        Examples:
            >>> db.drop("kitchen")
            >>> db.collections()
            []
        """
        self._check_open()
        check_collection_name(name)
        check_wait(wait)
        self._source.drop(name, wait=wait, purge=purge)

    def aliases(self) -> dict[str, str]:
        """The other names of collections, each with the collection that it means. StoreDamaged.

        Examples:
            >>> db.aliases()
            {}
        """
        self._check_open()
        return {name: alias.collection for name, alias in sorted(self._source.aliases().items())}

    def alias(self, name: str, collection: str | None) -> None:
        """Let a name, which no collection has, mean a collection from now on: every reader switches in one step, and
        cursors go on. None removes the alias. InvalidInput, Missing, Conflict, Unsupported, StorageFailed.

        Parameters:
            name: The alias, which every method takes where it takes the name of a collection.
            collection: The collection that it means; None: remove the alias.

        Examples:
            >>> db.alias("recipes", "kitchen")
            >>> len(db.collection("recipes")) == len(db.collection("kitchen"))
            True
            >>> db.alias("recipes", None)
        """
        self._check_open()
        if collection is None:
            self._source.remove_alias(check_collection_name(name))
        else:
            self._source.point_alias(name, check_collection_name(collection))

    def backup(self, target: str | Path) -> None:
        """Write the newest generation of every collection into a new tar file, which `aidre restore` reads.

        Parameters:
            target: The tar file to write; it must not exist.

        Examples:
            >>> db.backup(files / "copy.tar")
            >>> (files / "copy.tar").exists()
            True
        """
        from aidre.engine.maintenance import back_up

        self._check_open()
        path, names = to_path(target, "the target of a backup"), self.collections()
        if not names:
            raise InvalidInput("there is nothing to back up: the store has no collection")
        back_up(self._source, names, path)

    def _is_usable(self) -> bool:
        return self._is_open

    def _check_open(self) -> None:
        if not self._is_open:
            raise Closed("the database is closed: open it again by aidre.open")


_SHARED_MEMORY: Final = Path("/dev/shm")
_LEAST_MEMORY: Final = 1 << 30
"""Bytes that have to be free in the file system of shared memory; containers often have 64 MiB of it."""


def make_memory_folder() -> Path:
    """A new folder in shared memory, or where this has little room among the temporary files."""
    parent = None
    with suppress(OSError):
        state = os.statvfs(_SHARED_MEMORY)
        if state.f_bavail * state.f_frsize >= _LEAST_MEMORY and os.access(_SHARED_MEMORY, os.W_OK | os.X_OK):
            parent = _SHARED_MEMORY
    return Path(tempfile.mkdtemp(prefix="aidre-memory-", dir=parent))


def _remove_folder(path: Path, owner: int) -> None:
    """Done by the process that made it: a fork of that reads it, too, and may end before."""
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


def address_of(uri: str) -> Address:
    """The engine that a URI means, by its scheme. InvalidInput."""
    from aidre.engine import Address

    backend = _BACKENDS.get(uri.partition("://")[0])
    if backend is None:
        raise InvalidInput(
            "uri= is not an address of an engine: write it like postgresql://user@host:5432/database or milvus://host:19530"
        )
    return Address(backend, uri)


_BACKENDS: Mapping[str, str] = {
    "postgresql": "postgres",
    "postgres": "postgres",
    "milvus": "milvus",
    "milvus+tls": "milvus",
}
