"""The filter of an option `--filter`, as JSON."""

from __future__ import annotations

import orjson

from aidre.engine.errors import InvalidFilter
from aidre.engine.index.fields import Filter, parse_filter


def read_filter(text: str) -> Filter:
    """InvalidFilter."""
    try:
        return parse_filter(orjson.loads(text))  # the parser of the server
    except orjson.JSONDecodeError as error:
        raise InvalidFilter(f"--filter is not JSON: {error}") from None
