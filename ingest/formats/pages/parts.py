"""The parts of an HTML page that are read in their own way: navigation, contents and indexes, boxes, rows of data.

They are found by roles, class names and relations of links as documentation generators write them (DocBook, Publican,
Sphinx, Texinfo, MkDocs, VitePress, Docusaurus), never by words: navigation is in the language of the page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from selectolax.lexbor import LexborHTMLParser, LexborNode

from aidre.ingest.formats.pages.grid import MAX_CELLS, count_cells
from aidre.ingest.formats.pages.hidden import find_hidden
from aidre.ingest.formats.pages.inline import number_items

_NAVIGATION = ",".join(
    (
        "[role=navigation],[role=search],.navheader,.navfooter,.docnav,.sphinxsidebar,.breadcrumb,.breadcrumbs",
        ".pagination,.pager,.nav-panel,.nav-links,.nav-buttons,.skip-link,.prev-next-area,.wy-breadcrumbs",
        ".contents-heading,.shortcontents-heading,.md-nav,.prev-next,.pagination-nav,.edit-page-link",
    )
)
_CONTENTS = (
    ".toc,#toc,.table-of-contents,[role=doc-toc],.contents,.shortcontents,.section-toc,table.menu,ul.menu,"
    ".toctree-wrapper,.printindex,.genindextable,.indextable,table[class^=index-],.index"
)
_GUTTERS = (
    "[class*=lineno],[class*=linenum],[class*=line-num],[class*=line_num],[class*=gutter],[class*=ln-num],.lnt,.ln,"
    "[data-line-number],[class*=blob-num],.code-line-number,.CodeMirror-linenumber"
)
_KEYS = ",".join(f'a[accesskey="{key}"]' for key in "npuNPU")
_STEPS = ",".join(f'a[rel~="{name}"]' for name in ("next", "prev", "previous", "up")) + f",{_KEYS}"
"""Links to the pages before, behind and above this one."""

_MAX_STEPS = 10_000
_STEPS_CHARACTERS = 600
_STEPS_OTHER_CHARACTERS = 160
"""Text of an element around such links, and how much of it may be outside of links (titles of neighbouring pages)."""

_STEPS_DEPTH = 6
_PAGE_TAGS = frozenset({"html", "body", "main", "article"})

_BOXES = ",".join(
    f"{tag}.{name}"
    for tag in ("div", "aside", "section", "blockquote", "details")
    for name in (
        "note", "tip", "warning", "caution", "important", "danger", "hint", "attention", "info", "error", "seealso",
        "admonition", "callout", "custom-block", "markdown-alert", "theme-admonition", "sidebar",
    )
)  # fmt: skip
_TITLES = "h2,h3,h4,h5,h6,[class*=title],[class*=heading],[class*=label],summary"
_MAX_TITLE_CHARACTERS = 200
_MAX_BOX_CHARACTERS = 4000
"""A longer box that is most of a page is the page."""

_UNFLAT = "table,pre,h1,h2,h3,h4,h5,h6"
_MAX_ROW_CHARACTERS = 1500
"""A row of data has less text; a longer one lays out a page."""


@dataclass(frozen=True, slots=True)
class PageParts:
    """Nodes by `mem_id`: navigation, lists of contents, boxes and the titles that they begin with, rows of data,
    elements that no reader sees, the numbers of lines beside code, and tables that are nothing but such rows (`grids`).

    A page of a book says by access keys which links are navigation, as pages of DocBook, Sphinx and Texinfo do.
    """

    navigation: frozenset[int]
    contents: frozenset[int]
    boxes: frozenset[int]
    titles: frozenset[int]
    rows: frozenset[int]
    hidden: frozenset[int]
    gutters: frozenset[int] = frozenset()
    is_book: bool = False
    grids: frozenset[int] = frozenset()
    numbers: Mapping[int, str] = field(default_factory=dict)
    """Numbers of the items of ordered lists."""

    def leaves_out(self, node: int) -> bool:
        return node in self.hidden or node in self.navigation or node in self.contents or node in self.gutters


def find_hidden_parts(tree: LexborHTMLParser) -> PageParts:
    """The parts of a fragment, or of a page that is too deep for the others: hidden elements alone."""
    none = frozenset[int]()
    return PageParts(
        none, none, none, none, none, find_hidden(tree), frozenset(_find_gutters(tree)), numbers=number_items(tree)
    )


def find_parts(tree: LexborHTMLParser) -> PageParts:
    body = tree.body
    if body is None:
        return find_hidden_parts(tree)
    half = len(_text_of(body)) // 2
    navigation = {node.mem_id for node in tree.css(_NAVIGATION) if _is_small(node, half)}
    rows = frozenset(node.mem_id for node in tree.css("tr") if _is_data(node))
    hidden = find_hidden(tree)
    contents = {node.mem_id for node in tree.css(_CONTENTS) if _is_small(node, half) and _is_linked(node)}
    boxes = dict(_find_boxes(tree, half))
    return PageParts(
        frozenset(navigation | set(_find_steps(tree, half))),
        frozenset(contents),
        frozenset(boxes),
        frozenset(boxes.values()),
        rows,
        hidden,
        frozenset(_find_gutters(tree)),
        len(tree.css(_KEYS)) > 1,
        frozenset(node.mem_id for node in tree.css("table") if _is_grid(node, rows, hidden)),
        number_items(tree),
    )


def _find_gutters(tree: LexborHTMLParser) -> Iterator[int]:
    """Elements beside or in code with nothing but the numbers of lines, and formulas that stand as <math>, too."""
    yield from (node.mem_id for node in tree.css(_GUTTERS) if _squeeze(_text_of(node)).isdecimal())
    if tree.css_first(".katex math") is not None:
        yield from (node.mem_id for node in tree.css(".katex-html"))


def _squeeze(text: str) -> str:
    return "".join(text.split())


def _text_of(node: LexborNode) -> str:
    return node.text(deep=True) or ""


def _is_small(node: LexborNode, half: int) -> bool:
    """Whether an element can be left out: it is neither the page nor most of its text, and holds no title of a page."""
    return node.tag not in _PAGE_TAGS and node.css_first("h1,main") is None and len(_text_of(node)) <= half


def _is_linked(node: LexborNode) -> bool:
    return 2 * _linked_characters(node) > len(_squeeze(_text_of(node)))


def _linked_characters(node: LexborNode) -> int:
    return sum(len(_squeeze(_text_of(link))) for link in node.css("a[href]"))


def _find_steps(tree: LexborHTMLParser, half: int) -> Iterator[int]:
    """The largest elements around links to neighbouring pages that hold little else."""
    verdicts: dict[int, bool] = {}
    for link in tree.css(_STEPS)[:_MAX_STEPS]:
        found, node = None, link.parent
        for _ in range(_STEPS_DEPTH):
            if node is None or node.tag in _PAGE_TAGS:
                break
            if node.mem_id not in verdicts:
                verdicts[node.mem_id] = _holds_steps(node, half)
            if verdicts[node.mem_id]:
                found = node.mem_id
            elif len(_text_of(node)) > _STEPS_CHARACTERS:
                break
            node = node.parent
        if found is not None:
            yield found


def _holds_steps(node: LexborNode, half: int) -> bool:
    """Whether an element has two links of navigation, and little text beside links."""
    text = _text_of(node)
    if len(text) > 4 * _STEPS_CHARACTERS or node.css_first("h1,h2,h3,h4,h5,h6,pre") is not None:
        return False
    solid = len(_squeeze(text))
    others = solid - _linked_characters(node)
    is_short = solid <= min(_STEPS_CHARACTERS, half) and others <= _STEPS_OTHER_CHARACTERS
    is_alone = 2 * others < solid
    return is_short and (len(node.css(_STEPS)) > 1 or (is_alone and node.tag != "p") or 4 * others < solid)


def _find_boxes(tree: LexborHTMLParser, half: int) -> Iterator[tuple[int, int]]:
    """Each box with the title that it begins with."""
    for box in tree.css(_BOXES):
        title = box.css_first(_TITLES)
        if title is None or title.mem_id == box.mem_id:
            continue
        words, text = _squeeze(_text_of(title)), _squeeze(_text_of(box))
        is_short = 0 < len(words) <= _MAX_TITLE_CHARACTERS and len(text) <= max(half, _MAX_BOX_CHARACTERS)
        if is_short and len(words) < len(text) and text.startswith(words):
            yield box.mem_id, title.mem_id


def find_fragment_parts(tree: LexborHTMLParser) -> PageParts:
    """The parts of a fragment: hidden elements and tables."""
    rows = frozenset(node.mem_id for node in tree.css("tr") if _is_data(node))
    hidden = find_hidden_parts(tree)
    grids = frozenset(node.mem_id for node in tree.css("table") if _is_grid(node, rows, hidden.hidden))
    return replace(hidden, rows=rows, grids=grids)


def _is_grid(table: LexborNode, rows: Collection[int], hidden: Collection[int]) -> bool:
    """Whether a table has several rows of data that readers see, and no others but short ones with one cell."""
    own = [row for row in table.css("tr") if row.css_first("td,th") is not None and row.mem_id not in hidden]
    data = sum(row.mem_id in rows for row in own)
    short = sum(row.mem_id not in rows and _is_title_row(row) for row in own)
    return data > 1 and data + short == len(own) and count_cells(table) <= MAX_CELLS


def _is_title_row(row: LexborNode) -> bool:
    return row.css_first(_UNFLAT) is None and len(_text_of(row)) <= _MAX_TITLE_CHARACTERS


def _is_data(row: LexborNode) -> bool:
    """Whether a row has several cells with short texts."""
    cells, child = 0, row.child
    while child is not None:
        cells += child.tag in ("td", "th")
        child = child.next
    return cells > 1 and row.css_first(_UNFLAT) is None and len(_text_of(row)) <= _MAX_ROW_CHARACTERS
