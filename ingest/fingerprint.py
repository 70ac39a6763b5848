"""The fingerprint by which a document is known to be unchanged: sixteen bytes, the last four over its text alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from xxhash import xxh3_128_digest

from aidre.engine.errors import InvalidDocument
from aidre.engine.json_columns import Column, cut, fixed, joined, quoted, written
from aidre.engine.model import Document, EmbeddingSpace
from aidre.engine.schema import FINGERPRINT_BYTES, precision_of
from aidre.ingest.chunk import Chunker
from aidre.ingest.plain_rows import PlainRows

_TEXT_BYTES = 4


def settings_digest(spaces: Sequence[EmbeddingSpace], chunker: Chunker) -> bytes:
    """What beside the document decides what is stored for it: spaces with their revisions, and the chunking."""
    stated = sorted([space.id, space.revision or "", precision_of(space)] for space in spaces)
    return hashlib.blake2b(orjson.dumps([stated, chunker.settings]), digest_size=16).digest()


def fingerprint(document: Document, settings: bytes) -> bytes:
    """Raises InvalidDocument for a document that cannot be written as JSON."""
    payload = document.semantic_payload
    try:
        text = document.text.encode()
        rest = orjson.dumps(
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
        raise InvalidDocument("text has half of a surrogate pair, which is no character") from None
    except orjson.JSONEncodeError as error:
        raise InvalidDocument(f"cannot be written as JSON: {error}") from None
    parts = [settings, text, rest]
    if document.vectors:
        for name in sorted(document.vectors):
            parts += (name.encode(), xxh3_128_digest(np.ascontiguousarray(document.vectors[name]).data))
    return _digest(b"".join(parts)) + crc32(text).to_bytes(_TEXT_BYTES, "little")


def fingerprints(rows: PlainRows, settings: bytes) -> list[bytes]:
    """The `fingerprint` of each row."""
    texts = rows.texts.cast(pa.large_binary())
    strings = (rows.titles, rows.urls, rows.updated_at, rows.types, rows.sections)
    lengths = written(pc.binary_length(texts))
    members = [lengths, *map(quoted, strings), _binary(b"true"), rows.ordered, _binary(b"true,null")]
    rests = joined(members, b",", null=b"null")
    vectors = [part for name in sorted(rows.vectors) for part in (_binary(name.encode()), _digests(rows.vectors[name]))]
    parts = joined([_binary(settings), texts, _binary(b"["), rests, _binary(b"]"), *vectors])
    marks = np.empty((len(rows), FINGERPRINT_BYTES), np.uint8)
    digests = b"".join(map(_digest, parts.to_pylist()))
    marks[:, :-_TEXT_BYTES] = np.frombuffer(digests, np.uint8).reshape(len(rows), -1)
    sums = np.fromiter(map(crc32, texts.to_pylist()), "<u4", len(rows))
    marks[:, -_TEXT_BYTES:] = sums.view(np.uint8).reshape(len(rows), -1)
    return list(fixed(marks, FINGERPRINT_BYTES).to_pylist())


def _digest(parts: bytes) -> bytes:
    return hashlib.blake2b(parts, digest_size=FINGERPRINT_BYTES - _TEXT_BYTES).digest()


def _digests(matrix: NDArray[np.float32]) -> Column:
    """Of each row sixteen bytes that tell it from others."""
    matrix = np.ascontiguousarray(matrix)
    width, whole = matrix.itemsize * matrix.shape[1], matrix.reshape(-1).view(np.uint8).data
    rows = (whole[at : at + width] for at in range(0, len(whole), width))
    return cut(b"".join(map(xxh3_128_digest, rows)), 16)


def _binary(value: bytes) -> Any:
    return pa.scalar(value, pa.large_binary())


def same_text(one: bytes, other: bytes) -> bool:
    """Whether two fingerprints are of the same text, as far as four bytes tell."""
    return one[-_TEXT_BYTES:] == other[-_TEXT_BYTES:]
