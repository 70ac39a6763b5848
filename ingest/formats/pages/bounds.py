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
"""Different names of elements of a page, and of attributes, beside those that are known; pages have a hundred. Elements
of others lose their names, which no part of a text depends on."""

_ELEMENTS = frozenset(
    {
        "a", "abbr", "acronym", "address", "annotation", "annotation-xml", "applet", "area", "article", "aside",
        "audio", "b", "base", "basefont", "bdi", "bdo", "big", "blockquote", "body", "br", "button", "canvas",
        "caption", "center", "cite", "code", "col", "colgroup", "data", "datalist", "dd", "del", "desc", "details",
        "dfn", "dialog", "dir", "div", "dl", "dt", "em", "embed", "fieldset", "figcaption", "figure", "font",
        "footer", "foreignobject", "form", "frame", "frameset", "h1", "h2", "h3", "h4", "h5", "h6", "head",
        "header", "hgroup", "hr", "html", "i", "iframe", "image", "img", "input", "ins", "kbd", "keygen", "label",
        "legend", "li", "link", "listing", "main", "map", "mark", "marquee", "math", "menu", "menuitem", "meta",
        "meter", "mfrac", "mi", "mn", "mo", "mover", "mrow", "ms", "msqrt", "mstyle", "msub", "msubsup", "msup",
        "mtable", "mtd", "mtext", "mtr", "munder", "munderover", "nav", "nobr", "noembed", "noframes", "noscript",
        "object", "ol", "optgroup", "option", "output", "p", "param", "picture", "plaintext", "pre", "progress",
        "q", "rb", "rp", "rt", "rtc", "ruby", "s", "samp", "script", "search", "section", "select", "semantics",
        "slot", "small", "source", "span", "strike", "strong", "style", "sub", "summary", "sup", "svg", "table",
        "tbody", "td", "template", "textarea", "tfoot", "th", "thead", "time", "title", "tr", "track", "tt", "u",
        "ul", "var", "video", "wbr", "xmp",
    }
)  # fmt: skip
_ATTRIBUTES = frozenset(
    {
        "align", "alt", "alttext", "aria-controls", "aria-expanded", "aria-hidden", "aria-label", "aria-labelledby",
        "cite", "class", "colspan", "content", "data-bs-target", "data-line-number", "data-target", "datetime",
        "dir", "display", "encoding", "headers", "height", "hidden", "href", "hreflang", "http-equiv", "id",
        "itemprop", "itemscope", "itemtype", "label", "lang", "name", "onclick", "open", "property", "rel",
        "reversed", "role", "rowspan", "scope", "src", "srcset", "start", "style", "title", "type", "value",
        "width", "xml:lang",
    }
)  # fmt: skip
"""Names that are always kept: whether a text is shown, and what it is, may depend on them."""

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
    elements, attributes = set[str](), set[str]()
    for tag in set(_TAG.findall(markup)):
        opening = _read_name(tag)
        elements.add(opening[2].lower())
        attributes.update(name.lower() for name in _NAMED.findall(tag, opening.end()))
    if len(elements - _ELEMENTS) <= MAX_NAMES and len(attributes - _ATTRIBUTES) <= MAX_NAMES:
        return markup
    elements, attributes = set(_ELEMENTS), set(_ATTRIBUTES)

    def is_kept(names: set[str], known: frozenset[str], name: str) -> bool:
        if len(names) < len(known) + MAX_NAMES:
            names.add(name.lower())
        return name.lower() in names

    def bounded(tag: re.Match[str]) -> str:
        opening = _read_name(tag[0])
        parts, end = [opening[1], opening[2] if is_kept(elements, _ELEMENTS, opening[2]) else _UNNAMED], opening.end()
        for attribute in _NAMED.finditer(tag[0], end):
            parts += [attribute[0]] if is_kept(attributes, _ATTRIBUTES, attribute[1]) else []
            end = attribute.end()
        return "".join([*parts, tag[0][end:]])

    return _TAG.sub(bounded, markup)


def _read_name(tag: str) -> re.Match[str]:
    found = _FIRST.match(tag)
    assert found is not None
    return found


def _rename_options(markup: str) -> str:
    options = _OPTION.finditer(markup)
    last = next(islice(options, MAX_OPTIONS, None), None)
    if last is None:
        return markup
    return markup[: last.start()] + _OPTION.sub(r"<\1x-opt", markup[last.start() :])


def cut_attributes(markup: str) -> str:
    """The markup, of whose tags none has more than `MAX_ATTRIBUTES` and those that are known."""
    parts: list[str] = []
    end = 0
    for tag in _TAG.finditer(markup):
        if tag.end() - tag.start() > 2 * MAX_ATTRIBUTES and (tag_name := _KEPT.match(markup, tag.start(), tag.end())):
            parts.append(markup[end : tag_name.end()])
            rest = dict[str, str]()
            for attribute in _NAMED.finditer(markup, tag_name.end(), tag.end()):
                if attribute[1].lower() in _ATTRIBUTES:
                    rest.setdefault(attribute[1].lower(), attribute[0])
            parts += [f" {attribute.lstrip()}" for attribute in rest.values()]
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
