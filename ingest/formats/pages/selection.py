"""Which text blocks of a page are its own text: those that trafilatura finds, and those of their kind that it misses.

What trafilatura finds is precise, but it loses code, tables and notes, a lead above the text, and paragraphs that stand
in columns of their own. And it takes some boxes for text: related articles, newsletters, authors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from aidre.ingest.formats.pages.blocks import TextBlock

MIN_WORDS = 40
"""A page with fewer words outside link lists is kept whole: it is too short to select from."""

MIN_WORD_SHARE = 0.05
"""Share of the words outside link lists: where trafilatura finds fewer, it has missed the text, and all is kept."""

_KIN_WORDS, _KIN_SHARE = 8, 0.3
"""A block that trafilatura missed is added from this many words on, if blocks of its kind (of the same two innermost
HTML blocks) hold this share of the text's words."""

_KIN_ABOVE = 3
"""Blocks of the kind of the text that may be added above its first one."""

_MARGIN_SHARE = 0.3
"""An element with more of a page's words is not a margin, whatever its name is."""

_MAX_MARGINS = 0.5
"""Share of the words that trafilatura finds: if more of them are in margins, the names mean something else here."""

_LEAD_BLOCKS, _LEAD_WORDS = 12, (8, 80)
_REFERENCE_SHARE = 0.05
"""Share of code and tables of a page of reference: trafilatura, which is made for articles, misses its prose, too."""

_HEADED_BLOCKS = 3
"""A heading is kept if the next block of this many (itself counted) that is not a heading is kept."""

_RUN_WORDS = 3
_MIN_SQUEEZED_CHARACTERS = 20
"""Characters without white space of a passage that is searched as a substring: shorter ones match by chance."""

_WORD = re.compile(r"\w+")


class Passages:
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


def count_words(text: str) -> int:
    return len(_WORD.findall(text))


def share_found(blocks: Sequence[TextBlock], lines: Sequence[str]) -> float:
    """The share of the words of a page, outside link lists, that are in some lines; 1.0 for a page without words."""
    passages = Passages(lines)
    prose = [(count_words(block.words), passages.contain(block.words)) for block in blocks if not block.is_link_list]
    total = sum(words for words, _ in prose)
    return sum(words for words, is_found in prose if is_found) / total if total else 1.0


def select_blocks(blocks: Sequence[TextBlock], lines: Sequence[str]) -> Sequence[TextBlock]:
    """The blocks that trafilatura's lines contain, and those that belong to them; all if it finds too few words."""
    words = [count_words(block.words) for block in blocks]
    if sum(count for count, block in zip(words, blocks, strict=True) if not block.is_link_list) < MIN_WORDS:
        return blocks
    if share_found(blocks, lines) < MIN_WORD_SHARE:
        return blocks
    passages = Passages(lines)
    margins = _find_margins(blocks, words)
    found = [passages.contain(block.words) for block in blocks]
    if sum(words[index] for index in margins if found[index]) < _MAX_MARGINS * _sum_where(words, found):
        found = [is_found and index not in margins for index, is_found in enumerate(found)]
    if True not in found:
        return blocks
    is_chosen = _with_missed(blocks, words, found, margins)
    return [block for index, block in enumerate(blocks) if is_chosen[index] or _heads_text(blocks, is_chosen, index)]


def _with_missed(
    blocks: Sequence[TextBlock], words: Sequence[int], found: Sequence[bool], margins: frozenset[int]
) -> list[bool]:
    """The blocks that were found, and those that were missed, but for blocks in `margins`."""
    first, last = found.index(True), len(found) - 1 - found[::-1].index(True)
    while last + 1 < len(blocks) and blocks[last + 1].is_verbatim and not blocks[last + 1].is_link_list:
        last += 1
    total = _sum_where(words, found)
    tabular = [is_found and block.is_verbatim for is_found, block in zip(found, blocks, strict=True)]
    is_reference = _sum_where(words, tabular) > _REFERENCE_SHARE * total
    kinds: Counter[tuple[str, ...]] = Counter()
    for block, count, is_found in zip(blocks, words, found, strict=True):
        kinds[block.kind] += count * is_found
    is_chosen = list(found)
    for index, block in enumerate(blocks):
        if is_chosen[index] or block.is_link_list or (index in margins and not block.is_note):
            continue
        if block.is_picture:
            is_chosen[index] = (
                first <= index <= last and not block.is_linked and (is_reference or _is_among(block, kinds))
            )
            continue
        is_kin = words[index] >= _KIN_WORDS and not block.is_linked and kinds[block.kind] >= _KIN_SHARE * total
        is_missed = is_reference or block.is_verbatim or block.is_note
        is_chosen[index] = (is_missed and first <= index <= last) or (is_kin and index >= first - _KIN_ABOVE)
    for index in _find_leads(blocks, words, first):
        is_chosen[index] = is_chosen[index] or index not in margins
    return is_chosen


def _is_among(block: TextBlock, kinds: Counter[tuple[str, ...]]) -> bool:
    """Whether a picture stands among paragraphs of the text, as one of them or beside them.

    Pictures of the news stand in elements of their own, and what describes them is not part of the article.
    """
    around = {name for kind, words in kinds.items() if words for name in kind[1:]}
    inner, *outer = (*block.kind, "", "")[:2]
    return kinds[block.kind] > 0 or inner in around or (inner in ("figure", "div") and outer[0] in around)


def _find_leads(blocks: Sequence[TextBlock], words: Sequence[int], first: int) -> list[int]:
    """The blocks between the heading of a page and the first block of its text that are named as a lead."""
    above = range(first, max(-1, first - _LEAD_BLOCKS - 1), -1)
    heading = next((index for index in above if any(level == 1 for _, level, _ in blocks[index].headings)), None)
    least, most = _LEAD_WORDS
    return [
        index
        for index in range(first if heading is None else heading, first)
        if blocks[index].is_lead and least <= words[index] <= most and not blocks[index].is_linked
    ]


def _find_margins(blocks: Sequence[TextBlock], words: Sequence[int]) -> frozenset[int]:
    """The blocks in elements that are named as margins of a page, and that are small."""
    sizes: Counter[int] = Counter()
    for block, count in zip(blocks, words, strict=True):
        for margin in block.margins:
            sizes[margin] += count
    most = _MARGIN_SHARE * sum(words)
    return frozenset(
        index for index, block in enumerate(blocks) if any(sizes[margin] <= most for margin in block.margins)
    )


def _heads_text(blocks: Sequence[TextBlock], is_chosen: Sequence[bool], index: int) -> bool:
    """Whether a block is the heading of a block that is kept, perhaps with other headings between them."""
    if not blocks[index].headings:
        return False
    for below in range(index + 1, min(len(blocks), index + _HEADED_BLOCKS)):
        if is_chosen[below] or not blocks[below].headings:
            return is_chosen[below]
    return False


def _sum_where(words: Sequence[int], chosen: Sequence[bool]) -> int:
    return sum(count for count, is_chosen in zip(words, chosen, strict=True) if is_chosen)
