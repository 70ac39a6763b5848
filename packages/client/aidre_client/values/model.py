"""Documents, what a search is asked beside its hits, and what it answers: frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from aidre_client.values.display import as_html, beginning

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Mode: TypeAlias = Literal["hybrid", "dense", "lexical"]
Group: TypeAlias = Literal["chunk", "document"]
"""What the hits of a search are: chunks, or documents, each by its best chunk."""
FusionMethod: TypeAlias = Literal["score", "rrf"]
"""How words and vectors are joined: by scores, or by ranks."""
Json: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, list or dict."""
Span: TypeAlias = tuple[int, int]
"""Start and end in characters (code points) of a text; the end is not included."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of a document: the offset of its section in the text (in characters), its level and its title."""

    start: int
    level: int
    title: str


@dataclass(frozen=True, slots=True, repr=False)
class Document:
    """One text of a source, before chunking.

    `updated_at` is RFC 3339 in UTC ("2026-04-01T10:00:00Z"), None where the source has no date. `schema_object` is a
    whole schema.org object. `vectors` maps space ids to a vector of shape (dimensions,); a document with any is stored
    as one chunk. `verbatim` are the spans of code and tables, which are split only where a chunk cannot hold them,
    and then between lines. `origin` is the path of its file inside the source, or the URL it was fetched from; `state`
    then holds the validators for a later conditional request (etag, last_modified), and in any case when the document
    is to be read again because it is not published any more (`expires`).

    Examples:
        >>> docs.add(aidre.Document("tea", "Green tea draws two minutes.", title="Tea", metadata={"minutes": 2}))
        ['tea']
    """

    id: str
    text: str
    title: str | None = None
    url: str | None = None
    updated_at: str | None = None
    type: str | None = None
    section: str | None = None
    canonical: bool = True
    metadata: Mapping[str, Json] = field(default_factory=dict)
    semantic_payload: Json = None
    schema_object: Mapping[str, Json] | None = None
    vectors: Mapping[str, NDArray[np.float32]] | None = None
    headings: tuple[Heading, ...] = ()
    verbatim: tuple[tuple[int, int], ...] = ()
    source: str = ""
    origin: str = ""
    state: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        shown = {"title": self.title, "url": self.url, "metadata": dict(self.metadata)}
        members = "".join(f", {name}={value!r}" for name, value in shown.items() if value)
        return f"Document({self.id!r}, {beginning(self.text)!r}{members})"

    def _repr_html_(self) -> str:
        """For notebooks."""
        names = ("id", "title", "url", "updated_at", "type", "text", "metadata")
        return as_html({name: [getattr(self, name)] for name in names})


@dataclass(frozen=True, slots=True)
class Copies:
    """Documents that say nearly the same as a hit: how many were found, and the ids of the best chunks of the first."""

    count: int = 0
    ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class HighlightLimits:
    """`spans` words at most in each text, and `snippets` sentences of at most `snippet_chars` characters.

    Examples:
        >>> found = docs.search("hot rye", mode="lexical", highlight=aidre.HighlightLimits(spans=1))
        >>> found.highlights[0].text
        [(12, 15)]
    """

    spans: int = 100
    snippets: int = 1
    snippet_chars: int = 240


@dataclass(frozen=True, slots=True)
class Highlight:
    """Where the words of a query are in a chunk: in its text, its title and its section, in order; and the best
    sentences of the text, which are the first ones where no word is found.

    Examples:
        >>> found = docs.search("hot rye", mode="lexical", highlight=True)
        >>> [found[0].text[start:end] for start, end in found.highlights[0].text]
        ['rye', 'hot']
    """

    text: list[Span]
    title: list[Span]
    section: list[Span]
    snippets: list[Span]


FacetBound: TypeAlias = int | float | str | None


@dataclass(frozen=True, slots=True)
class FacetRequest:
    """A field whose values are counted: the most frequent `limit` ones, and the documents with a value in each of
    `ranges`, pairs of a least value and one above the greatest, where None is an open end. With `exclude_own` the
    conditions of the filter on the field itself do not hold.

    Examples:
        >>> asked = aidre.FacetRequest("minutes", limit=1, ranges=[(0, 20), (20, None)])
        >>> docs.search("dinner", facets=[asked]).facets["minutes"].ranges
        (1, 1)
    """

    field: str
    limit: int = 20
    ranges: Sequence[tuple[FacetBound, FacetBound]] = ()
    exclude_own: bool = False


@dataclass(frozen=True, slots=True)
class Facet:
    """The values of a field among some documents.

    `counts` has each distinct value with the number of documents that have it, the most frequent first, equal ones by
    type and value; a list counts once for each of its values. Dates are RFC 3339. `minimum` and `maximum` are of the
    numbers, or of the dates where there is no number. `missing` documents lack the field. `distinct` values there are,
    of which `counts` may have the first ones alone. `ranges` counts the documents with a value in each range.

    Examples:
        >>> found = docs.facets("minutes")["minutes"]
        >>> found.documents, found.missing, found.distinct
        (3, 1, 2)
    """

    counts: tuple[tuple[str | int | float | bool, int], ...]
    documents: int
    missing: int
    minimum: str | int | float | None
    maximum: str | int | float | None
    distinct: int = 0
    ranges: tuple[int, ...] = ()
