"""The main text of an HTML page: a walk of the tree finds all text blocks, and trafilatura selects among them.

The walk alone keeps every word, also menus that no element marks as such. trafilatura alone loses much that is not
prose: code, tables, definitions. So the result is the walk's blocks that trafilatura finds, and those that belong to
them (selection.py), or all blocks if the page says itself what is navigation. The title of an HTML page: that of its
head, without the name of the site around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from selectolax.lexbor import LexborHTMLParser, LexborNode

from aidre.ingest.formats.pages.blocks import SKIPPED, TextBlock, find_blocks
from aidre.ingest.formats.pages.bounds import bound_markup
from aidre.ingest.formats.pages.parts import PageParts, find_fragment_parts, find_hidden_parts, find_parts
from aidre.ingest.formats.pages.selection import Passages, count_words, select_blocks, share_found

MIN_OWN_WORDS = 20
"""A page with fewer words below its headings keeps its lists of contents."""

MAX_CHARACTERS = 2 << 20
MAX_TAGS = 50_000
"""Characters and tags of a page that trafilatura is given; a larger page would take it many seconds."""

_TRUSTED_SHARE = 0.2
"""Where trafilatura finds a smaller share of the words outside link lists, its slower way is tried, too."""

MIN_ROOT_WORDS = 200
_ROOT_SHARE = 0.2
"""A main element with fewer words, and a smaller share of those of the page, is not the page: it is a teaser, or the
place of a script."""

_FAR_MORE = 3
_UNSKIPPED = frozenset({"form", "aside", "noscript"})
"""Elements that may be all of a page: the form around it of some servers, a frame, what readers without scripts see."""


_WIDE_SPAN = re.compile(r"\b(row|col)span\s*=\s*([\"']?)\s*\d{3,}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MainText:
    """Places in characters: `headings` are tuples of start, level and title, `verbatim` the spans of code and rows."""

    text: str
    headings: tuple[tuple[int, int, str], ...]
    verbatim: tuple[tuple[int, int], ...] = ()


def extract_main_text(tree: LexborHTMLParser, markup: str, *, deep: bool) -> MainText:
    """The main text of a parsed page; a `deep` page, which could break trafilatura, by the walk alone.

    The walk begins at <main>, else the only <article>, else the body; at the body, too, where those hold little of the
    page. If most of what trafilatura finds is elsewhere, it begins at the body and includes forms, or asides and
    <noscript>, too.
    """
    parts = find_hidden_parts(tree) if deep else find_parts(tree)
    root = _find_root(tree, parts.hidden)
    blocks = _find_own_blocks(root, SKIPPED, parts)
    if root is not None and root.tag != "body" and _count_words(blocks) < MIN_ROOT_WORDS:
        whole = _find_own_blocks(tree.body, SKIPPED, parts)
        blocks = blocks if _count_words(blocks) >= _ROOT_SHARE * _count_words(whole) else whole
    if _count_words(blocks) < MIN_OWN_WORDS:
        blocks = _find_elsewhere(tree, root, parts, blocks)
    is_selected = not (deep or parts.is_book) and len(markup) <= MAX_CHARACTERS and markup.count("<") <= MAX_TAGS
    lines = _trafilatura(markup, fast=True) if is_selected else []
    if lines:
        blocks, lines = _find_where_it_reads(tree, parts, blocks, lines)
        if share_found(blocks, lines) < _TRUSTED_SHARE:
            more = _trafilatura(markup, fast=False)
            blocks, lines = _find_where_it_reads(tree, parts, blocks, more) if more else (blocks, lines)
        blocks = list(select_blocks(blocks, lines))
    return _join_blocks(_strip_links_above(blocks))


def _find_where_it_reads(
    tree: LexborHTMLParser, parts: PageParts, blocks: list[TextBlock], lines: list[str]
) -> tuple[list[TextBlock], list[str]]:
    """The blocks in which most of trafilatura's lines are: these, or those of the whole page with forms, or of all."""
    if _hold(blocks, lines):
        return blocks, lines
    with_forms = _find_own_blocks(tree.body, SKIPPED - {"form"}, parts)
    if not _hold(with_forms, lines):
        everything = _find_own_blocks(tree.body, SKIPPED - _UNSKIPPED, parts)
        if _count_words(everything) >= MIN_OWN_WORDS and _hold(everything, lines):
            return everything, lines
    return (with_forms if _count_words(with_forms) else blocks), lines


def _hold(blocks: Sequence[TextBlock], lines: Sequence[str]) -> bool:
    passages = Passages("\n".join(block.words for block in blocks).splitlines())
    return 2 * sum(len(line) for line in lines if passages.contain(line)) >= sum(map(len, lines))


def _find_elsewhere(
    tree: LexborHTMLParser, root: LexborNode | None, parts: PageParts, blocks: list[TextBlock]
) -> list[TextBlock]:
    """The blocks of a page without a text of its own (`blocks`), with what readers without scripts see, with asides in
    its main element, or with all, if that is a text: a page of a script may say no more than that it needs scripts."""
    own = _count_words(blocks)
    is_body = root is None or root.tag == "body"
    places = [(root, frozenset({"noscript"} if is_body else {"noscript", "aside"}))]
    for place, unskipped in [*places, (tree.body, _UNSKIPPED)][: 1 if own else 2]:
        others = _find_own_blocks(place, SKIPPED - unskipped, parts)
        if _count_words(others) >= max(MIN_OWN_WORDS, _FAR_MORE * own):
            return others
    return blocks


def extract_fragment_text(markup: str) -> str:
    """All text of a fragment of HTML, as feeds have them, in paragraphs."""
    return extract_fragment(markup).text


def extract_fragment(markup: str) -> MainText:
    """All of a page or a fragment of HTML, for which nothing is chosen: pages of books, messages."""
    tree = LexborHTMLParser(bound_markup(markup))
    return _join_blocks(find_blocks(tree.body, SKIPPED, find_fragment_parts(tree)))


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
    return sum(count_words(block.words) for block in blocks if not block.headings)


def _strip_links_above(blocks: Sequence[TextBlock]) -> Sequence[TextBlock]:
    """The blocks without those before the first heading that are nothing but links: a banner, a way to the shop."""
    first = next((index for index, block in enumerate(blocks) if block.headings), 0)
    return [block for index, block in enumerate(blocks) if index >= first or not block.is_link]


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


def _trafilatura(markup: str, *, fast: bool) -> list[str]:
    """The lines of the main text by trafilatura; none if it fails, as it may on unusual pages.

    The slower way compares what it finds with what other libraries find.
    """
    from trafilatura import bare_extraction

    extracted = None
    with suppress(Exception):
        markup = _WIDE_SPAN.sub(r"\1span=\g<2>1", markup)  # it makes an element of each cell
        extracted = bare_extraction(markup, fast=fast, include_comments=False, include_tables=True)
    if extracted is None or isinstance(extracted, dict) or extracted.body is None:
        return []
    return [line for text in extracted.body.itertext() for line in text.splitlines() if line.strip()]


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


_SEPARATOR = re.compile(r" [-–—|·•:«»/] | ?[|»] ?|: ")
"""What stands between the name of a page and that of its site or chapter; white space is collapsed."""

_SITE_SEPARATOR = re.compile(r" [-–—|·«»] ")
_MAX_CHARACTERS = 1_000
"""Characters of a title in which names are looked for: the time grows with their number times the length."""
_NO_WORD = re.compile(r"\W+")
_MIN_CHARACTERS = 3
"""Characters of a heading that is looked for in a title: a shorter one occurs by chance."""


def find_title(title: str | None, headings: Sequence[tuple[int, int, str]], site: str | None) -> str | None:
    """The title of the head without the name of its site.

    If the page's own heading (the first of level 1, else the first of all) is a part of the title between separators,
    or begins with the title's first part, it is the title. Else the name that the page gives its site (`site`) is
    taken off. `title` may be None or empty.
    """
    heading = next((words for _, level, words in headings if level == 1), headings[0][2] if headings else "")
    if not title:
        return None
    title = " ".join(title.split())
    if len(title) > _MAX_CHARACTERS:
        return title
    key = _to_key(heading)
    parts = list(_parts(title))
    if len(key) >= _MIN_CHARACTERS and any(_to_key(part) == key for part in parts):
        return heading
    first = _to_key(_SITE_SEPARATOR.split(title, maxsplit=1)[0])
    if len(first) >= _MIN_CHARACTERS and first != _to_key(title) and key.startswith(first):
        return heading
    site_key = _to_key(site or "")
    return next((part for part in parts if site_key and _to_key(title.replace(part, "", 1)) == site_key), title)


def _parts(title: str) -> Iterator[str]:
    """What stands before each separator, the longest first, and then what stands behind each."""
    cuts = list(_SEPARATOR.finditer(title))
    yield from (title[: cut.start()] for cut in reversed(cuts))
    yield from (title[cut.end() :] for cut in cuts)


def _to_key(words: str) -> str:
    return _NO_WORD.sub("", words).casefold()
