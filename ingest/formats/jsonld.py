"""JSON-LD: expands `@graph` and links by `@id`, and tells nodes that are documents from nodes that are parts of others.

Follows links inside one text only and fetches nothing. A link is replaced by its node within bounds: chains end after
MAX_LINK_CHAIN links, a circle where it began, and once the budget of added values is spent links stay unresolved.
Knows no file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.formats.schemaorg import list_types

Node: TypeAlias = dict[str, Json]

PART_TYPES = frozenset(
    {
        "Person", "Organization", "Corporation", "Brand", "ImageObject", "VideoObject", "AudioObject", "MediaObject",
        "WebSite", "WebPage", "ItemPage", "CollectionPage", "ProfilePage", "AboutPage", "ContactPage", "SearchAction",
        "SearchResultsPage", "BreadcrumbList", "ListItem", "SiteNavigationElement", "WPHeader", "WPFooter",
        "WPSideBar", "WebPageElement", "Offer", "AggregateOffer", "AggregateRating", "Rating", "PostalAddress",
        "ContactPoint", "GeoCoordinates", "QuantitativeValue", "PropertyValue", "SpeakableSpecification",
    }
)  # fmt: skip
"""Types that describe another object or the site: a document of its own only if no node links to it."""

MAX_DEPTH = 100
MAX_LINK_CHAIN = 4
MAX_LINKED_VALUES = 2_000
"""Values that links may add to one object; a long string counts as several."""

MAX_TEXT_LINKED_VALUES = 100_000
LINKED_VALUES_PER_NODE = 64
"""Values that links may add to all objects of a text: a fixed number, and more for each node."""

_URL_PROPERTIES = ("url", "mainEntityOfPage", "@id")
_REFERENCE_PROPERTIES = ("@id", "@type", "name", "headline", "url")
"""Properties that stand for a linked node which is a document of its own."""

_VALUE_CHARACTERS = 64
"""Characters of a string that count as one value."""


def find_documents(value: Json) -> Iterator[tuple[int, Node | InvalidDocument]]:
    """The documents of a JSON-LD text with their links resolved; for an invalid node the reason. Each with its index.

    The index counts the outermost nodes from 0.

    A node is a part, and no document, if another node links to it and it has one of PART_TYPES or neither url nor
    mainEntityOfPage. If parts link to each other in a circle, the first of them is a document.
    """
    outermost = list(_flatten_graphs(value, {}))
    graph = _NodeGraph([node for node in outermost if type(node) is dict])
    for index, node in enumerate(outermost):
        if type(node) is not dict or ("@type" not in node and not graph.is_reached(node)):
            yield index, InvalidDocument("@graph must be a list of objects with @type")
        elif "@type" in node and graph.is_document(node):
            yield index, graph.resolve(node)


def find_main_object(nodes: Sequence[Node], urls: Collection[str]) -> Node | None:
    """The object that a page is about; None if there is none, or several without a distinction.

    Without PART_TYPES: the first with a url, @id or mainEntityOfPage in `urls`, else the only object, else the only
    ItemList. If there are only part types: the mainEntity of the page's own WebPage, or that WebPage.
    """
    content = [node for node in nodes if list_types(node) and not is_part_type(node)]
    page_urls = {_normalize_url(url) for url in urls}
    for node in content:
        if not page_urls.isdisjoint(_urls_of(node)):
            return node
    lists = [node for node in content if "ItemList" in list_types(node)]
    if len(content) == 1 or len(lists) == 1:
        return (lists or content)[0]
    pages = [node for node in nodes if any(name.endswith("Page") for name in list_types(node))]
    page = next((node for node in pages if not page_urls.isdisjoint(_urls_of(node))), None)
    if content or page is None:
        return None
    entity = page.get("mainEntity")
    return entity if type(entity) is dict and "@type" in entity else page


def has_links(node: Node) -> bool:
    """Whether an object contains a link: an object with nothing but an @id."""
    return any(_is_link(inner) for inner in _nested_objects(node))


def is_part_type(node: Mapping[str, Any]) -> bool:
    return any(name in PART_TYPES or name.endswith("Organization") for name in list_types(node))


def is_local_id(identity: Json) -> bool:
    """Whether an @id is valid only inside its text, like "#me" or "_:b0"."""
    return type(identity) is str and identity.startswith(("#", "_:"))


class _NodeGraph:
    """The nodes of one text by @id, and which of them are documents."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._by_id: dict[str, Node] = {}
        links: dict[int, set[str]] = {}
        for node in nodes:
            self._index([node])
        for node in nodes:
            self._index(_nested_objects(node))
            links[id(node)] = self._links(node)
        self._has_links = any(links.values())
        self._budget = 0
        self._text_budget = MAX_TEXT_LINKED_VALUES + LINKED_VALUES_PER_NODE * len(nodes)
        self._documents: set[int] = set()
        self._reached: set[int] = set()
        if self._has_links:
            self._find_documents(nodes, links)

    def is_document(self, node: Node) -> bool:
        return not self._has_links or id(node) in self._documents

    def is_reached(self, node: Node) -> bool:
        return id(node) in self._reached

    def resolve(self, node: Node) -> Node:
        """A copy of a node with its links resolved; the node itself if the text has no links."""
        if not self._has_links:
            return node
        budget = self._budget = min(MAX_LINKED_VALUES, self._text_budget)
        resolved: Node = self._resolve(node, MAX_DEPTH, (id(node),))
        self._text_budget -= budget - self._budget
        return resolved

    def _find_documents(self, nodes: Sequence[Node], links: Mapping[int, set[str]]) -> None:
        linked = {
            id(self._by_id[name])
            for node in nodes
            for name in links[id(node)]
            if name in self._by_id and self._by_id[name] is not node
        }
        typed = [node for node in nodes if "@type" in node]
        roots = [node for node in typed if id(node) not in linked or not _is_part(node)]
        self._reach(roots, links)
        for node in sorted(typed, key=is_part_type):
            if id(node) not in self._reached:  # in a circle of parts
                self._reach([node], links)

    def _reach(self, roots: Sequence[Node], links: Mapping[int, set[str]]) -> None:
        self._documents.update(map(id, roots))
        pending = list(roots)
        while pending:
            node = pending.pop()
            if id(node) not in self._reached:
                self._reached.add(id(node))
                names = links[id(node)] if id(node) in links else self._links(node)
                pending.extend(self._by_id[name] for name in names if name in self._by_id)

    def _index(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            name = node.get("@id")
            if type(name) is str and len(node) > 1:
                self._by_id.setdefault(name, node)

    @staticmethod
    def _links(node: Node) -> set[str]:
        return {inner["@id"] for inner in _nested_objects(node) if _is_link(inner)}

    def _resolve(self, value: Json, depth: int, chain: tuple[int, ...]) -> Json:
        if depth == 0:
            return value
        if type(value) is list:
            return [self._resolve(item, depth - 1, chain) for item in value]
        if type(value) is not dict:
            return value
        if _is_link(value):
            return self._resolve_link(value, depth, chain)
        return {name: self._resolve(item, depth - 1, chain) for name, item in value.items()}

    def _resolve_link(self, link: Node, depth: int, chain: tuple[int, ...]) -> Node:
        """The linked node; of a node that is a document a reference; the link itself beyond the bounds."""
        node = self._by_id.get(link["@id"])
        if node is None or id(node) in chain or len(chain) > MAX_LINK_CHAIN or not self._budget:
            return link
        if id(node) in self._documents:
            node = {name: node[name] for name in _REFERENCE_PROPERTIES if type(node.get(name)) in (str, list)}
        size = _count_values(node, self._budget)
        if size > self._budget:
            return link
        self._budget -= size
        content = {name: item for name, item in node.items() if name != "@context"}
        resolved: Node = self._resolve(content, depth, (*chain, id(node)))
        return resolved


def _flatten_graphs(value: Json, context: Node, depth: int = MAX_DEPTH) -> Iterator[Json]:
    """The outermost nodes of a text, each with its @context, and any other values in their places."""
    if type(value) is list and depth:
        for item in value:
            yield from _flatten_graphs(item, context, depth - 1)
    elif type(value) is dict and "@graph" in value and "@type" not in value and depth:
        own = {"@context": value["@context"]} if "@context" in value else context
        yield from _flatten_graphs(value["@graph"], own, depth - 1)
    elif type(value) is dict and context and "@context" not in value:
        yield context | value
    else:
        yield value


def _nested_objects(node: Node) -> Iterator[Node]:
    """The node itself and all objects inside it."""
    pending: list[tuple[Json, int]] = [(node, MAX_DEPTH)]
    while pending:
        value, depth = pending.pop()
        if type(value) is dict:
            yield value
        items: Iterable[Json] = value.values() if type(value) is dict else value
        if depth:
            pending.extend((item, depth - 1) for item in items if type(item) in (dict, list))


def _is_link(value: Node) -> bool:
    return len(value) == 1 and type(value.get("@id")) is str


def _is_part(node: Node) -> bool:
    return is_part_type(node) or not (node.get("url") or node.get("mainEntityOfPage"))


def _count_values(node: Node, limit: int) -> int:
    """The values of a node with unresolved links; counting stops beyond `limit`."""
    count = 0
    for inner in _nested_objects(node):
        for value in inner.values():
            items = value if type(value) is list else [value]
            count += sum(1 + (len(item) // _VALUE_CHARACTERS if type(item) is str else 0) for item in items)
        if count > limit:
            break
    return count


def _urls_of(node: Mapping[str, Any]) -> set[str]:
    urls = set()
    for name in _URL_PROPERTIES:
        for value in node[name] if type(node.get(name)) is list else [node.get(name)]:
            url = value.get("@id") or value.get("url") if type(value) is dict else value
            if type(url) is str:
                urls.add(_normalize_url(url))
    return urls - {""}


def _normalize_url(url: str) -> str:
    """A URL without scheme, "www.", trailing slash and fragment, in which spellings of a page's address differ."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    host = parts.netloc.lower().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}?{parts.query}" if host else ""
