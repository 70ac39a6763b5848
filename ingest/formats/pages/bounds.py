"""Bounds what costs HTML's parser more than linear time, before it reads a page.

It compares each attribute of an element with those before it, and goes through all options of a list at each of them:
the time grows with the square of their number, 20,000 take seconds and 100,000 minutes. Both scans are linear; that
of attributes is a tokenizer's, which reads each character once. How deep the elements of a page are inside each
other, before a parser reads it.
"""

from __future__ import annotations

import re
from itertools import islice

from aidre.engine.errors import InvalidDocument

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


MAX_DEPTH = 5000
"""Nested elements: the parser's time grows with the square of the depth; browsers stop at 512."""

_FEW_TAGS = 256
_ANY_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_UNCLOSED = frozenset(
    {
        "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr", "p",
        "li", "dt", "dd", "tr", "td", "th", "option", "thead", "tbody", "tfoot", "html", "head", "body",
    }
)  # fmt: skip
"""Elements without an end tag, or with an optional one."""


def check_depth(markup: str) -> int:
    """The maximum number of open elements, by the tags alone; 0 for a page with few tags. Raises InvalidDocument."""
    depth = deepest = 0
    for match in _ANY_TAG.finditer(markup) if markup.count("<") > _FEW_TAGS else ():
        if match[2].lower() not in _UNCLOSED:
            depth = max(0, depth - 1) if match[1] else depth + 1
            deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise InvalidDocument(f"more than {MAX_DEPTH} elements are open inside each other: not a page")
    return deepest
