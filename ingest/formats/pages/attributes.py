"""Cuts the attributes of a tag that has absurdly many, before a parser reads them.

The parser compares each attribute of an element with those before it, so its time grows with the square of their
number: 20,000 take seconds, 100,000 minutes. The scan is that of a tokenizer, and linear: each character is read once.
"""

from __future__ import annotations

import re

MAX_ATTRIBUTES = 1_000
"""Attributes of one tag; pages have dozens."""

_BLANK = r"[ \t\n\f\r/]"
_ATTRIBUTE = (
    rf"{_BLANK}*+[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+"
    r"""(?:[ \t\n\f\r]*+=[ \t\n\f\r]*+(?:"[^"]*+"?|'[^']*+'?|[^ \t\n\f\r>"'][^ \t\n\f\r>]*+|(?=>)))?+"""
)
_NAME = r"<[a-zA-Z][^ \t\n\f\r/>]*+"
_TAG = re.compile(rf"{_NAME}(?:{_ATTRIBUTE})*+{_BLANK}*+")
"""A start tag without its end; the alternatives of a value are those of HTML's tokenizer, also for a quote that is not
closed."""
_KEPT = re.compile(rf"{_NAME}(?:{_ATTRIBUTE}){{{MAX_ATTRIBUTES}}}+")


def cut_attributes(markup: str) -> str:
    """The markup, of whose tags none has more than `MAX_ATTRIBUTES`."""
    parts: list[str] = []
    end = 0
    for tag in _TAG.finditer(markup):
        if tag.end() - tag.start() > 2 * MAX_ATTRIBUTES and (kept := _KEPT.match(markup, tag.start(), tag.end())):
            parts.append(markup[end : kept.end()])
            end = tag.end()
    return "".join(parts) + markup[end:] if parts else markup
