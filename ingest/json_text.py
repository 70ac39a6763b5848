"""JSON of strangers as values, within bounds: two bytes of it can be two hundred of memory."""

from __future__ import annotations

import orjson

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json

MOST_OF_ROW = 1_000_000
MOST_OF_FILE = 4_000_000
"""Commas and brackets, of which a value has one at least; more in words than anyone writes."""

_UNCOUNTED = 1 << 20
"""Bytes of a text that is not worth a look."""

_COUNTED = (b",", b"[", b"{")


def read_json(text: bytes, most: int = MOST_OF_ROW, cure: str = "split it") -> Json:
    """The value of a text; raises InvalidDocument, with `details["large"]` where it may well be JSON."""
    if len(text) > _UNCOUNTED and sum(map(text.count, _COUNTED)) > most:
        raise InvalidDocument(f"has more than {most:,} values (commas and brackets): {cure}", large=True)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidDocument(f"malformed JSON: {error}") from None
