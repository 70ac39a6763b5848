"""The main text of an HTML page: a walk of the tree finds all text blocks, and trafilatura selects among them.

The walk alone keeps every word, also menus that no element marks as such. trafilatura alone loses much that is not
prose: code, tables, definitions. So the result is the walk's blocks without those that trafilatura leaves out, or all
blocks if trafilatura keeps too few of their words to be trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode

_SKIPPED = frozenset(
    {
        "script", "style", "noscript", "template", "head", "nav", "aside", "form", "button", "select", "textarea",
        "iframe", "svg", "math", "object", "canvas", "dialog",
    }
)  # fmt: skip
"""Elements with text that is not the page's own."""

_BLOCKS = frozenset(
    {
        "address", "article", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt", "fieldset",
        "figcaption", "figure", "footer", "form", "header", "hr", "li", "main", "ol", "p", "pre", "section",
        "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul", "h1", "h2", "h3", "h4", "h5",
        "h6",
    }
)  # fmt: skip
MIN_WORD_SHARE = 0.5
"""trafilatura is trusted if it keeps at least this share of the words that the walk finds outside link lists."""

MIN_WORDS = 40
"""A page with fewer words outside link lists is kept whole: it is too short to select from."""

MAX_CHARACTERS = 2 << 20
MAX_TAGS = 50_000
"""Characters and tags of a page that trafilatura is given; a larger page would take it many seconds."""

_BREAKS = {"br": "\n", "li": "\n", "tr": "\n", "dt": "\n", "dd": "\n", "td": "\t", "th": "\t"}
_WIDTHS = {"": 0, " ": 1, "\t": 2, "\n": 3, "\n\n": 4}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NOTE = re.compile(
    r"(?<![a-z])(?:admonition|callout|caution|danger|footnotes?|hint|important|note|tip|topic|warning)(?![a-z])",
    re.IGNORECASE,
)
"""Names of asides that belong to a text, as documentation generators write them."""

_PERMALINKS = frozenset({"¶", "#", "§", "🔗", "⚓", "⚓\ufe0e", "\u200b"})
"""Texts of links to the place where they stand, as documentation generators add them behind headings and terms."""

_SPACE = re.compile(r"[ \t\r\n\f]+")
_WORD = re.compile(r"\w+")
_MIN_SQUEEZED_CHARACTERS = 20
"""Characters without white space of a passage that is searched as a substring: shorter ones match by chance."""

_RUN_WORDS = 3


@dataclass(slots=True)
class TextBlock:
    """Text between two blank lines; code or a table `is_verbatim`, an aside that belongs to the text `is_note`."""

    parts: list[str] = field(default_factory=list)
    linked_characters: int = 0
    is_verbatim: bool = False
    is_note: bool = False
    headings: list[tuple[int, int, str]] = field(default_factory=list)
    """Start in the block, level and title of each."""

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def is_link_list(self) -> bool:
        return 2 * self.linked_characters > sum(map(len, self.parts))


@dataclass(frozen=True, slots=True)
class MainText:
    """`headings` are tuples of start in the text (in characters), level and title."""

    text: str
    headings: tuple[tuple[int, int, str], ...]


def extract_main_text(tree: LexborHTMLParser, markup: str, *, deep: bool) -> MainText:
    """The main text of a parsed page; a `deep` page, which could break trafilatura, by the walk alone.

    The walk begins at <main>, else the only <article>, else the body. If most of what trafilatura finds is elsewhere
    in the page, it begins at the body and includes forms.
    """
    blocks = _find_blocks(_find_root(tree), _SKIPPED)
    is_selected = not deep and len(markup) <= MAX_CHARACTERS and markup.count("<") <= MAX_TAGS
    lines = _trafilatura(markup) if is_selected else []
    if lines and tree.body is not None:
        passages = _Passages("\n".join(block.text for block in blocks).splitlines())
        if 2 * sum(len(line) for line in lines if passages.contain(line)) < sum(map(len, lines)):
            blocks = _find_blocks(tree.body, _SKIPPED - {"form"})
    return _join_blocks(_select_blocks(blocks, lines) if lines else blocks)


def extract_fragment_text(markup: str) -> str:
    """All text of a fragment of HTML, as feeds have them, in paragraphs."""
    return _join_blocks(_find_blocks(LexborHTMLParser(markup).body, _SKIPPED)).text


def _select_blocks(blocks: Sequence[TextBlock], lines: Sequence[str]) -> Sequence[TextBlock]:
    """The blocks that trafilatura's lines contain, and blocks between them that it misses; all if it has too few words.

    It misses code, tables and notes, and on a page with code or tables also prose: trafilatura is made for articles.
    """
    passages = _Passages(lines)
    kept = [passages.contain(block.text) for block in blocks]
    words = [len(_WORD.findall(block.text)) for block in blocks]
    prose = [index for index, block in enumerate(blocks) if not block.is_link_list]
    total = sum(words[index] for index in prose)
    if total < MIN_WORDS or sum(words[index] for index in prose if kept[index]) < MIN_WORD_SHARE * total:
        return blocks
    first, last = kept.index(True), len(kept) - 1 - kept[::-1].index(True)
    while last + 1 < len(blocks) and blocks[last + 1].is_verbatim and not blocks[last + 1].is_link_list:
        last += 1
    is_reference = any(is_kept and block.is_verbatim for block, is_kept in zip(blocks, kept, strict=True))
    for index in range(first, last + 1):
        is_missed = is_reference or blocks[index].is_verbatim or blocks[index].is_note
        kept[index] = kept[index] or (is_missed and not blocks[index].is_link_list)
    return [block for index, block in enumerate(blocks) if kept[index] or _heads_kept_block(blocks, kept, index)]


def _heads_kept_block(blocks: Sequence[TextBlock], kept: Sequence[bool], index: int) -> bool:
    """Whether a block is the heading of a section with a block that is kept."""
    if not blocks[index].headings:
        return False
    level = blocks[index].headings[0][1]
    for below in range(index + 1, len(blocks)):
        if blocks[below].headings and blocks[below].headings[0][1] <= level:
            return False
        if kept[below]:
            return True
    return False


def _join_blocks(blocks: Sequence[TextBlock]) -> MainText:
    texts: list[str] = []
    headings: list[tuple[int, int, str]] = []
    length = 0
    for block in blocks:
        text = block.text
        headings.extend((length + start, level, title) for start, level, title in block.headings)
        texts.append(text)
        length += len(text) + 2
    return MainText("\n\n".join(texts), tuple(headings))


def _trafilatura(markup: str) -> list[str]:
    """The lines of the main text by trafilatura; none if it fails, as it may on unusual pages."""
    from trafilatura import bare_extraction

    extracted = None
    with suppress(Exception):
        extracted = bare_extraction(markup, fast=True, include_comments=False, include_tables=True)
    if extracted is None or isinstance(extracted, dict) or extracted.body is None:
        return []
    return [line for text in extracted.body.itertext() for line in text.splitlines() if line.strip()]


class _Passages:
    """Finds passages in lines of text, regardless of white space."""

    def __init__(self, lines: Sequence[str]) -> None:
        words = [_WORD.findall(line) for line in lines]
        self._lines = {tuple(line) for line in words}
        flat = [word for line in words for word in line]
        self._runs = set(zip(*(flat[start:] for start in range(_RUN_WORDS)), strict=False))
        self._squeezed = "".join("".join(lines).split())

    def contain(self, passage: str) -> bool:
        """Whether a short passage is a line; whether half of the three-word runs of a longer one occur.

        A longer passage in a script without spaces between words is searched as a whole.
        """
        words = _WORD.findall(passage)
        if len(words) > _RUN_WORDS:
            runs = list(zip(*(words[start:] for start in range(_RUN_WORDS)), strict=False))
            if 2 * sum(run in self._runs for run in runs) >= len(runs):
                return True
            if passage.isascii():
                return False
        squeezed = "".join(passage.split())
        return tuple(words) in self._lines or (len(squeezed) >= _MIN_SQUEEZED_CHARACTERS and squeezed in self._squeezed)


def _find_root(tree: LexborHTMLParser) -> LexborNode | None:
    articles = tree.css("article")
    return tree.css_first("main, [role=main]") or (articles[0] if len(articles) == 1 else tree.body)


def _find_blocks(root: LexborNode | None, skipped: frozenset[str]) -> list[TextBlock]:
    writer = _BlockWriter()
    if root is not None:
        for tag, text in _walk(root, skipped):
            if text is not None:
                writer.add_text(text)
            elif tag.startswith("/"):
                writer.close(tag[1:])
            else:
                writer.open(tag)
    return writer.blocks


def _walk(root: LexborNode, skipped: frozenset[str]) -> Iterator[tuple[str, str | None]]:
    """Start tags ("p", None), end tags ("/p", None) and texts; a loop, since pages may be deeper than the stack."""
    node, end = root, root.mem_id  # `==` on nodes would compare their whole markup
    while True:
        tag = node.tag or ""
        child = None
        if tag == "-text":
            yield tag, node.text_content or ""
        elif _is_read(node, tag, skipped):
            yield tag, None
            child = node.child
            if child is None:
                yield f"/{tag}", None
        if child is not None:
            node = child
            continue
        while node.next is None or node.mem_id == end:
            parent = None if node.mem_id == end else node.parent
            if parent is None:
                return
            node = parent
            yield f"/{node.tag or ''}", None
        node = node.next


def _is_read(node: LexborNode, tag: str, skipped: frozenset[str]) -> bool:
    if tag.startswith(("-", "!", "_")):
        return False
    if tag == "a":
        return tag not in skipped and not _is_permalink(node)
    return tag not in skipped or _is_own_text(node)


def _is_permalink(node: LexborNode) -> bool:
    target = node.attributes.get("href") or ""
    return target.startswith("#") and node.text(deep=True).strip() in _PERMALINKS


def _is_own_text(node: LexborNode) -> bool:
    """Whether a skipped element is text of the page: a button that is all of a heading and opens its section, or an
    aside that is a note on the text."""
    if node.tag == "button":
        return node.parent is not None and node.parent.tag in _HEADINGS
    if node.tag != "aside":
        return False
    attributes = node.attributes
    return _NOTE.search(" ".join(attributes.get(name) or "" for name in ("class", "role", "aria-label"))) is not None


@dataclass(slots=True)
class _OpenHeading:
    """A heading whose end tag is not reached; `block` and `start` are where its first text was written."""

    level: int
    parts: list[str] = field(default_factory=list)
    block: TextBlock | None = None
    start: int = 0


class _BlockWriter:
    """Collects text into blocks, with white space collapsed outside <pre>."""

    def __init__(self) -> None:
        self.blocks: list[TextBlock] = []
        self._gap = ""
        self._depth = dict.fromkeys(("a", "pre", "table", "aside"), 0)
        self._heading: _OpenHeading | None = None

    def add_text(self, text: str) -> None:
        verbatim = self._depth["pre"] > 0
        tail = ""
        if not verbatim:
            text = _SPACE.sub(" ", text)
            if text.startswith(" ") or not text:
                self._widen(" ")
            tail, text = text[-1:], text.strip(" ")
        if text:
            self._write(text)
            if tail == " ":
                self._widen(" ")

    def open(self, tag: str) -> None:
        self._break(tag)
        if tag in self._depth:
            self._depth[tag] += 1
        if tag in _HEADINGS:
            self._heading = _OpenHeading(_HEADINGS[tag])

    def close(self, tag: str) -> None:
        if tag in self._depth:
            self._depth[tag] -= 1
        if tag in _HEADINGS and self._heading is not None:
            heading, self._heading = self._heading, None
            title = " ".join("".join(heading.parts).split())
            if title and heading.block is not None:
                heading.block.headings.append((heading.start, heading.level, title))
        self._break(tag)

    def _break(self, tag: str) -> None:
        if tag in _BREAKS:
            self._widen(_BREAKS[tag])
        elif tag in _BLOCKS:
            self._widen("\n\n")

    def _widen(self, gap: str) -> None:
        """Of all gaps between two texts the widest is written."""
        if self.blocks and _WIDTHS[gap] > _WIDTHS[self._gap]:
            self._gap = gap

    def _write(self, text: str) -> None:
        if not self.blocks or self._gap == "\n\n":
            self.blocks.append(TextBlock())
            self._gap = ""
        block = self.blocks[-1]
        heading = self._heading
        if heading is not None:
            if heading.block is None:
                heading.block, heading.start = block, sum(map(len, block.parts)) + len(self._gap)
            heading.parts.append(self._gap + text)
        block.parts.append(self._gap + text)
        block.linked_characters += len(text) * (self._depth["a"] > 0)
        block.is_verbatim = block.is_verbatim or self._depth["pre"] > 0 or self._depth["table"] > 0
        block.is_note = block.is_note or self._depth["aside"] > 0
        self._gap = ""
