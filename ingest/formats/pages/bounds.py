"""Bounds what costs HTML's parser more than linear time, before it reads a page.

It compares each attribute of an element with those before it, and goes through all options of a list at each of them:
the time grows with the square of their number, 20,000 take seconds and 100,000 minutes. Both scans are linear; that of
attributes is a tokenizer's, which reads each character once.
"""

from __future__ import annotations

import re
from itertools import islice

MAX_ATTRIBUTES = 1_000
"""Attributes of one tag; pages have dozens."""

MAX_OPTIONS = 1_000
"""Tags of options of a page that the parser knows as such; the text of others is kept."""

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


_OPTION = re.compile(r"<(/?)opt(?=(?:ion|group)[ \t\n\f\r/>])", re.IGNORECASE)


def bound_markup(markup: str) -> str:
    """The markup with its tags and lists of options bounded."""
    return _rename_options(cut_attributes(markup))


def _rename_options(markup: str) -> str:
    options = _OPTION.finditer(markup)
    last = next(islice(options, MAX_OPTIONS, None), None)
    if last is None:
        return markup
    return markup[: last.start()] + _OPTION.sub(r"<\1x-opt", markup[last.start() :])


def cut_attributes(markup: str) -> str:
    """The markup, of whose tags none has more than `MAX_ATTRIBUTES`."""
    parts: list[str] = []
    end = 0
    for tag in _TAG.finditer(markup):
        if tag.end() - tag.start() > 2 * MAX_ATTRIBUTES and (kept := _KEPT.match(markup, tag.start(), tag.end())):
            parts.append(markup[end : kept.end()])
            end = tag.end()
    return "".join(parts) + markup[end:] if parts else markup
