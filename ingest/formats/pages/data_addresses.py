"""`data:` addresses: pictures and fonts that are written into a text, and no words of it.

They are found by their form, so that the time is linear; a text about them, with a short one, stays as it is.
"""

from __future__ import annotations

import re

_ADDRESS = re.compile(
    r"data:[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}(?:;[a-z0-9_.+-]{1,40}(?:=[\w.+-]{1,60})?){0,5},[^\s<>\"')\]]{64,}",
    re.IGNORECASE,
)
_WRAPPED = re.compile(r"(?<=\u2026)(?:\r?\n[ \t]*[A-Za-z0-9+/=]{40,})+")
"""The further lines of an address that is broken into lines."""

_PICTURE = re.compile(
    r"!\[([^\[\]]{0,500})\]\([ \t]*<?data:[^\s<>()]{0,200}\u2026>?(?:[ \t]+\"[^\"\n]{0,500}\")?[ \t]*\)"
)
_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]{1,200}\]:[ \t]*<?data:[^\s<>]{0,200}\u2026>?.*$\n?", re.MULTILINE)


def strip_data_addresses(text: str) -> str:
    """The text with an ellipsis in place of the data of each address; a picture of Markdown becomes its description."""
    if "data:" not in text and "DATA:" not in text:
        return text
    shortened = _ADDRESS.sub(lambda match: f"{match[0].partition(',')[0]},\u2026", text)
    if shortened == text:
        return text
    return _DEFINITION.sub("", _PICTURE.sub(r"\1", _WRAPPED.sub("", shortened)))
