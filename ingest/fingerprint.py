"""The fingerprint by which a document is known to be unchanged: sixteen bytes, the last four over its text alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from zlib import crc32

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document, EmbeddingSpace
from aidre.engine.schema import precision_of
from aidre.ingest.chunk import Chunker

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


def same_text(one: bytes, other: bytes) -> bool:
    """Whether two fingerprints are of the same text, as far as four bytes tell."""
    return one[-_TEXT_BYTES:] == other[-_TEXT_BYTES:]
