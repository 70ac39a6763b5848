"""The main text of an HTML page: a walk of the tree finds all text blocks, and trafilatura selects among them.

The walk alone keeps every word, also menus that no element marks as such. trafilatura alone loses much that is not
prose: code, tables, definitions. So the result is the walk's blocks without those that trafilatura leaves out, or all
blocks if trafilatura keeps too few of their words to be trusted, or if the page says itself what is navigation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from selectolax.lexbor import LexborHTMLParser, LexborNode

from aidre.ingest.formats.pages.blocks import SKIPPED, TextBlock, find_blocks
from aidre.ingest.formats.pages.parts import PageParts, find_hidden_parts, find_parts

MIN_WORD_SHARE = 0.5
"""trafilatura is trusted if it keeps at least this share of the words that the walk finds outside link lists."""

MIN_WORDS = 40
"""A page with fewer words outside link lists is kept whole: it is too short to select from."""

MIN_OWN_WORDS = 20
"""A page with fewer words below its headings keeps its lists of contents."""

MAX_CHARACTERS = 2 << 20
MAX_TAGS = 50_000
"""Characters and tags of a page that trafilatura is given; a larger page would take it many seconds."""

_WORD = re.compile(r"\w+")
_MIN_SQUEEZED_CHARACTERS = 20
"""Characters without white space of a passage that is searched as a substring: shorter ones match by chance."""

_RUN_WORDS = 3


@dataclass(frozen=True, slots=True)
class MainText:
    """Places in characters: `headings` are tuples of start, level and title, `verbatim` the spans of code and rows."""

    text: str
    headings: tuple[tuple[int, int, str], ...]
    verbatim: tuple[tuple[int, int], ...] = ()


def extract_main_text(tree: LexborHTMLParser, markup: str, *, deep: bool) -> MainText:
    """The main text of a parsed page; a `deep` page, which could break trafilatura, by the walk alone.

    The walk begins at <main>, else the only <article>, else the body. If most of what trafilatura finds is elsewhere
    in the page, it begins at the body and includes forms.
    """
    parts = find_hidden_parts(tree) if deep else find_parts(tree)
    blocks = _find_own_blocks(_find_root(tree, parts.hidden), SKIPPED, parts)
    is_selected = not (deep or parts.is_book) and len(markup) <= MAX_CHARACTERS and markup.count("<") <= MAX_TAGS
    lines = _trafilatura(markup) if is_selected else []
    if lines and tree.body is not None:
        passages = _Passages("\n".join(block.text for block in blocks).splitlines())
        if 2 * sum(len(line) for line in lines if passages.contain(line)) < sum(map(len, lines)):
            blocks = _find_own_blocks(tree.body, SKIPPED - {"form"}, parts)
    return _join_blocks(_strip_links_above(_select_blocks(blocks, lines) if lines else blocks))


def extract_fragment_text(markup: str) -> str:
    """All text of a fragment of HTML, as feeds have them, in paragraphs."""
    tree = LexborHTMLParser(markup)
    return _join_blocks(find_blocks(tree.body, SKIPPED, find_hidden_parts(tree))).text


def _find_own_blocks(root: LexborNode | None, skipped: frozenset[str], parts: PageParts) -> list[TextBlock]:
    """The blocks without navigation and lists of contents, if a page without them has words of its own.

    The page of a chapter may be nothing but a list of its sections. A page of hidden elements alone is shown by a
    script.
    """
    blocks = find_blocks(root, skipped, parts)
    if parts.contents and _count_words(blocks) < MIN_OWN_WORDS:
        blocks = find_blocks(root, skipped, replace(parts, contents=frozenset()))
    if parts.navigation and _count_words(blocks) == 0:
        blocks = find_blocks(root, skipped, replace(parts, navigation=frozenset(), contents=frozenset()))
    if parts.hidden and not blocks and root is not None and root.tag == "body":
        blocks = find_blocks(root, skipped, replace(parts, hidden=frozenset()))
    return blocks


def _count_words(blocks: Sequence[TextBlock]) -> int:
    """The words below headings."""
    return sum(len(_WORD.findall(block.text)) for block in blocks if not block.headings)


def _strip_links_above(blocks: Sequence[TextBlock]) -> Sequence[TextBlock]:
    """The blocks without those before the first heading that are nothing but links: a banner, a way to the shop."""
    first = next((index for index, block in enumerate(blocks) if block.headings), 0)
    return [block for index, block in enumerate(blocks) if index >= first or not block.is_link]


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
    verbatim: list[tuple[int, int]] = []
    length = part = 0
    for block in blocks:
        text = block.text
        if block.part:
            start = verbatim.pop()[0] if block.part == part else length
            verbatim.append((start, length + len(text)))
        part = block.part
        headings.extend((length + start, level, title) for start, level, title in block.headings)
        texts.append(text)
        length += len(text) + 2
    return MainText("\n\n".join(texts), tuple(headings), tuple(verbatim))


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


def _find_root(tree: LexborHTMLParser, hidden: frozenset[int]) -> LexborNode | None:
    articles = [article for article in tree.css("article") if not hidden or not _is_within(article, hidden)]
    return tree.css_first("main, [role=main]") or (articles[0] if len(articles) == 1 else tree.body)


def _is_within(node: LexborNode | None, elements: frozenset[int]) -> bool:
    """Whether a node is one of these elements, or stands in one."""
    while node is not None:
        if node.mem_id in elements:
            return True
        node = node.parent
    return False
