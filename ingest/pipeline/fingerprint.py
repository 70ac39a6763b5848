"""Document fingerprints: sixteen bytes over the content of a document and the settings, without its id and source.

The first twelve are BLAKE2b over settings, text, properties, outline (headings, which become sections, and passages
that are not split) and vectors; the last four are CRC-32 of the text alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from xxhash import xxh3_128_digest

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document, EmbeddingSpace
from aidre.engine.storage import (
    FINGERPRINT_BYTES,
    Column,
    encode_scalars,
    encode_strings,
    fixed_binary,
    join_columns,
    precision_of,
    split_binary,
)
from aidre.ingest.chunking import Chunker
from aidre.ingest.records import RowBatch

_TEXT_BYTES = 4
"""Bytes at the end of a fingerprint that depend on the text alone."""

_VECTOR_DIGEST_BYTES = 16


def settings_digest(spaces: Sequence[EmbeddingSpace], chunker: Chunker) -> bytes:
    """Digest of the settings that stored chunks and vectors depend on: spaces with their revisions and precision, and
    the chunking."""
    revisions = sorted([space.id, space.revision or "", precision_of(space)] for space in spaces)
    return hashlib.blake2b(orjson.dumps([revisions, chunker.settings]), digest_size=16).digest()


def fingerprint(document: Document, settings: bytes) -> bytes:
    """Raises InvalidDocument for a document that cannot be written as JSON."""
    payload = document.semantic_payload
    try:
        text = document.text.encode()
        properties = orjson.dumps(
            (
                len(text),
                document.title,
                document.url,
                document.updated_at,
                document.type,
                document.section,
                document.canonical,
                document.metadata,
                True if payload is document.schema_object else [payload],
                document.schema_object,
            ),
            option=orjson.OPT_SORT_KEYS,
        )
    except UnicodeEncodeError:
        raise InvalidDocument("text has half of a surrogate pair, which is not a character") from None
    except orjson.JSONEncodeError as error:
        raise InvalidDocument(f"cannot be written as JSON: {error}") from None
    fields = [settings, text, properties]
    if document.headings or document.verbatim:
        outline = [[each.start, each.level, each.title] for each in document.headings], document.verbatim
        fields.append(orjson.dumps(outline))
    if document.vectors:
        for name in sorted(document.vectors):
            fields += (name.encode(), xxh3_128_digest(np.ascontiguousarray(document.vectors[name]).data))
    return _digest(b"".join(fields)) + crc32(text).to_bytes(_TEXT_BYTES, "little")


def fingerprints(documents: Iterable[Document], settings: bytes) -> list[bytes | InvalidDocument]:
    """The `fingerprint` of each document; in its place the error of one that has none."""
    found: list[bytes | InvalidDocument] = []
    for document in documents:
        try:
            found.append(fingerprint(document, settings))
        except InvalidDocument as error:
            found.append(error)
    return found


def columnar_fingerprints(rows: RowBatch, settings: bytes) -> list[bytes]:
    """The `fingerprint` of each row, computed by columns: the same bytes as for its document."""
    texts = rows.texts.cast(pa.large_binary())
    strings = (rows.titles, rows.urls, rows.updated_at, rows.types, rows.sections)
    lengths = encode_scalars(pc.binary_length(texts))
    members = [lengths, *map(encode_strings, strings), _binary(b"true"), rows.sorted_metadata, _binary(b"true,null")]
    properties = join_columns(members, b",", null=b"null")
    vectors = [
        column
        for name in sorted(rows.vectors)
        for column in (_binary(name.encode()), _vector_digests(rows.vectors[name]))
    ]
    fields = join_columns([_binary(settings), texts, _binary(b"["), properties, _binary(b"]"), *vectors])
    result = np.empty((len(rows), FINGERPRINT_BYTES), np.uint8)
    digests = b"".join(map(_digest, fields.to_pylist()))
    result[:, :-_TEXT_BYTES] = np.frombuffer(digests, np.uint8).reshape(len(rows), -1)
    checksums = np.fromiter(map(crc32, texts.to_pylist()), "<u4", len(rows))
    result[:, -_TEXT_BYTES:] = checksums.view(np.uint8).reshape(len(rows), -1)
    return list(fixed_binary(result, FINGERPRINT_BYTES).to_pylist())


def same_text(fingerprint: bytes, other: bytes) -> bool:
    """Whether two fingerprints are of the same text; wrong for one pair of texts in 2^32."""
    return fingerprint[-_TEXT_BYTES:] == other[-_TEXT_BYTES:]


def _digest(fields: bytes) -> bytes:
    return hashlib.blake2b(fields, digest_size=FINGERPRINT_BYTES - _TEXT_BYTES).digest()


def _vector_digests(matrix: NDArray[np.float32]) -> Column:
    """XXH3-128 of each row."""
    matrix = np.ascontiguousarray(matrix)
    row_bytes, content = matrix.itemsize * matrix.shape[1], matrix.reshape(-1).view(np.uint8).data
    rows = (content[start : start + row_bytes] for start in range(0, len(content), row_bytes))
    return split_binary(b"".join(map(xxh3_128_digest, rows)), _VECTOR_DIGEST_BYTES)


def _binary(value: bytes) -> Any:
    return pa.scalar(value, pa.large_binary())
