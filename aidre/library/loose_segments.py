"""Rows as loose segments: what executors of a cluster write, and a collection adopts in one commit."""

from __future__ import annotations

import hashlib
import io
import itertools
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

import orjson

from aidre.engine.errors import InvalidInput
from aidre.engine.model import Document, EmbeddingSpace
from aidre.library.arguments import to_names
from aidre.library.collection_writer import staged
from aidre.library.conversion import Rows, to_documents, to_matrices
from aidre.library.database import Database
from aidre.library.row_batches import is_table
from aidre.library.spaces import Configured, Spaces, to_endpoint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from aidre.engine.embedding import Endpoint

SEGMENT_ROWS: Final = 50_000
"""Rows of a segment: so many are in memory, and so many are written again after a failure."""
SEGMENT_CHARACTERS: Final = 32 << 20
"""Of the texts of a segment, where documents are long."""
_COLLECTION: Final = "part"


def write(
    rows: Rows,
    into: str | Path,
    *,
    partition: str | int = 0,
    vectors: Any = None,
    space: EmbeddingSpace | Sequence[EmbeddingSpace] | None = None,
    embed: Callable[[list[str]], Any] | None = None,
    endpoint: str | Endpoint | None = None,
    dates: Sequence[str] = (),
) -> list[str]:
    """Write rows as verified segments into a folder or a bucket, in any process, and return their names. Of rows that
    are there already nothing is computed again.

    `rows` are those of `Collection.add`, or an iterable of Arrow batches; `space`, `embed`, `endpoint` and `dates` are
    those of `Database.collection`. A name is made of `partition`, of the content of the rows, 50,000 a segment, and of
    what computes their vectors: a task that is done again writes nothing twice. `Collection.adopt` and `aidre adopt`
    commit them. Of two documents with one id that of the later partition is kept, and within a partition what was
    written last. The errors of `Collection.add`, BucketFailed.

    Parameters:
        rows: A text, a mapping, a `Document`, a table, or an iterable of them, or of Arrow batches.
        into: A folder that both sides reach, or a bucket such as "s3://bucket/prefix", whose credentials and endpoint
            (AWS_ENDPOINT_URL) are in the environment.
        partition: The part of all rows that these are, as the cluster counts them.
        vectors: Vectors of the rows, shape (rows, dimensions), or such matrices by space.
        space: The embedding spaces; None: the default one.
        embed: A function from texts to their vectors, shape (texts, dimensions).
        endpoint: An address, or an `Endpoint`, that embeds by OpenAI's API.
        dates: Metadata fields whose strings are dates.

    Examples:
        >>> names = aidre.segments.write([{"id": "tea", "text": "Green tea."}], files / "parts", partition=3)
        >>> docs.adopt(files / "parts") == names
        True
        >>> "tea" in docs, docs.adopt(files / "parts")
        (True, [])
    """
    from aidre.engine.collection import SegmentOrder, check_name, is_stored, put_segments
    from aidre.engine.maintenance import place_of

    place = place_of(into)
    named_dates = to_names(dates, "dates")
    names, run = [], time.time_ns()
    label = f"{partition:06d}" if isinstance(partition, int) else partition
    settings = [*_identities(space, embed, endpoint), *named_dates]
    for number, (piece, matrices) in enumerate(_pieces(rows, vectors, space)):
        name = check_name(f"{label}-{number:04d}-{_digest(piece, matrices, settings)}")
        order = SegmentOrder(label, run, number)
        if not is_stored(place, name, order):
            with (
                tempfile.TemporaryDirectory(prefix="aidre-segments-") as folder,
                Database(Path(folder), configured=Configured()) as store,
            ):
                made = store.collection(_COLLECTION, space=space, embed=embed, endpoint=endpoint, dates=dates)
                with staged(made.writer(), piece, matrices or None) as (sink, staging, entries):
                    put_segments(place, name, staging, entries, sink, order=order)
        names.append(name)
    return names


def _identities(
    space: EmbeddingSpace | Sequence[EmbeddingSpace] | None, embed: Any, endpoint: str | Endpoint | None
) -> list[str]:
    """What computes the vectors, as far as it is the same in every process: the spaces with their models, the address
    of an endpoint, and the name and the code of a function."""
    declared = [space] if isinstance(space, EmbeddingSpace) else None if space is None else list(space)
    resolved = Spaces(declared, embed, endpoint, {}, Configured()).for_writing(None)
    function = (
        [] if embed is None else [f"{embed.__module__}.{getattr(embed, '__qualname__', type(embed).__qualname__)}"]
    )
    address = [] if endpoint is None else [to_endpoint(endpoint).url]
    return [*map(repr, resolved), *function, *_code(getattr(embed, "__code__", None)), *address]


def _code(code: Any) -> list[str]:
    """The instructions, names and plain constants of a function and of those in it."""
    if not isinstance(code, CodeType):
        return []
    plain = [repr(constant) for constant in code.co_consts if isinstance(constant, str | bytes | int | float | None)]
    return [
        code.co_code.hex(),
        *code.co_names,
        *plain,
        *(text for constant in code.co_consts for text in _code(constant)),
    ]


# -- pieces ----------------------------------------------------------------------------------------------------


def _pieces(rows: Rows, vectors: Any, space: Any) -> Iterator[tuple[Rows, dict[str, NDArray[np.float32]]]]:
    """Rows and vectors in pieces of SEGMENT_ROWS: tables stay tables, all else are documents."""
    spaces = [space] if isinstance(space, EmbeddingSpace) else list(space or ())
    matrices = to_matrices(vectors, [identity.id for identity in spaces])
    first = 0
    for piece, size in _row_pieces(rows):
        own = {name: matrix[first : first + size] for name, matrix in matrices.items()}
        yield piece, own
        first += size
    for name, matrix in matrices.items():
        if len(matrix) != first:
            raise InvalidInput(f"space {name!r} has {len(matrix)} vectors for {first} documents: bring one each")


def _row_pieces(rows: Rows) -> Iterator[tuple[Rows, int]]:
    if is_table(rows):
        yield from _slices([rows])
        return
    if isinstance(rows, Iterable) and not isinstance(rows, str | Mapping):
        iterator = iter(rows)
        head = list(itertools.islice(iterator, 1))
        rest = itertools.chain(head, iterator)
        if head and (is_table(head[0]) or hasattr(head[0], "__arrow_c_array__")):
            yield from _slices(rest)
            return
        rows = rest
    piece: list[Document] = []
    characters = 0
    for document in to_documents(rows, {}):
        piece.append(document)
        characters += len(document.text)
        if len(piece) >= SEGMENT_ROWS or characters >= SEGMENT_CHARACTERS:
            yield piece, len(piece)
            piece, characters = [], 0
    if piece:
        yield piece, len(piece)


def _slices(tables: Iterable[Any]) -> Iterator[tuple[Rows, int]]:
    """Tables and batches, joined and cut into tables of SEGMENT_ROWS."""
    import pyarrow as pa

    waiting: list[pa.Table] = []
    held = 0
    for chunk_table in tables:
        table = (
            pa.table(chunk_table) if is_table(chunk_table) else pa.Table.from_batches([pa.record_batch(chunk_table)])
        )
        waiting.append(table)
        held += table.num_rows
        while held >= SEGMENT_ROWS:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, SEGMENT_ROWS), SEGMENT_ROWS
            waiting, held = [joined.slice(SEGMENT_ROWS)], held - SEGMENT_ROWS
    if held:
        yield pa.concat_tables(waiting), held


def _digest(piece: Rows, matrices: Mapping[str, NDArray[np.float32]], settings: Sequence[str]) -> str:
    """A name of what a segment is made of."""
    digest = hashlib.blake2b(orjson.dumps(settings), digest_size=12)
    if is_table(piece):
        import pyarrow as pa

        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, piece.schema) as writer:
            writer.write_table(piece.combine_chunks())
        digest.update(sink.getbuffer())
    else:
        for document in piece:
            digest.update(orjson.dumps(document, default=repr, option=orjson.OPT_SERIALIZE_NUMPY))
    for name in sorted(matrices):
        digest.update(name.encode())
        digest.update(matrices[name].tobytes())
    return digest.hexdigest()
