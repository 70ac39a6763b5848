"""The text blocks of an HTML page: a walk of the tree, element by element, that keeps every word but navigation's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from selectolax.lexbor import LexborNode

from aidre.ingest.formats.pages.inline import (
    is_formula,
    is_raised,
    read_math,
    read_picture,
    strip_data_addresses,
    write_raised,
)
from aidre.ingest.formats.pages.parts import Grid, PageParts, read_grid

SKIPPED = frozenset(
    {
        "script", "style", "noscript", "template", "head", "nav", "aside", "form", "button", "select", "textarea",
        "iframe", "svg", "object", "canvas", "dialog", "rt", "rp",
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
_BREAKS = {
    "br": "\n", "li": "\n", "tr": "\n", "thead": "\n", "tbody": "\n", "tfoot": "\n", "dt": "\n", "dd": "\n",
    "td": "\t", "th": "\t",
}  # fmt: skip
_WIDTHS = {"": 0, " ": 1, "\t": 2, "\n": 3, "\n\n": 4}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NOTE = re.compile(
    r"(?<![a-z])(?:admonition|callout|caution|danger|footnotes?|hint|important|note|tip|topic|warning)(?![a-z])",
    re.IGNORECASE,
)
"""Names of asides that belong to a text, as documentation generators write them."""

_MARGIN = re.compile(
    r"(?<![a-z])(?:related|relacionad[oa]s?|recommend(?:ed|ations?)?|kommentare?|comments?|comentarios?|commentaires?|"
    r"sidebar|teasers?|shar(?:e|ing)|social|newsletter|subscri(?:be|ption)|promo|author-?(?:box|bio|info)?|bio|"
    r"next-?(?:story|post)|prev(?:ious)?-?post|post-next|more-?(?:about|on)|see-?also|read-?(?:more|next|also)|"
    r"also-?(?:like|read)?|popular|trending|most-?read|cookies?|tags?|taglist|footer|copyright|credits?|disclosure|"
    r"disclaimer|follow|widget|breadcrumbs?|byline|dateline|meta(?:data)?|date|timestamp|published|outbrain|taboola|"
    r"advert(?:isement)?|ads?|sponsor(?:ed)?|paywall|login|signup|nav(?:igation)?|menu|pagination)(?![a-z])",
    re.IGNORECASE,
)
"""Names of elements beside the text of a page."""

_LEAD = re.compile(
    r"(?<![a-z])(?:lead|lede|intro(?:duction|text)?|standfirst|preface|deck|dek|vorspann|chapo|teaser|excerpt|abstract|"
    r"summary|sub-?(?:head(?:line|ing)?|title)|entradilla|bajada)(?![a-z])",
    re.IGNORECASE,
)
"""Names of the paragraph between the title of an article and its text."""

_LEAD_LEVELS = 3
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")
"""Where a word begins in a name like relatedPost or related_post."""

_DATA_ROW, _BOX, _BOX_TITLE, _GRID = "-data-row", "-box", "-box-title", "-grid"
"""Names of the walk for elements that are read in their own way; no element has such a name."""

_OWN_LINES = frozenset({"pre", "ul", "ol", "dl", "table", "h1", "h2", "h3", "h4", "h5", "h6"})
"""Elements that do not go on with the title of a box on one line."""

_SENTENCE_ENDS = tuple(".:!?…。：！？؟")

_PERMALINKS = frozenset({"¶", "#", "§", "🔗", "⚓", "⚓\ufe0e", "\u200b"})
"""Texts of links to the place where they stand, as documentation generators add them behind headings and terms."""

_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"[ \t\r\n\f]+")


@dataclass(slots=True)
class TextBlock:
    """Text between two blank lines; code or a table `is_verbatim`, an aside that belongs to the text `is_note`."""

    parts: list[str] = field(default_factory=list)
    linked_characters: int = 0
    is_verbatim: bool = False
    is_note: bool = False
    part: int = 0
    """The number of the code or table of data that the block belongs to, from 1; 0 for other text."""
    headings: list[tuple[int, int, str]] = field(default_factory=list)
    """Start in the block, level and title of each."""
    kind: tuple[str, ...] = ()
    """The names of the two innermost blocks of HTML around it."""
    is_lead: bool = False
    margins: tuple[int, ...] = ()
    """Numbers of the elements around it that are named as margins of a page."""
    marks: list[int] = field(default_factory=list)
    """Indexes of the parts that are numbers of items, formulas and descriptions of pictures."""

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def words(self) -> str:
        """The text that other extractors find, too: without marks."""
        if not self.marks:
            return self.text
        marks = set(self.marks)
        return "".join(part for index, part in enumerate(self.parts) if index not in marks)

    @property
    def is_picture(self) -> bool:
        return bool(self.marks) and not self.words.strip()

    @property
    def is_link_list(self) -> bool:
        return 2 * self.linked_characters > sum(map(len, self.parts))

    @property
    def is_linked(self) -> bool:
        """Whether a third of its text is links."""
        return 3 * self.linked_characters > sum(map(len, self.parts))

    @property
    def is_link(self) -> bool:
        """Whether all its words are links."""
        return len("".join(self.words.split())) <= self.linked_characters


def find_blocks(root: LexborNode | None, skipped: frozenset[str], parts: PageParts) -> list[TextBlock]:
    """The blocks below an element, without `skipped` tags and the navigation, contents and hidden elements of
    `parts`."""
    writer = _BlockWriter()
    if root is not None:
        for tag, text, node in _walk(root, skipped, parts):
            if tag == _GRID:
                grid = read_grid(node, partial(_read_line, skipped=skipped, parts=parts), parts.hidden)
                writer.add_grid(grid, _name_of(node))
            elif tag == "sup" and text is not None:
                writer.add_raised(node)
            elif text is not None and tag in ("img", "math"):
                writer.add_picture(text, is_whole=not is_formula(node))
            elif text is not None:
                writer.add_text(text)
            elif tag.startswith("/"):
                writer.close(tag[1:])
            else:
                writer.open(tag, _name_of(node))
                if node.mem_id in parts.numbers:
                    writer.number(parts.numbers[node.mem_id])
    return writer.blocks


def _read_line(node: LexborNode, skipped: frozenset[str], parts: PageParts) -> tuple[str, int]:
    """The text of an element in one line, and how many of its characters are links."""
    blocks = find_blocks(node, skipped, parts)
    return " ".join(" ".join(block.text.split()) for block in blocks), sum(block.linked_characters for block in blocks)


def _name_of(node: LexborNode) -> str:
    """The tag, class and id of an element, with words apart."""
    attributes = node.attributes
    names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}".strip()
    return f"{node.tag} {_WORD_START.sub('-', names)}" if names else node.tag or ""


def _walk(root: LexborNode, skipped: frozenset[str], parts: PageParts) -> Iterator[tuple[str, str | None, LexborNode]]:
    """Start tags ("p", None), end tags ("/p", None) and texts; a loop, since pages may be deeper than the stack.

    Titles of boxes and rows of data have names of their own.
    """
    node, end = root, root.mem_id  # `==` on nodes would compare their whole markup
    named = ((parts.grids, _GRID), (parts.titles, _BOX_TITLE), (parts.boxes, _BOX), (parts.rows, _DATA_ROW))
    names = [(nodes, name) for nodes, name in named if nodes]

    def name_of(node: LexborNode) -> str:
        return next((name for nodes, name in names if node.mem_id in nodes), node.tag or "")

    while True:
        tag = node.tag or ""
        child = None
        if tag == "-text":
            yield tag, strip_data_addresses(node.text_content or ""), node
        elif tag in _LEAVES and not parts.leaves_out(node.mem_id) and (tag != "sup" or is_raised(node)):
            yield tag, _LEAVES[tag](node), node
        elif not parts.leaves_out(node.mem_id) and _is_read(node, tag, skipped):
            tag = name_of(node)
            yield tag, None, node
            child = None if tag == _GRID else node.child
            if child is None and tag != _GRID:
                yield f"/{tag}", None, node
        if child is not None:
            node = child
            continue
        while node.next is None or node.mem_id == end:
            parent = None if node.mem_id == end else node.parent
            if parent is None:
                return
            node = parent
            yield f"/{name_of(node)}", None, node
        node = node.next


_LEAVES: dict[str, Callable[[LexborNode], str]] = {
    "img": read_picture,
    "math": read_math,
    "sup": lambda node: node.text(deep=True) or "",
}
"""Elements that are read whole."""


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
        self._depth = dict.fromkeys(("a", "pre", "table", "aside", _DATA_ROW, _BOX, _BOX_TITLE), 0)
        self._heading: _OpenHeading | None = None
        self._names: list[tuple[str, str]] = []
        """Tag and name of each open element."""
        self._margins: list[tuple[int, int]] = []
        """Depth and number of each open element that is named as a margin."""
        self._margin = 0
        self._part = 0
        self._has_title = False
        """Whether words of the open title of a box were written."""
        self._said: set[str] = set()
        """The words of headings and of descriptions of pictures."""
        self._number = ""
        """The number of the open item, until its first text."""
        self._is_titled = False
        """Whether the title of a box was written last, which the next paragraph goes on with."""

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

    def add_grid(self, grid: Grid, name: str) -> None:
        """A table of data, with its caption as a paragraph above."""
        self.open("table", name)
        if grid.caption:
            self._write(grid.caption)
            self._widen("\n\n")
        if grid.text:
            self._write(grid.text)
            self.blocks[-1].part = self._part
            self.blocks[-1].linked_characters += grid.linked_characters
        self.close("table")

    def add_raised(self, node: LexborNode) -> None:
        before = self.blocks[-1].parts[-1] if self.blocks and not self._gap else ""
        self.add_text(node.text(deep=True) or "" if self._depth["pre"] else write_raised(node, before))

    def add_picture(self, text: str, *, is_whole: bool) -> None:
        """A formula, or the description of a picture, which is a part of its own in a line, once in a page.

        Headings are read without the descriptions of their pictures.
        """
        if text and not (is_whole and (self._heading is not None or self._is_written(text))):
            if is_whole:
                self._widen(" ")
            self._write(text)
            self.blocks[-1].marks.append(len(self.blocks[-1].parts) - 1)
            if is_whole:
                self._widen(" ")

    def _is_written(self, text: str) -> bool:
        """Whether a picture or a heading above says the same."""
        words = " ".join(_WORD.findall(text.casefold()))
        is_known = words in self._said
        self._said.add(words)
        return is_known

    def number(self, number: str) -> None:
        """The number of the item that was opened."""
        self._number = number

    def open(self, tag: str, name: str) -> None:
        self._break(tag)
        self._names.append((tag, name))
        if _MARGIN.search(name, len(tag)):
            self._margin += 1
            self._margins.append((len(self._names), self._margin))
        if tag in self._depth:
            self._depth[tag] += 1
            self._part += tag in ("pre", "table") and self._depth["pre"] + self._depth["table"] == 1
        if tag in _OWN_LINES:
            self._is_titled = False
        if tag in _HEADINGS and not self._depth[_BOX_TITLE]:
            self._heading = _OpenHeading(_HEADINGS[tag])

    def close(self, tag: str) -> None:
        if self._margins and self._margins[-1][0] == len(self._names):
            self._margins.pop()
        self._names.pop()
        if tag == "li":
            self._number = ""
        if tag in self._depth:
            self._depth[tag] -= 1
        if tag == _BOX_TITLE and self._has_title:
            parts = self.blocks[-1].parts
            if not parts[-1].endswith(_SENTENCE_ENDS):
                parts.append(":")
            self._is_titled, self._has_title = True, False
        if tag in _HEADINGS and self._heading is not None:
            heading, self._heading = self._heading, None
            title = " ".join("".join(heading.parts).split())
            self._said.add(" ".join(_WORD.findall(title.casefold())))
            if title and heading.block is not None:
                heading.block.headings.append((heading.start, heading.level, title))
        self._break(tag)

    def _break(self, tag: str) -> None:
        if tag == _DATA_ROW:
            self._widen("\n")
        elif tag in _BREAKS:
            is_inner = self._depth[_DATA_ROW] > 0 and tag not in ("td", "th", "br")
            self._widen(" " if is_inner else _BREAKS[tag])
        elif tag in _BLOCKS:
            is_inner = self._depth[_DATA_ROW] + self._depth[_BOX_TITLE] > 0
            self._widen(" " if is_inner else "\n\n")
        elif tag in (_BOX, _BOX_TITLE):
            self._widen("\n\n")

    def _widen(self, gap: str) -> None:
        """Keep the widest of the gaps between two texts."""
        if self.blocks and _WIDTHS[gap] > _WIDTHS[self._gap]:
            self._gap = gap

    def _write(self, text: str) -> None:
        self._has_title = self._depth[_BOX_TITLE] > 0
        if self._is_titled and not self._has_title:
            self._gap, self._is_titled = " ", False
        if not self.blocks or self._gap == "\n\n":
            self.blocks.append(self._new_block())
            self._gap = ""
        block = self.blocks[-1]
        if self._number:
            block.marks.append(len(block.parts))
            block.parts.append(f"{self._gap}{self._number} ")
            self._gap = self._number = ""
        heading = self._heading
        if heading is not None:
            if heading.block is None:
                heading.block, heading.start = block, sum(map(len, block.parts)) + len(self._gap)
            heading.parts.append(self._gap + text)
        block.parts.append(self._gap + text)
        block.linked_characters += len(text) * (self._depth["a"] > 0)
        if self._depth["pre"] or self._depth[_DATA_ROW]:
            block.part = self._part
        block.is_verbatim = block.is_verbatim or self._depth["pre"] > 0 or self._depth["table"] > 0
        block.is_note = block.is_note or self._depth["aside"] + self._depth[_BOX] > 0
        self._gap = ""

    def _new_block(self) -> TextBlock:
        kind: list[str] = []
        for tag, name in reversed(self._names):
            if tag in _BLOCKS:
                kind.append(name)
            if len(kind) == 2:
                break
        inner = [name.partition(" ")[2] for _, name in self._names[-_LEAD_LEVELS:]]
        margins = tuple(number for _, number in self._margins)
        return TextBlock(kind=tuple(kind), is_lead=any(map(_LEAD.search, inner)), margins=margins)
