"""The main text of an HTML page: a walk writes the blocks of the page, trafilatura says which of them are its own.

The walk alone keeps every word, also menus that no element marks as such. trafilatura alone loses much of what is
no article: code, tables, definitions. So a page is written by the walk, without the blocks that trafilatura leaves
out, and whole where trafilatura has too little of it to be believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode

UNREAD = frozenset(
    {
        "script", "style", "noscript", "template", "head", "nav", "aside", "form", "button", "select", "textarea",
        "iframe", "svg", "math", "object", "canvas", "dialog",
    }
)  # fmt: skip
"""Elements whose words are not the page's own."""

BLOCKS = frozenset(
    {
        "address", "article", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt", "fieldset",
        "figcaption", "figure", "footer", "form", "header", "hr", "li", "main", "ol", "p", "pre", "section",
        "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul", "h1", "h2", "h3", "h4", "h5",
        "h6",
    }
)  # fmt: skip
BELIEVED = 0.5
"""trafilatura is believed when it has at least this part of the words that the walk finds outside of link lists."""

SHORT = 40
"""Words of a page that is too short to tell what belongs to it: it is kept whole."""

LONGEST = 2 << 20
MOST_TAGS = 50_000
"""Characters and tags of a page that trafilatura is asked about; it takes many seconds for more."""

_BREAKS = {"br": "\n", "li": "\n", "tr": "\n", "dt": "\n", "dd": "\n", "td": "\t", "th": "\t"}
_WIDTHS = {"": 0, " ": 1, "\t": 2, "\n": 3, "\n\n": 4}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NOTE = re.compile(
    r"(?<![a-z])(?:admonition|callout|caution|danger|footnotes?|hint|important|note|tip|topic|warning)(?![a-z])",
    re.IGNORECASE,
)
"""What generators of documentation call the asides that belong to a text."""
_SPACE = re.compile(r"[ \t\r\n\f]+")
_WORD = re.compile(r"\w+")
_LONG = 20
_RUN = 3


@dataclass(slots=True)
class Block:
    """What stands between two blank lines: `linked` of its characters are links, `exact` are code and tables, a `note`
    is an aside that belongs to the text."""

    parts: list[str] = field(default_factory=list)
    linked: int = 0
    exact: bool = False
    note: bool = False
    headings: list[tuple[int, int, str]] = field(default_factory=list)
    """Each by its place in the block, its level and its words."""

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def is_link_list(self) -> bool:
        return 2 * self.linked > sum(map(len, self.parts))


@dataclass(frozen=True, slots=True)
class MainText:
    """`headings` are (place in the text in characters, level, words)."""

    text: str
    headings: tuple[tuple[int, int, str], ...]


def main_text(tree: LexborHTMLParser, markup: str, *, deep: bool) -> MainText:
    """The main text of a parsed page; a `deep` one, on which trafilatura could break, is what the walk finds.

    The walk begins at <main>, else the only <article>, else the body; at the body, forms included, where most of
    what trafilatura takes for the text stands elsewhere.
    """
    blocks = _blocks(_root(tree), UNREAD)
    is_sieved = not deep and len(markup) <= LONGEST and markup.count("<") <= MOST_TAGS
    own = _trafilatura(markup) if is_sieved else []
    if own and tree.body is not None:
        found = _Passages("\n".join(block.text for block in blocks).splitlines())
        if 2 * sum(len(line) for line in own if found.have(line)) < sum(map(len, own)):
            blocks = _blocks(tree.body, UNREAD - {"form"})
    return _written(_sieved(blocks, own) if own else blocks)


def fragment_text(markup: str) -> str:
    """Every word of a piece of HTML that is no page, as feeds have them, in paragraphs."""
    return _written(_blocks(LexborHTMLParser(markup).body, UNREAD)).text


def _sieved(blocks: Sequence[Block], own: Sequence[str]) -> Sequence[Block]:
    """The blocks that trafilatura has, and between them what it overlooks; all where it has too little.

    Overlooked are code, tables and notes, and on a page that has the first two also its prose: trafilatura is made for
    articles.
    """
    passages = _Passages(own)
    has = [passages.have(block.text) for block in blocks]
    words = [len(_WORD.findall(block.text)) for block in blocks]
    prose = [at for at, block in enumerate(blocks) if not block.is_link_list]
    total = sum(words[at] for at in prose)
    if total < SHORT or sum(words[at] for at in prose if has[at]) < BELIEVED * total:
        return blocks
    first, last = has.index(True), len(has) - 1 - has[::-1].index(True)
    while last + 1 < len(blocks) and blocks[last + 1].exact and not blocks[last + 1].is_link_list:
        last += 1
    is_reference = any(kept and block.exact for block, kept in zip(blocks, has, strict=True))
    for at in range(first, last + 1):
        is_kept = is_reference or blocks[at].exact or blocks[at].note
        has[at] = has[at] or (is_kept and not blocks[at].is_link_list)
    return [block for at, block in enumerate(blocks) if has[at] or _is_over(blocks, has, at)]


def _is_over(blocks: Sequence[Block], has: Sequence[bool], at: int) -> bool:
    """Whether a block is the heading of something that is kept."""
    if not blocks[at].headings:
        return False
    level = blocks[at].headings[0][1]
    for below in range(at + 1, len(blocks)):
        if blocks[below].headings and blocks[below].headings[0][1] <= level:
            return False
        if has[below]:
            return True
    return False


def _written(blocks: Sequence[Block]) -> MainText:
    texts: list[str] = []
    headings: list[tuple[int, int, str]] = []
    length = 0
    for block in blocks:
        text = block.text
        headings.extend((length + start, level, words) for start, level, words in block.headings)
        texts.append(text)
        length += len(text) + 2
    return MainText("\n\n".join(texts), tuple(headings))


def _trafilatura(markup: str) -> list[str]:
    """The lines of what trafilatura takes for the main text; none where it fails, which on odd pages it may."""
    from trafilatura import bare_extraction

    found = None
    with suppress(Exception):
        found = bare_extraction(markup, fast=True, include_comments=False, include_tables=True)
    if found is None or isinstance(found, dict) or found.body is None:
        return []
    return [line for text in found.body.itertext() for line in text.splitlines() if line.strip()]


class _Passages:
    """Answers whether a passage stands in some lines, whatever their white space."""

    def __init__(self, lines: Sequence[str]) -> None:
        words = [_WORD.findall(line) for line in lines]
        self._lines = {tuple(line) for line in words}
        flat = [word for line in words for word in line]
        self._runs = set(zip(*(flat[at:] for at in range(_RUN)), strict=False))
        self._squeezed = "".join("".join(lines).split())

    def have(self, passage: str) -> bool:
        """Short ones whole, longer ones by half of their runs of three words, or whole where spaces part no words."""
        words = _WORD.findall(passage)
        if len(words) > _RUN:
            runs = list(zip(*(words[at:] for at in range(_RUN)), strict=False))
            if 2 * sum(run in self._runs for run in runs) >= len(runs):
                return True
            if passage.isascii():
                return False
        squeezed = "".join(passage.split())
        return tuple(words) in self._lines or (len(squeezed) >= _LONG and squeezed in self._squeezed)


def _root(tree: LexborHTMLParser) -> LexborNode | None:
    articles = tree.css("article")
    return tree.css_first("main, [role=main]") or (articles[0] if len(articles) == 1 else tree.body)


def _blocks(root: LexborNode | None, unread: frozenset[str]) -> list[Block]:
    writer = _BlockWriter()
    if root is not None:
        for tag, words in _events(root, unread):
            if words is not None:
                writer.words(words)
            elif tag.startswith("/"):
                writer.closed(tag[1:])
            else:
                writer.opened(tag)
    return writer.blocks


def _events(root: LexborNode, unread: frozenset[str]) -> Iterator[tuple[str, str | None]]:
    """Elements as they open ("p") and close ("/p"), and words; a loop, since pages may be deeper than the stack."""
    node, end = root, root.mem_id  # `==` on nodes compares their whole markup
    while True:
        tag = node.tag or ""
        child = None
        if tag == "-text":
            yield tag, node.text_content or ""
        elif (tag not in unread or _is_own(node)) and not tag.startswith(("-", "!", "_")):
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


def _is_own(node: LexborNode) -> bool:
    """Whether an unread element is the page's own all the same: a button that is all of a heading, whose section it
    opens, and an aside that is a note on the text."""
    if node.tag == "button":
        return node.parent is not None and node.parent.tag in _HEADINGS
    if node.tag != "aside":
        return False
    given = node.attributes
    return _NOTE.search(" ".join(given.get(name) or "" for name in ("class", "role", "aria-label"))) is not None


class _BlockWriter:
    """Collects words into blocks, with white space collapsed outside <pre>."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._gap = ""
        self._depth = dict.fromkeys(("a", "pre", "table", "aside"), 0)
        self._heading: tuple[int, list[str], tuple[Block, int] | None] | None = None

    def words(self, text: str) -> None:
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

    def opened(self, tag: str) -> None:
        self._break(tag)
        if tag in self._depth:
            self._depth[tag] += 1
        if tag in _HEADINGS:
            self._heading = (_HEADINGS[tag], [], None)

    def closed(self, tag: str) -> None:
        if tag in self._depth:
            self._depth[tag] -= 1
        if tag in _HEADINGS and self._heading is not None:
            level, words, place = self._heading
            title = " ".join("".join(words).split())
            if title and place is not None:
                place[0].headings.append((place[1], level, title))
            self._heading = None
        self._break(tag)

    def _break(self, tag: str) -> None:
        if tag in _BREAKS:
            self._widen(_BREAKS[tag])
        elif tag in BLOCKS:
            self._widen("\n\n")

    def _widen(self, gap: str) -> None:
        """The widest gap that is asked for between two words is the one that is written."""
        if self.blocks and _WIDTHS[gap] > _WIDTHS[self._gap]:
            self._gap = gap

    def _write(self, text: str) -> None:
        if not self.blocks or self._gap == "\n\n":
            self.blocks.append(Block())
            self._gap = ""
        block = self.blocks[-1]
        if self._heading is not None:
            level, words, place = self._heading
            if place is None:
                start = sum(map(len, block.parts)) + len(self._gap)
                self._heading = (level, words, (block, start))
            words.append(self._gap + text)
        block.parts.append(self._gap + text)
        block.linked += len(text) * (self._depth["a"] > 0)
        block.exact = block.exact or self._depth["pre"] > 0 or self._depth["table"] > 0
        block.note = block.note or self._depth["aside"] > 0
        self._gap = ""
