"""A Milvus server: its address, calls through pymilvus, and one error for all faults, which shows no password."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from aidre.engine.errors import BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from pymilvus import MilvusClient

T = TypeVar("T")
Row: TypeAlias = Mapping[str, Any]
_FIELD: Final = re.compile(r"(\w+) (\w+)(?:\(([\d ]+)\))?(?:, *|$)")
_SIZES: Final = {"VARCHAR": ("max_length",), "FLOAT_VECTOR": ("dim",), "ARRAY": ("max_capacity", "max_length")}
_ANALYZED: Final = {"enable_analyzer": True, "enable_match": True, "analyzer_params": {"tokenizer": "standard"}}

_SECONDS: Final = 5.0
"""Until a call counts as lost: pymilvus repeats it until then."""
_WRITE_SECONDS: Final = 20.0
_WORK_SECONDS: Final = 120.0
"""Indexes are made and collections loaded."""
_PORT: Final = 19_530
_CHANNEL: Final = {"grpc.use_local_subchannel_pool": 1, "grpc.max_reconnect_backoff_ms": 1_000}
"""A new connection does not wait because another one failed."""
_FLUSHED: Final = "Flushed"
_CONNECT_FAILED: Final = 2
_ABSENT: Final = 100
"""The code of a collection that does not exist."""
_INSERTED_ROWS: Final = 500
"""Rows of one call, with 60 kB each at most: a server takes 64 MB."""
_REPLACED_ROWS: Final = 5_000
_DELETED_ROWS: Final = 5_000
_WORDS_SINCE: Final = (2, 5)
"""The first release that scores texts by BM25."""


class MilvusDatabase:
    """A server and the name of a store in it, with which the names of its collections begin. Safe for threads."""

    def __init__(self, uri: str) -> None:
        if find_spec("pymilvus") is None:
            raise ConfigurationError("the engine milvus needs pymilvus, which is not installed: pip install pymilvus")
        self._options, self.address, self.store = _parse(uri)
        self._lock, self._pid = threading.Lock(), 0
        self._client: MilvusClient | None = None

    def call(self, method: str, *arguments: Any, seconds: float | None = None, **options: Any) -> Any:
        """Call a method of pymilvus' client. BackendUnavailable, with reason `absent` for an unknown collection."""
        import grpc
        from pymilvus import MilvusException

        limit = _SECONDS if seconds is None else seconds
        client: MilvusClient | None = None
        try:
            client = self._connected()
            return getattr(client, method)(*arguments, timeout=limit, **options)
        except (MilvusException, grpc.RpcError, ValueError) as error:
            if isinstance(error, ValueError) and "closed channel" not in str(error):
                raise
            failure = self._failure(error)
            if failure.details["reason"] == "lost":
                self._forget(client)
            raise failure from None

    @cached_property
    def has_words(self) -> bool:
        """Whether the server scores texts by BM25. Milvus Lite tells its own release, which does since 3."""
        found = re.search(r"(\d{1,9})\.(\d{1,9})", str(self.call("get_server_version")))
        return found is not None and (int(found[1]), int(found[2])) >= _WORDS_SINCE

    def rows(
        self,
        collection: str,
        expression: str,
        columns: Sequence[str],
        *,
        strong: bool = False,
        most: int | None = None,
    ) -> list[Row]:
        """Columns of the rows that an expression selects, of more than `most` some. Strong: of all that was written
        before the call."""
        options: dict[str, Any] = {"consistency_level": "Strong" if strong else "Bounded"}
        options |= {} if most is None else {"limit": most}
        return list(self.call("query", collection, filter=expression, output_fields=list(columns), **options))

    def nearest(
        self, collection: str, wanted: Any, expression: str, columns: Sequence[str], most: int, **parameters: Any
    ) -> list[Row]:
        """Columns of the rows that an expression selects whose field `vector` is nearest to what is wanted."""
        [hits] = self.call(
            "search",
            collection,
            data=[wanted],
            anns_field="vector",
            limit=most,
            filter=expression,
            search_params={"params": parameters},
            output_fields=list(columns),
            consistency_level="Bounded",
        )
        return [hit["entity"] for hit in hits]

    def count(self, collection: str, expression: str, *, strong: bool = False) -> int:
        [row] = self.rows(collection, expression, ["count(*)"], strong=strong)
        return int(row["count(*)"])

    def insert(self, collection: str, rows: Sequence[Row]) -> None:
        for block in blocks(rows, _INSERTED_ROWS):
            self.call("insert", collection, block, seconds=_WRITE_SECONDS)

    def replace(self, collection: str, rows: Sequence[Row]) -> None:
        """Insert small rows in place of those with the same numbers, where there are any."""
        for block in blocks(rows, _REPLACED_ROWS):
            self.call("upsert", collection, block, seconds=_WRITE_SECONDS)

    def delete(self, collection: str, numbers: Sequence[int]) -> None:
        """Remove rows by their numbers, which need not exist."""
        for block in blocks(numbers, _DELETED_ROWS):
            self.call("delete", collection, ids=block, seconds=_WRITE_SECONDS)

    def make(self, collection: str, fields: str, index: Row, *, scored: str | None = None) -> None:
        """Make a collection, index the field `vector` of it, and begin to load it. `fields` are names, types by the
        names that Milvus gives them and sizes, `row INT64, digest VARCHAR(64)`; the first one is the key. The server
        makes the field `vector` of the texts of `scored`, for BM25."""
        from pymilvus import DataType, Function, FunctionType, MilvusClient

        schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=False)
        for place, (name, kind, sizes) in enumerate(_FIELD.findall(fields)):
            options: dict[str, Any] = dict(zip(_SIZES.get(kind, ()), map(int, sizes.split()), strict=True))
            options |= {"element_type": DataType.VARCHAR} if kind == "ARRAY" else {}
            options |= _ANALYZED if name == scored else {}
            schema.add_field(name, DataType[kind], is_primary=place == 0, **options)
        if scored is not None:
            schema.add_function(Function("bm25", FunctionType.BM25, [scored], ["vector"]))
        indexes = MilvusClient.prepare_index_params()
        indexes.add_index("vector", **index)
        self.call("create_collection", collection, schema=schema, num_shards=1, consistency_level="Bounded")
        self.call("create_index", collection, indexes, sync=False, seconds=_WORK_SECONDS)
        self.call("load_collection", collection, seconds=_WORK_SECONDS, _async=True)

    def wait_for(self, collections: Iterable[str]) -> None:
        """Wait until collections are loaded: they load at the same time."""
        for name in collections:
            self.call("load_collection", name, seconds=_WORK_SECONDS)

    def has_graphs(self, collection: str, rows: int) -> bool:
        """Whether at least `rows` flushed rows are indexed, and the query nodes have loaded that index. Milvus Lite
        lists no segments: it indexes what it flushes."""
        try:
            flushed = self.call("list_persistent_segments", collection)
        except BackendUnavailable as error:
            if error.details["reason"] != "unknown":
                raise
            return not self.call("describe_index", collection, "vector").get("pending_index_rows")
        if sum(segment.num_rows for segment in flushed if str(segment.state) == _FLUSHED) < rows:
            return False
        if self.call("describe_index", collection, "vector")["pending_index_rows"]:
            return False
        loaded = {segment.segment_id for segment in self.call("list_loaded_segments", collection)}
        return {segment.segment_id for segment in flushed} <= loaded

    def _connected(self) -> MilvusClient:
        """The client of this process: a connection does not outlive a fork."""
        from pymilvus import MilvusClient

        with self._lock:
            if self._client is None or self._pid != os.getpid():
                logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # what it would log is raised, too
                made = MilvusClient(**self._options, dedicated=True, timeout=_SECONDS, grpc_options=_CHANNEL)
                self._client, self._pid = made, os.getpid()
            return self._client

    def _forget(self, client: Any) -> None:
        """The next call reconnects: a client whose server was away may wait for long before it tries again."""
        with self._lock:
            own = self._client
            if own is not None and own is client:
                self._client = None
                own.close()

    def _failure(self, error: Exception) -> BackendUnavailable:
        code, text = getattr(error, "code", 0), str(getattr(error, "message", "") or error)
        if callable(code):  # of gRPC itself, whose codes are not integers
            code = code()
        is_unknown = getattr(code, "name", "") == "UNIMPLEMENTED"
        secret = self._options["token"]
        first = re.split(r"[\r\n]", text.replace(secret, "***") if secret else text)[0][:300]
        reason = "lost" if not isinstance(code, int) or code <= _CONNECT_FAILED else "refused"
        fault = "does not answer" if reason == "lost" else "failed"
        reason = "unknown" if is_unknown else "absent" if code == _ABSENT else reason
        message = f"Milvus at {self.address} {fault}: {first}"
        return BackendUnavailable(message, backend="milvus", address=self.address, reason=reason)


def blocks(values: Sequence[T], most: int) -> Iterator[list[T]]:
    return (list(values[first : first + most]) for first in range(0, len(values), most))


def _parse(uri: str) -> tuple[dict[str, str], str, str]:
    """Options of a client, the address for messages, and the store, which the URI may name as `?store=NAME`."""
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port or _PORT
        query = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        store = query.pop("store", ["aidre"])[0]
        schemes = {"milvus": "http", "milvus+tls": "https"}
        if parts.scheme not in schemes or not host or query or "%" in host:
            raise ValueError
    except ValueError:
        raise ConfigurationError(
            "store.uri is not an address of Milvus: write it like milvus://user:password@host:19530/database"
        ) from None
    if re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,62}", store) is None:
        raise ConfigurationError("store.uri: store must be a name of 1 to 63 letters, digits and _, no digit first")
    shown = f"[{host}]" if ":" in host else host
    database = unquote(parts.path.strip("/"))
    token = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}" if parts.username else ""
    options = {"uri": f"{schemes[parts.scheme]}://{shown}:{port}", "token": token, "db_name": database}
    return options, f"{shown}:{port}/{database}".rstrip("/"), store
