"""JSON with its own checksum: `{"checksum": xxh3-128 of the body's bytes, "body": ...}`, in one form and no other.

A byte that differs is found wherever it stands: what is read has to be what would be written.
"""

from __future__ import annotations

import xxhash

_BEGINS = b'"body":'


def seal(body: bytes) -> bytes:
    """The text for a body that is JSON."""
    return b'{"checksum":"%s","body":%s}\n' % (xxhash.xxh3_128_hexdigest(body).encode(), body)


def unseal(content: bytes) -> bytes:
    """The body; ValueError where the text is not as it was written."""
    body = content[content.index(_BEGINS) + len(_BEGINS) : -2]
    if seal(body) != content:
        raise ValueError("it is not as it was written")
    return body
