"""The parts of an HTML page that are read in their own way: navigation, contents and indexes, boxes, rows of data.

They are found by roles, class names and relations of links as documentation generators write them (DocBook, Publican,
Sphinx, Texinfo, MkDocs, VitePress, Docusaurus), never by words: navigation is in the language of the page.

Elements of an HTML page that no reader ever sees, as opposed to those that a click shows: tabs, accordions, answers.

An element is hidden by its own attributes: `hidden`, or `display: none` or `visibility: hidden` in its style. Built
pages keep all tabs but the first one hidden, so what a control may show is text of the page: the element is a tab's
panel by role or by its class, stands in or behind an element that opens it, or is named by a control. Tables of data
in an HTML page as tables of Markdown, in which every cell is under the name of its column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from selectolax.lexbor import LexborHTMLParser, LexborNode

from aidre.ingest.formats.pages.inline import children, number_items
from aidre.ingest.formats.pages.markdown_table import Cell, write_cells

ReadCell: TypeAlias = Callable[[LexborNode], tuple[str, int]]
"""The text of an element, in one line, and how many of its characters are links."""

MAX_CELLS = 100_000
"""Cells of a table with those that spans add."""

_MAX_SPAN = 1000


@dataclass(frozen=True, slots=True)
class Grid:
    """`text` is the table, `linked_characters` as many as have the same share of it as links have of the cells."""

    text: str
    linked_characters: int
    caption: str


def read_grid(table: LexborNode, read: ReadCell, left_out: Collection[int]) -> Grid:
    """The table of an element; an empty text for one without words. Elements `left_out` (`mem_id`) are not read."""
    caption = next((read(node)[0] for node in children(table) if node.tag == "caption"), "")
    rows, heads, words, linked = list[list[Cell]](), 0, 0, 0
    for row in _rows(table, left_out):
        cells = list[Cell]()
        for node in children(row):
            if node.tag in ("td", "th") and node.mem_id not in left_out:
                text, links = read(node)
                words, linked = words + len(text), linked + links
                cells.append(Cell(text, _span(node, "colspan"), _span(node, "rowspan"), node.tag == "th"))
        is_head = row.parent is not None and row.parent.tag == "thead"
        heads += is_head and heads == len(rows)
        rows.append(cells)
    above, text = write_cells(rows, heads)
    return Grid(text, len(text) * linked // max(1, words), " ".join(filter(None, (caption, above))))


def count_cells(table: LexborNode) -> int:
    """The cells of a table with those that its spans add, at least; stops beyond MAX_CELLS."""
    count = 0
    for row in _rows(table, ()):
        for node in children(row):
            count += _span(node, "colspan") * _span(node, "rowspan") if node.tag in ("td", "th") else 0
        if count > MAX_CELLS:
            break
    return count


def _rows(table: LexborNode, left_out: Collection[int]) -> Iterator[LexborNode]:
    for child in children(table):
        if child.mem_id in left_out:
            continue
        if child.tag == "tr":
            yield child
        elif child.tag in ("thead", "tbody", "tfoot"):
            yield from _rows(child, left_out)


def _span(cell: LexborNode, name: str) -> int:
    value = (cell.attributes.get(name) or "").strip()
    return min(max(1, int(value)), _MAX_SPAN) if value.isascii() and value.isdecimal() and len(value) < 6 else 1


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
    element: LexborNode | None = node
    for _ in range(_LEVELS):
        if element is None or element.tag in _PAGE:
            return False
        # The tag of a component, too, such as amp-accordion.
        names = f"{element.tag} {element.attributes.get('class') or ''}"
        if _OPENED.search(_WORD_START.sub("-", names)):
            return True
        element = element.parent
    return False


def _follows_control(node: LexborNode) -> bool:
    """Whether the element before it is a control that shows and hides it, as a question does with its answer."""
    before = node.prev
    while before is not None and (before.tag or "").startswith("-"):
        before = before.prev
    if before is None:
        return False
    attributes = before.attributes
    is_control = before.tag in ("button", "summary") or attributes.get("role") in ("button", "tab")
    return is_control or "aria-expanded" in attributes or before.css_first("button,[aria-expanded]") is not None


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
