"""The on-disk format: file names, Arrow schemas, sizes and the format version.

ARCHITECTURE.md ("Files") shows the layout of a collection.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from urllib.parse import quote

import pyarrow as pa

from aidre.engine.errors import InvalidInput
from aidre.engine.model import EmbeddingSpace, Precision

FORMAT = 2
"""Version of the format, in every manifest; a store of a later one is refused with FormatTooNew."""

# Files and folders of a collection.
CURRENT = "CURRENT"
LOCK = "LOCK"
MANIFESTS = "manifests"
SEGMENTS = "segments"
CHANGES = "changes"
DELETES = "deletes"
PINS = "pins"
REPLICA = ".replica.json"
"""In a store that is the cache of a replica: the bucket that it is pulled from."""
HOME = ".home.json"
"""In a store that has taken over a bucket: its term there, by the address of the bucket."""
BACKFILLS = "filling"

# Files of a segment, beside those of each space (see `space_file_name`).
DOCUMENTS_FILE = "documents.arrow"
CHUNKS_FILE = "chunks.arrow"
IDS_FILE = "ids.arrow"
FIELDS_FILE = "fields.arrow"
LEXICON_FILE = "lexicon.arrow"
WORDS_FILE = "words.arrow"
"""Optional: segments of older releases lack it, and older releases pay it no attention."""

BATCH_ROWS = 1 << 16
"""Rows of every batch but the last in documents and chunks: row -> batch (row >> 16), index (row & 0xFFFF)."""

MAX_ARROW_VALUES = (1 << 31) - 1
"""The most values of an Arrow list column in one batch."""
MAX_SEGMENT_ROWS = 1 << 21
"""The most rows of a segment, and the distance between the row ids of two segments in one scan (see VectorIndex)."""
KEY_BYTES = 16
"""Length of an embedding key."""
ETAG_BYTES = 8
FINGERPRINT_BYTES = 16
SIGNATURE_BYTES = 32
"""Length of the signature of a chunk's shingles."""
NO_KEY = bytes(KEY_BYTES)
"""The embedding key of a vector that came with its row, and of a deleted row in a backfill."""
MIN_FLOAT16_DIMENSIONS = 64
"""Below it a cosine space is stored in float32: in few dimensions float16 cannot tell neighbours apart."""

_COLLECTION_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_MAX_SPACE_NAME_CHARACTERS = 120
"""A file name has 255 bytes at most, with hash, kind and generation in it."""

# Large types throughout: 32-bit offsets would limit a batch to 2 GiB of text.
DOCUMENTS_SCHEMA = pa.schema(
    [
        ("id", pa.large_string()),
        ("url", pa.large_string()),
        ("title", pa.large_string()),
        ("type", pa.large_string()),
        ("updated_at", pa.large_string()),
        ("canonical", pa.bool_()),
        ("metadata", pa.large_binary()),
        ("schema_object", pa.large_binary()),
        ("payload", pa.large_binary()),
        ("source", pa.large_string()),
        ("origin", pa.large_string()),
        ("state", pa.large_binary()),
        ("fingerprint", pa.binary(FINGERPRINT_BYTES)),
        ("first_chunk", pa.int64()),
        ("chunks", pa.int32()),
    ]
)
CHUNKS_SCHEMA = pa.schema(
    [
        ("id", pa.large_string()),
        ("document_row", pa.int64()),
        ("text", pa.large_string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("section", pa.large_string()),
        ("token_count", pa.int32()),
        ("content_hash", pa.binary(32)),
        ("json_source", pa.large_binary()),
        ("json_metadata", pa.large_binary()),
        ("etag", pa.binary(ETAG_BYTES)),
        ("signature", pa.binary(SIGNATURE_BYTES)),  # segments of older releases lack it, and they pay it no attention
    ]
)
CHANGES_SCHEMA = pa.schema([("op", pa.string()), ("chunk_id", pa.large_string()), ("content_hash", pa.binary(32))])
DELETES_SCHEMA = pa.schema([("segment", pa.string()), ("documents", pa.large_binary())])
IDS_SCHEMA = pa.schema(
    [
        ("chunk_hashes", pa.large_list(pa.uint64())),
        ("chunk_rows", pa.large_list(pa.uint32())),
        ("chunk_ranks", pa.large_list(pa.uint32())),
        ("document_hashes", pa.large_list(pa.uint64())),
        ("document_rows", pa.large_list(pa.uint32())),
    ]
)
KEYS_SCHEMA = pa.schema([("hashes", pa.large_list(pa.uint64())), ("rows", pa.large_list(pa.uint32()))])
INDEX_SCHEMA = pa.schema([("faiss", pa.large_binary())])


def vectors_schema(space: EmbeddingSpace) -> pa.Schema:
    value = pa.float16() if precision_of(space) == "float16" else pa.float32()
    return pa.schema(
        [
            ("vector", pa.list_(pa.field("item", value, nullable=False), space.dimensions)),
            ("norm", pa.float32()),
            ("key", pa.binary(KEY_BYTES)),
        ]
    )


def precision_of(space: EmbeddingSpace) -> Precision:
    """The stored precision of a space: as declared, else float16 for cosine and float32 for dot and euclidean.

    float16 loses norms (dot) and small differences (euclidean, few dimensions); unit vectors of many dimensions keep
    their order in it at half the bytes.
    """
    if space.precision is not None:
        return space.precision
    return "float16" if space.distance == "cosine" and space.dimensions >= MIN_FLOAT16_DIMENSIONS else "float32"


def max_segment_rows(dimensions: int) -> int:
    """The most rows of a segment: its vectors have to fit one batch of an Arrow list column."""
    return min(MAX_SEGMENT_ROWS, MAX_ARROW_VALUES // max(1, dimensions))


# -- files of a space --------------------------------------------------------------------------------------------


def space_file_name(space_id: str, kind: str) -> str:
    """`<space>.<kind>.arrow`, with the free-text id percent-encoded; a long one is cut and ends with its hash."""
    name = quote(space_id, safe="")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > _MAX_SPACE_NAME_CHARACTERS:
        name = f"{name[:_MAX_SPACE_NAME_CHARACTERS]}-{hashlib.sha256(space_id.encode()).hexdigest()[:16]}"
    return f"{name}.{kind}.arrow"


def vectors_file(space_id: str) -> str:
    return space_file_name(space_id, "vectors")


def keys_file(space_id: str) -> str:
    return space_file_name(space_id, "keys")


def index_file(space_id: str, generation: int | None = None) -> str:
    """The file name of a segment's first index, or of a later one, which is named after its generation."""
    return space_file_name(space_id, "index" if generation is None else f"index.{generation:06d}")


def find_index_file(files: Iterable[str], space_id: str) -> str | None:
    """The index file of a space among the files of a segment, None where there is none."""
    first = index_file(space_id)
    stem, ending = first.removesuffix("arrow"), ".arrow"

    def is_index(name: str) -> bool:
        generation = name.removeprefix(stem).removesuffix(ending)
        return name == first or (name == stem + generation + ending and generation.isascii() and generation.isdigit())

    return next(filter(is_index, files), None)


def space_files(files: Iterable[str], space_id: str) -> set[str]:
    """The files of a space among the files of a segment: vectors, keys and index."""
    names = set(files)
    return names & {vectors_file(space_id), keys_file(space_id), find_index_file(names, space_id)}


# -- names -------------------------------------------------------------------------------------------------------


def is_collection_name(name: str) -> bool:
    return isinstance(name, str) and _COLLECTION_NAME.fullmatch(name) is not None


def check_collection_name(name: str) -> str:
    """The name itself; InvalidInput where it is not one."""
    if not is_collection_name(name):
        raise InvalidInput(
            f"collection name {name!r} is not valid: use 1 to 64 of a-z 0-9 . _ - beginning with a letter or digit",
            collection=str(name),
        )
    return name


def manifest_name(generation: int) -> str:
    return f"{generation:06d}.json"
