"""JSON-LD as the objects that are documents: `@graph`, links by `@id`, and which nodes are only parts of others.

Links are followed inside one text alone and nothing is ever fetched. What they lead to is put in their place, in
bounds: a chain of links ends after a few, a circle at its start, and a text that would grow without end stays as
it is from there on. Knows no file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Json
from aidre.ingest.schemaorg import types_of

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
"""What describes another object or the site: a document of its own only where nothing links to it."""

DEEPEST = 100
LONGEST_CHAIN = 4
MOST_LINKED = 2_000
MOST_LINKED_TOGETHER = 100_000
LINKED_PER_NODE = 64
"""Values (a long string counts for several) that links may add to an object, and to a text with its nodes."""

_ADDRESSES = ("url", "mainEntityOfPage", "@id")
_SHORT_FORM = ("@id", "@type", "name", "headline", "url")
_VALUE_CHARACTERS = 64


def objects(value: Json) -> Iterator[tuple[int, Node | InvalidDocument]]:
    """The objects of a JSON-LD text that are documents, with what is linked put in; a node that is none as why.

    Each comes with its place among the outermost nodes, from 0.

    A node is a part, and no document, when another one links to it and it is of PART_TYPES or has neither url nor
    mainEntityOfPage. Where nodes of this kind link to each other in a circle the first of them is a document.
    """
    found = list(_nodes(value, {}))
    nodes = [node for node in found if type(node) is dict]
    graph = _Graph(nodes)
    for place, node in enumerate(found):
        if type(node) is not dict or ("@type" not in node and not graph.is_reached(node)):
            yield place, InvalidDocument("@graph must be a list of objects with @type")
        elif "@type" in node and graph.is_document(node):
            yield place, graph.whole(node)


def main_object(found: Sequence[Node], urls: Collection[str]) -> Node | None:
    """The object that a page is about; None where there is none, or several and nothing tells which.

    The first whose url, @id or mainEntityOfPage is one of `urls`, else the only one, not counting PART_TYPES; else
    the only list of items; else what the page's own WebPage names as mainEntity, or that WebPage.
    """
    content = [each for each in found if types_of(each) and not is_part_type(each)]
    addresses = {_address(url) for url in urls}
    for each in content:
        if not addresses.isdisjoint(_addresses(each)):
            return each
    lists = [each for each in content if "ItemList" in types_of(each)]
    if len(content) == 1 or len(lists) == 1:
        return (lists or content)[0]
    pages = [each for each in found if any(kind.endswith("Page") for kind in types_of(each))]
    page = next((each for each in pages if not addresses.isdisjoint(_addresses(each))), None)
    if content or page is None:
        return None
    entity = page.get("mainEntity")
    return entity if type(entity) is dict and "@type" in entity else page


def has_links(node: Node) -> bool:
    """Whether anything in an object is only the name of another one."""
    return any(_is_link(each) for each in _objects_in(node))


def is_part_type(node: Mapping[str, Any]) -> bool:
    return any(kind in PART_TYPES or kind.endswith("Organization") for kind in types_of(node))


def is_local(identity: Json) -> bool:
    """Whether an @id is a name inside its text, like "#me" or "_:b0", and none for the world."""
    return type(identity) is str and identity.startswith(("#", "_:"))


class _Graph:
    """The nodes of one text by their names."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._named: dict[str, Node] = {}
        links: dict[int, set[str]] = {}
        for node in nodes:
            self._name([node])
        for node in nodes:
            self._name(_objects_in(node))
            links[id(node)] = self._links(node)
        self._has_links = any(links.values())
        self._room = 0
        self._room_together = MOST_LINKED_TOGETHER + LINKED_PER_NODE * len(nodes)
        self._documents: set[int] = set()
        self._reached: set[int] = set()
        if self._has_links:
            self._divide(nodes, links)

    def is_document(self, node: Node) -> bool:
        return not self._has_links or id(node) in self._documents

    def is_reached(self, node: Node) -> bool:
        return id(node) in self._reached

    def whole(self, node: Node) -> Node:
        """A node with what it links to; itself where it links to nothing."""
        if not self._has_links:
            return node
        room = self._room = min(MOST_LINKED, self._room_together)
        whole: Node = self._filled(node, DEEPEST, (id(node),))
        self._room_together -= room - self._room
        return whole

    def _divide(self, nodes: Sequence[Node], links: Mapping[int, set[str]]) -> None:
        linked = {
            id(self._named[name])
            for node in nodes
            for name in links[id(node)]
            if name in self._named and self._named[name] is not node
        }
        typed = [node for node in nodes if "@type" in node]
        roots = [node for node in typed if id(node) not in linked or not _is_part(node)]
        self._reach(roots, links)
        for node in sorted(typed, key=is_part_type):
            if id(node) not in self._reached:  # one of a circle of parts
                self._reach([node], links)

    def _reach(self, roots: Sequence[Node], links: Mapping[int, set[str]]) -> None:
        self._documents.update(map(id, roots))
        pending = list(roots)
        while pending:
            node = pending.pop()
            if id(node) not in self._reached:
                self._reached.add(id(node))
                names = links[id(node)] if id(node) in links else self._links(node)
                pending.extend(self._named[name] for name in names if name in self._named)

    def _name(self, found: Iterable[Node]) -> None:
        for each in found:
            name = each.get("@id")
            if type(name) is str and len(each) > 1:
                self._named.setdefault(name, each)

    @staticmethod
    def _links(node: Node) -> set[str]:
        return {each["@id"] for each in _objects_in(node) if _is_link(each)}

    def _filled(self, value: Json, depth: int, chain: tuple[int, ...]) -> Json:
        if depth == 0:
            return value
        if type(value) is list:
            return [self._filled(item, depth - 1, chain) for item in value]
        if type(value) is not dict:
            return value
        if _is_link(value):
            return self._linked(value, depth, chain)
        return {name: self._filled(item, depth - 1, chain) for name, item in value.items()}

    def _linked(self, link: Node, depth: int, chain: tuple[int, ...]) -> Node:
        node = self._named.get(link["@id"])
        if node is None or id(node) in chain or len(chain) > LONGEST_CHAIN or not self._room:
            return link
        if id(node) in self._documents:  # it comes back whole on its own
            node = {name: node[name] for name in _SHORT_FORM if type(node.get(name)) in (str, list)}
        added = _values(node, self._room)
        if added > self._room:
            return link
        self._room -= added
        filled: Node = self._filled(
            {name: item for name, item in node.items() if name != "@context"}, depth, (*chain, id(node))
        )
        return filled


def _nodes(value: Json, context: Node, depth: int = DEEPEST) -> Iterator[Json]:
    """The outermost nodes of a text, each with the context that it stands in, and whatever stands in place of one."""
    if type(value) is list and depth:
        for item in value:
            yield from _nodes(item, context, depth - 1)
    elif type(value) is dict and "@graph" in value and "@type" not in value and depth:
        own = {"@context": value["@context"]} if "@context" in value else context
        yield from _nodes(value["@graph"], own, depth - 1)
    elif type(value) is dict and context and "@context" not in value:
        yield context | value
    else:
        yield value


def _objects_in(node: Node) -> Iterator[Node]:
    pending: list[tuple[Json, int]] = [(node, DEEPEST)]
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


def _values(node: Node, most: int) -> int:
    """How much a node adds, without what its own links add; more than `most` need not be counted."""
    count = 0
    for each in _objects_in(node):
        for value in each.values():
            items = value if type(value) is list else [value]
            count += sum(1 + (len(item) // _VALUE_CHARACTERS if type(item) is str else 0) for item in items)
        if count > most:
            break
    return count


def _addresses(node: Mapping[str, Any]) -> set[str]:
    found = set()
    for name in _ADDRESSES:
        for value in node[name] if type(node.get(name)) is list else [node.get(name)]:
            address = value.get("@id") or value.get("url") if type(value) is dict else value
            if type(address) is str:
                found.add(_address(address))
    return found - {""}


def _address(url: str) -> str:
    """A URL without what two notations of the same page differ in."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return ""
    host = parts.netloc.lower().removeprefix("www.")
    return f"{host}{parts.path.rstrip('/')}?{parts.query}" if host else ""
