"""The fingerprint by which a document is known to be unchanged: sixteen bytes, the last four over its text alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat
from zlib import crc32

import numpy as np
import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document, EmbeddingSpace
from aidre.engine.schema import precision_of
from aidre.ingest.chunk import Chunker
from aidre.ingest.found import PlainRows

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
    parts: list[bytes | memoryview] = [settings, text, rest]
    if document.vectors:
        for name in sorted(document.vectors):
            parts += (name.encode(), document.vectors[name].data)
    digest = hashlib.blake2b(b"".join(parts), digest_size=16 - _TEXT_BYTES).digest()
    return digest + crc32(text).to_bytes(_TEXT_BYTES, "little")


def fingerprints(rows: PlainRows, settings: bytes) -> list[bytes] | None:
    """The `fingerprint` of each row; None where one of them has none."""
    try:
        texts = [text.encode() for text in rows.texts]
        members = zip(
            map(len, texts), rows.titles, rows.urls, rows.updated_at, rows.types, rows.sections,
            repeat(True), rows.metadata, repeat(True), repeat(None),
        )  # fmt: skip
        rests = list(map(partial(orjson.dumps, option=orjson.OPT_SORT_KEYS), members))
    except (UnicodeEncodeError, orjson.JSONEncodeError):
        return None
    vectors: list[Iterable[bytes | memoryview]] = []
    for name in sorted(rows.vectors):
        matrix = np.ascontiguousarray(rows.vectors[name])
        width, whole = matrix.itemsize * matrix.shape[1], matrix.reshape(-1).view(np.uint8).data
        vectors += repeat(name.encode()), [whole[at : at + width] for at in range(0, len(whole), width)]
    joined = map(b"".join, zip(repeat(settings), texts, rests, *vectors))
    digests = (hashlib.blake2b(parts, digest_size=16 - _TEXT_BYTES).digest() for parts in joined)
    return [digest + crc32(text).to_bytes(_TEXT_BYTES, "little") for digest, text in zip(digests, texts, strict=True)]


def same_text(one: bytes, other: bytes) -> bool:
    """Whether two fingerprints are of the same text, as far as four bytes tell."""
    return one[-_TEXT_BYTES:] == other[-_TEXT_BYTES:]
