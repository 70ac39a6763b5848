"""Elements of an HTML page that no reader ever sees, as opposed to those that a click shows: tabs, accordions, answers.

An element is hidden by its own attributes: `hidden`, or `display: none` or `visibility: hidden` in its style. Built
pages keep all tabs but the first one hidden, so what a control may show is text of the page: the element is a tab's
panel by role or by its class, stands in or behind an element that opens it, or is named by a control.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

_CANDIDATES = "[hidden],[style]"
_INVISIBLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
_MAIN = "main,[role=main]"
_PAGE = frozenset({"html", "body", "main"})
"""A page that hides all of itself is shown by its script."""

_OPENED = re.compile(
    r"(?<![a-z])(?:accordions?|collaps(?:e|ed|ible|able)|expand(?:ed|er|able)|toggl(?:e|er|ed|eable)|"
    r"tabs?(?:bed|[_-]?(?:panes?|panels?|contents?|items?|body|blocks?))?|spoiler|disclosure|faq|answers?|"
    r"carousel|slid(?:es?|er|eshow)|(?:read|show|see)[_-]?more)(?![a-z])",
    re.IGNORECASE,
)
"""Class names of what a click opens, or a row of pictures shows in turn, as libraries of components write them."""

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""Where a word begins in a name like tabItem."""

_NAMING = ("aria-controls", "data-target", "data-bs-target", "onclick", "href")
_CONTROLS = "[aria-controls],[data-target],[data-bs-target],[onclick],a[href^='#']"
_NAME = re.compile(r"[\w:.-]+")
_LEVELS = 4
"""Ancestors of an element that are inspected: a panel may be in wrappers inside its accordion."""


def find_hidden(tree: LexborHTMLParser) -> frozenset[int]:
    """The hidden elements by `mem_id`, without those that a click shows."""
    candidates = [node for node in tree.css(_CANDIDATES) if _is_hidden(node)]
    if not candidates:
        return frozenset()
    page = frozenset(_page_elements(tree))
    named = frozenset(_named_by_controls(tree))
    return frozenset(node.mem_id for node in candidates if node.mem_id not in page and not _is_opened(node, named))


def _is_hidden(node: LexborNode) -> bool:
    attributes = node.attributes
    if "hidden" in attributes and (attributes["hidden"] or "").strip().lower() != "until-found":
        return True
    return _INVISIBLE.search(attributes.get("style") or "") is not None


def _page_elements(tree: LexborHTMLParser) -> Iterator[int]:
    """The main element, and those around it."""
    node = tree.css_first(_MAIN) or tree.body
    while node is not None:
        yield node.mem_id
        node = node.parent


def _named_by_controls(tree: LexborHTMLParser) -> Iterator[str]:
    """What links, buttons and scripts of a click say is shown: ids of elements among other words."""
    for control in tree.css(_CONTROLS):
        for attribute in _NAMING:
            value = control.attributes.get(attribute) or ""
            if attribute != "href" or value.startswith("#"):
                yield from _NAME.findall(value)


def _is_opened(node: LexborNode, named: frozenset[str]) -> bool:
    attributes = node.attributes
    is_panel = attributes.get("role") == "tabpanel" or (attributes.get("id") or "") in named
    return is_panel or _has_class(node) or _follows_control(node)


def _has_class(node: LexborNode) -> bool:
    """Whether the element or one above it has the class, or the tag, of what a click opens."""
    one: LexborNode | None = node
    for _ in range(_LEVELS):
        if one is None or one.tag in _PAGE:
            return False
        names = f"{one.tag} {one.attributes.get('class') or ''}"  # the tag of a component, too, such as amp-accordion
        if _OPENED.search(_WORD_START.sub("-", names)):
            return True
        one = one.parent
    return False


def _follows_control(node: LexborNode) -> bool:
    """Whether the element before it opens something, as the question before an answer."""
    before = node.prev
    while before is not None and (before.tag or "").startswith("-"):
        before = before.prev
    if before is None:
        return False
    attributes = before.attributes
    is_control = before.tag in ("button", "summary") or attributes.get("role") in ("button", "tab")
    return is_control or "aria-expanded" in attributes or before.css_first("button,[aria-expanded]") is not None
