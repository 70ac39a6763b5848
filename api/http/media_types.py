"""Media types: the ones this server writes, Content-Type, and the quality values of Accept (RFC 9110, 12.5.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

AIDRE_JSON = "application/aidre+json"
JSON = "application/json"
PROBLEM_JSON = "application/problem+json"


@lru_cache(maxsize=128)
def parse_content_type(header: str) -> tuple[str, str]:
    """Media type and charset in lower case; either may be empty."""
    media_type, *parameters = header.lower().split(";")
    pairs = (parameter.strip().partition("=") for parameter in parameters)
    charset = next((value.strip('"') for name, _, value in pairs if name == "charset"), "")
    return media_type.strip(), charset


@lru_cache(maxsize=128)
def quality(accept: str, media_type: str) -> float:
    """The weight of a media type in an Accept field, 0 to 1, from the most specific range that matches it."""
    if not accept.strip():
        return 1.0
    weights = _weights(accept)
    kind = media_type.partition("/")[0]
    for media_range in (media_type, f"{kind}/*", "*/*"):
        if media_range in weights:
            return weights[media_range]
    return 0.0


def exact_quality(accept: str, media_type: str) -> float:
    """The weight of a media type that an Accept field lists by name; 0 if only a wildcard matches it."""
    return _weights(accept).get(media_type, 0.0)


@lru_cache(maxsize=32)
def _weights(accept: str) -> Mapping[str, float]:
    weights: dict[str, float] = {}
    for item in accept.lower().split(","):
        media_range, *parameters = item.split(";")
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.strip().partition("=")
            if name == "q":
                weight = float(value) if re.fullmatch(r"0(\.\d{0,3})?|1(\.0{0,3})?", value) else 0.0
        weights[media_range.strip()] = max(weight, weights.get(media_range.strip(), 0.0))
    return weights
