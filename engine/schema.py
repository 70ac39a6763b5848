"""The on-disk format in one place: names of files, Arrow schemas, the format version.

Layout of a collection: see ARCHITECTURE.md, "What is on disk?".
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
CURRENT = "CURRENT"
LOCK = "LOCK"
MANIFESTS = "manifests"
SEGMENTS = "segments"
CHANGES = "changes"
DELETES = "deletes"
FILLING = "filling"

DOCUMENTS_FILE = "documents.arrow"
CHUNKS_FILE = "chunks.arrow"
IDS_FILE = "ids.arrow"
FIELDS_FILE = "fields.arrow"
LEXICON_FILE = "lexicon.arrow"

BATCH_ROWS = 1 << 16
"""Rows of every batch but the last in documents and chunks: row -> (row >> 16, row & 0xFFFF)."""

ARROW_VALUES = (1 << 31) - 1
SEGMENT_ROWS = 1 << 21
KEY_BYTES = 16
ETAG_BYTES = 8
FINGERPRINT_BYTES = 16
NO_KEY = bytes(KEY_BYTES)
HALF_FROM_DIMENSIONS = 64
"""Below this a cosine space is stored in float32: in few dimensions float16 cannot tell neighbours apart."""

_COLLECTION_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_LONGEST_NAME = 120

# Large types throughout: with 32-bit offsets a batch breaks at 2 GiB of text.
DOCUMENTS = pa.schema(
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
CHUNKS = pa.schema(
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
    ]
)
CHANGES_SCHEMA = pa.schema([("op", pa.string()), ("chunk_id", pa.large_string()), ("content_hash", pa.binary(32))])
DELETES_SCHEMA = pa.schema([("segment", pa.string()), ("documents", pa.large_binary())])
IDS = pa.schema(
    [
        ("chunk_hashes", pa.large_list(pa.uint64())),
        ("chunk_rows", pa.large_list(pa.uint32())),
        ("chunk_ranks", pa.large_list(pa.uint32())),
        ("document_hashes", pa.large_list(pa.uint64())),
        ("document_rows", pa.large_list(pa.uint32())),
    ]
)
KEYS = pa.schema([("hashes", pa.large_list(pa.uint64())), ("rows", pa.large_list(pa.uint32()))])
INDEX = pa.schema([("faiss", pa.large_binary())])


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
    """How the vectors of a space are stored: as declared, else float16 for cosine, float32 for the others.

    float16 loses norms (dot) and small differences (euclidean, few dimensions); unit rows in many
    dimensions keep their order in it at half the bytes.
    """
    if space.precision is not None:
        return space.precision
    return "float16" if space.distance == "cosine" and space.dimensions >= HALF_FROM_DIMENSIONS else "float32"


def segment_rows(dimensions: int) -> int:
    """The most rows a segment may hold: an Arrow list column ends at 2^31 - 1 values in one batch."""
    return min(SEGMENT_ROWS, ARROW_VALUES // max(1, dimensions))


def space_file_name(space_id: str, kind: str) -> str:
    """`<space>.<kind>.arrow`, the free-text id percent-encoded; a long one is cut and marked with its hash."""
    name = quote(space_id, safe="")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}-{hashlib.sha256(space_id.encode()).hexdigest()[:16]}"
    return f"{name}.{kind}.arrow"


def vectors_file(space_id: str) -> str:
    return space_file_name(space_id, "vectors")


def index_file(space_id: str, generation: int | None = None) -> str:
    """The name of the first index that a segment has, and of a later one that of the generation which brings it."""
    return space_file_name(space_id, "index" if generation is None else f"index.{generation:06d}")


def index_among(files: Iterable[str], space_id: str) -> str | None:
    """The name of the index of a space among the files of a segment, None where it has none."""
    plain = index_file(space_id)
    stem, ending = plain.removesuffix("arrow"), ".arrow"

    def is_own(name: str) -> bool:
        generation = name.removeprefix(stem).removesuffix(ending)
        return name == plain or (name == stem + generation + ending and generation.isascii() and generation.isdigit())

    return next(filter(is_own, files), None)


def keys_file(space_id: str) -> str:
    return space_file_name(space_id, "keys")


def space_files(files: Iterable[str], space_id: str) -> set[str]:
    """Those of the files of a segment that it has for a space."""
    names = set(files)
    return names & {vectors_file(space_id), keys_file(space_id), index_among(names, space_id)}


def is_collection_name(name: str) -> bool:
    return _COLLECTION_NAME.fullmatch(name) is not None


def check_collection_name(name: str) -> str:
    if not is_collection_name(name):
        raise InvalidInput(
            f"collection name {name!r} is not valid: use 1 to 64 of a-z 0-9 . _ - beginning with a letter or digit",
            collection=name,
        )
    return name


def manifest_name(generation: int) -> str:
    return f"{generation:06d}.json"
