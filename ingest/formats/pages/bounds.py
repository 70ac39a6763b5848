"""Bounds what costs HTML's parser more than linear time, before it reads a page.

It compares each attribute of an element with those before it, goes through all options of a list at each of them, and
has all names of elements and attributes in a table of one size: the time grows with the square of their number, 20,000
take seconds and 100,000 minutes. The scans are linear; that of tags is a tokenizer's, which reads each character once.
How deep the elements of a page are inside each other is found before a parser reads it.
"""

from __future__ import annotations

import re
from itertools import islice

from aidre.engine.errors import InvalidDocument

MAX_ATTRIBUTES = 1_000
"""Attributes of one tag; pages have dozens."""

MAX_OPTIONS = 1_000
"""Tags of options of a page that the parser knows as such; the text of others is kept."""

MAX_NAMES = 5_000
"""Different names of elements of a page, and of attributes; pages have a hundred. Elements of others lose their names,
which no part of a text depends on."""

_BLANK = r"[ \t\n\f\r/]"
_WORD = r"[^ \t\n\f\r/>][^ \t\n\f\r/>=]*+"
_VALUE = r"""(?:[ \t\n\f\r]*+=[ \t\n\f\r]*+(?:"[^"]*+"?|'[^']*+'?|[^ \t\n\f\r>"'][^ \t\n\f\r>]*+|(?=>)))?+"""
_ATTRIBUTE = rf"{_BLANK}*+{_WORD}{_VALUE}"
_NAMED = re.compile(rf"{_BLANK}*+({_WORD}){_VALUE}")
_NAME = r"</?[a-zA-Z][^ \t\n\f\r/>]*+"
_TAG = re.compile(rf"{_NAME}(?:{_ATTRIBUTE})*+{_BLANK}*+")
"""A tag without its end; the alternatives of a value are those of HTML's tokenizer, also for a quote that is not
closed."""
_FIRST = re.compile(r"(</?)([a-zA-Z][^ \t\n\f\r/>]*+)")
_KEPT = re.compile(rf"{_NAME}(?:{_ATTRIBUTE}){{{MAX_ATTRIBUTES}}}+")
_UNNAMED = "x-other"
_OPTION = re.compile(r"<(/?)opt(?=(?:ion|group)[ \t\n\f\r/>])", re.IGNORECASE)


def bound_markup(markup: str) -> str:
    """The markup with its tags, names and lists of options bounded."""
    return _rename_options(_bound_names(cut_attributes(markup)))


def _bound_names(markup: str) -> str:
    if markup.count("<") <= MAX_NAMES or len(set(_TAG.findall(markup))) <= MAX_NAMES:
        return markup
    elements, attributes = set[str](), set[str]()

    def is_known(names: set[str], name: str) -> bool:
        if len(names) < MAX_NAMES:
            names.add(name.lower())
        return name.lower() in names

    def bounded(tag: re.Match[str]) -> str:
        first = _FIRST.match(tag[0])
        assert first is not None
        opening, name = first.groups()
        parts, end = [opening, name if is_known(elements, name) else _UNNAMED], first.end()
        for attribute in _NAMED.finditer(tag[0], end):
            parts += [attribute[0]] if is_known(attributes, attribute[1]) else []
            end = attribute.end()
        return "".join([*parts, tag[0][end:]])

    return _TAG.sub(bounded, markup)


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
