"""HTML as a Document: its main text in paragraphs, headings by their place in it, what the head says about the page."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Heading, Json
from aidre.ingest.found import File, Found, content, decoded
from aidre.ingest.members import document, document_id, instant
from aidre.ingest.vectors import VectorRules

UNREAD = frozenset(
    {
        "script", "style", "noscript", "template", "head", "nav", "aside", "form", "button", "select",
        "iframe", "svg", "math", "object", "canvas", "dialog",
    }
)  # fmt: skip
"""Elements whose words are not the page's own."""

BLOCKS = frozenset(
    {
        "address", "article", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt", "fieldset",
        "figcaption", "figure", "footer", "header", "hr", "li", "main", "ol", "p", "pre", "section",
        "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul", "h1", "h2", "h3", "h4", "h5",
        "h6",
    }
)  # fmt: skip
DEEPEST = 5000
"""The parser's time grows with the square of the depth; browsers stop at 512."""

_BREAKS = {"br": "\n", "li": "\n", "tr": "\n", "dt": "\n", "dd": "\n", "td": "\t", "th": "\t"}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_SPACE = re.compile(r"[ \t\r\n\f]+")
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([a-zA-Z0-9_:.-]{1,40})", re.IGNORECASE)
_TAG = re.compile(rb"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_UNCOUNTED = frozenset(
    b"area base br col embed hr img input link meta source track wbr p li dt dd tr td th option thead tbody tfoot "
    b"html head body".split()
)
"""Elements without an end tag, or whose end tag may be left out."""

_WESTERN = frozenset({"iso-8859-1", "iso8859-1", "latin-1", "latin1", "us-ascii", "ascii"})
_DATES = ("article:modified_time", "og:updated_time", "article:published_time", "last-modified", "dcterms.modified")


def html(file: File, rules: VectorRules) -> Iterator[Found]:
    """The one document of a file; raises InvalidDocument, OSError."""
    raw = content(file)
    if _depth(raw) > DEEPEST:
        raise InvalidDocument(f"more than {DEEPEST} elements are open inside each other: not a page")
    tree = LexborHTMLParser(decoded(raw, _charset(raw)))
    text, headings = _main_text(tree)
    members = _head(tree)
    if members.get("title") is None:
        members["title"] = next((each.title for each in headings if each.level == 1), file.path.stem)
    members["url"] = members["url"] or file.url
    yield file.origin, document(members, file, document_id(file.id, "the path"), text=text, headings=headings)


def _charset(raw: bytes) -> str:
    """The encoding that the page declares in its first kilobyte, as browsers look for it; else UTF-8."""
    declared = None if raw.startswith(codecs.BOM_UTF8) else _CHARSET.search(raw, 0, 1024)
    if declared is None:
        return "utf-8"
    name = declared[1].decode("ascii").lower()
    # Browsers read all of these as windows-1252, and so does everyone who writes them.
    return "cp1252" if name in _WESTERN else name


def _depth(raw: bytes) -> int:
    """How many elements are open at once, at most, by their tags alone."""
    if raw.count(b"<") <= DEEPEST:
        return 0
    depth = deepest = 0
    for match in _TAG.finditer(raw):
        if match[2].lower() not in _UNCOUNTED:
            depth = max(0, depth - 1) if match[1] else depth + 1
            deepest = max(deepest, depth)
    return deepest


def _head(tree: LexborHTMLParser) -> dict[str, Any]:
    metas: dict[str, str] = {}
    for node in tree.css("meta[content]"):
        name = (node.attributes.get("property") or node.attributes.get("name") or "").lower()
        metas.setdefault(name, (node.attributes.get("content") or "").strip())
    title = _one_line(_text_of(tree.css_first("title"))) or metas.get("og:title") or None
    language = tree.root.attributes.get("lang") if tree.root is not None else None
    found: dict[str, Json] = {"language": (language or "").strip(), "description": metas.get("description")}
    return {
        "title": title,
        "url": _canonical(tree),
        "updated_at": next(filter(None, (_date(metas.get(name)) for name in _DATES)), None),
        "metadata": {name: value for name, value in found.items() if value},
    }


def _canonical(tree: LexborHTMLParser) -> str | None:
    for node in tree.css("link[rel][href]"):
        if "canonical" in (node.attributes.get("rel") or "").lower().split():
            return (node.attributes.get("href") or "").strip() or None
    return None


def _date(value: str | None) -> str | None:
    """A date of the page; one in another notation is no fault of the document."""
    try:
        return instant(value) if value else None
    except InvalidDocument:
        return None


def _main_text(tree: LexborHTMLParser) -> tuple[str, tuple[Heading, ...]]:
    """The words of <main>, else of the only <article>, else of the body, and its headings."""
    articles = tree.css("article")
    root = tree.css_first("main, [role=main]") or (articles[0] if len(articles) == 1 else tree.body)
    if root is None:
        return "", ()
    writer = _TextWriter()
    _walk(root, writer)
    return writer.text(), tuple(writer.headings)


def _walk(root: LexborNode, writer: _TextWriter) -> None:
    """Visit a tree in order; a loop, since pages may be nested deeper than Python's stack."""
    node, pre, end = root, 0, root.mem_id  # `==` on nodes compares their whole markup
    while True:
        tag = node.tag or ""
        child = None
        if tag == "-text":
            writer.words(node.text_content or "", pre > 0)
        elif tag not in UNREAD and not tag.startswith(("-", "!", "_")):
            writer.opened(tag)
            child = node.child
            pre += tag == "pre"
            if child is None:
                pre -= tag == "pre"
                writer.closed(tag)
        if child is not None:
            node = child
            continue
        while node.next is None or node.mem_id == end:
            if node.mem_id == end:
                return
            parent = node.parent
            if parent is None:
                return
            node = parent
            pre -= node.tag == "pre"
            writer.closed(node.tag or "")
        node = node.next


class _TextWriter:
    """Collects words, with blank lines between blocks and white space collapsed outside <pre>."""

    def __init__(self) -> None:
        self.headings: list[Heading] = []
        self._parts: list[str] = []
        self._length = 0
        self._gap = ""
        self._heading: tuple[int, int] | None = None

    def words(self, text: str, verbatim: bool) -> None:
        if not verbatim:
            text = _SPACE.sub(" ", text)
            if text.startswith(" ") or not text:
                self._widen(" ")
            tail, text = text.endswith(" "), text.strip(" ")
        if text:
            self._write(text)
            if not verbatim and tail:
                self._widen(" ")

    def opened(self, tag: str) -> None:
        self._break(tag)
        if tag in _HEADINGS:
            self._heading = (_HEADINGS[tag], len(self._parts))

    def closed(self, tag: str) -> None:
        if tag in _HEADINGS and self._heading is not None:
            level, first = self._heading
            title = _one_line("".join(self._parts[first:]))
            if title:
                before = sum(map(len, self._parts[first:]))
                lead = len(self._parts[first]) - len(self._parts[first].lstrip())
                self.headings.append(Heading(self._length - before + lead, level, title))
            self._heading = None
        self._break(tag)

    def text(self) -> str:
        return "".join(self._parts)

    def _break(self, tag: str) -> None:
        if tag in _BREAKS:
            self._widen(_BREAKS[tag])
        elif tag in BLOCKS:
            self._widen("\n\n")

    def _widen(self, gap: str) -> None:
        """The widest gap that is asked for between two words is the one that is written."""
        if self._parts and _WIDTHS[gap] > _WIDTHS[self._gap]:
            self._gap = gap

    def _write(self, text: str) -> None:
        text = self._gap + text
        self._gap = ""
        self._parts.append(text)
        self._length += len(text)


_WIDTHS = {"": 0, " ": 1, "\t": 2, "\n": 3, "\n\n": 4}


def _text_of(node: LexborNode | None) -> str:
    return "" if node is None else node.text()


def _one_line(text: str) -> str:
    return " ".join(text.split())
