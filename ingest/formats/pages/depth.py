"""How deep the elements of a page are inside each other, before a parser reads it."""

from __future__ import annotations

import re

from aidre.engine.errors import InvalidDocument

MAX_DEPTH = 5000
"""Nested elements: the parser's time grows with the square of the depth; browsers stop at 512."""

_FEW_TAGS = 256
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
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
    for match in _TAG.finditer(markup) if markup.count("<") > _FEW_TAGS else ():
        if match[2].lower() not in _UNCLOSED:
            depth = max(0, depth - 1) if match[1] else depth + 1
            deepest = max(deepest, depth)
    if deepest > MAX_DEPTH:
        raise InvalidDocument(f"more than {MAX_DEPTH} elements are open inside each other: not a page")
    return deepest
