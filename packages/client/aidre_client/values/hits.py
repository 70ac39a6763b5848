"""The hits of a query with what was asked beside them, and those of many queries, as lists or as one Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, overload

from aidre_client.values import frames
from aidre_client.values.display import as_html, beginning
from aidre_client.values.model import Copies, Facet, Highlight, Json, Mode, Span

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from numpy.typing import NDArray
    from typing_extensions import TypeVar
else:
    from typing import TypeVar


class FoundChunk(Protocol):
    """A chunk with the properties of its document, as every search gives it."""

    @property
    def id(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def span(self) -> Span:
        """Start and end of the text in its document, in characters."""

    @property
    def section(self) -> str | None: ...
    @property
    def content_hash(self) -> str:
        """ "sha256:" and the SHA-256 of the text's UTF-8 bytes in hexadecimal."""

    def vectors(self) -> Mapping[str, NDArray[np.float32]]:
        """By space, the vector of the chunk with the norm that it was ingested with."""

    @property
    def document_id(self) -> str: ...
    @property
    def url(self) -> str | None: ...
    @property
    def title(self) -> str | None: ...
    @property
    def type(self) -> str | None: ...
    @property
    def updated_at(self) -> str: ...
    @property
    def metadata(self) -> Mapping[str, Json]: ...
    @property
    def json_payload(self) -> bytes | None:
        """The semantic payload: that of the document, else its schema.org object."""

    @property
    def schema_object(self) -> bytes | None:
        """The schema.org object as JSON."""


@dataclass(frozen=True, slots=True)
class KeptChunk:
    """A chunk by its values, as one of an engine is sent to another process, which has no open segment."""

    id: str
    text: str
    span: Span
    section: str | None
    content_hash: str
    document_id: str
    url: str | None
    title: str | None
    type: str | None
    updated_at: str
    metadata: Mapping[str, Json]
    json_payload: bytes | None
    schema_object: bytes | None
    embeddings: Mapping[str, NDArray[np.float32]]

    def vectors(self) -> Mapping[str, NDArray[np.float32]]:
        return self.embeddings


def kept_chunk(chunk: FoundChunk) -> tuple[Any, ...]:
    """What pickle makes a KeptChunk of, for the `__reduce__` of a chunk."""
    names = [member.name for member in fields(KeptChunk) if member.name != "embeddings"]
    return KeptChunk, (*(getattr(chunk, name) for name in names), dict(chunk.vectors()))


if TYPE_CHECKING:  # the default is for type checkers: typing has it from Python 3.13 on
    ChunkT_co = TypeVar("ChunkT_co", bound=FoundChunk, default=FoundChunk, covariant=True)
else:
    ChunkT_co = TypeVar("ChunkT_co", covariant=True)


class Hit(NamedTuple, Generic[ChunkT_co]):
    """A chunk and its score; larger is better. The properties are those of the chunk.

    Examples:
        >>> hit = docs.search("a warm dish", k=1)[0]
        >>> hit.document_id, hit.title, hit.metadata["minutes"]
        ('soup', 'Soup', 35)
    """

    chunk: ChunkT_co
    score: float

    def __repr__(self) -> str:
        return f"<Hit {self.id!r}, score {self.score:.4f}: {beginning(self.text)!r}>"

    def _repr_html_(self) -> str:
        return as_html(frames.columns_of([self]))

    @property
    def id(self) -> str:
        return self.chunk.id

    @property
    def document_id(self) -> str:
        return self.chunk.document_id

    @property
    def text(self) -> str:
        return self.chunk.text

    @property
    def title(self) -> str | None:
        return self.chunk.title

    @property
    def url(self) -> str | None:
        return self.chunk.url

    @property
    def metadata(self) -> Mapping[str, Json]:
        return self.chunk.metadata


class Hits(list[Hit]):
    """The hits of a search, best first: a list, with what was asked beside them.

    `facets` are by field as it was named, `highlights` those of the hits, in their order. With `group="document"` each
    hit is the best chunk of its document; `passages` has, by hit, the next best ones, and `copies` the documents that
    are near-copies of it. `corrected` is the text that was answered in place of the one as typed, `suggestion` one that
    finds something, too. `understood` has the `phrases` and the `excluded` words that were read in it, and the
    `conditions`: the `words` of each, the `filter` or the `order` that they ask for, and whether it was `applied`.
    `unknown_fields` are those of filter and order that no document has: a condition on one finds nothing, and its
    negation everything. `mode` and `space` are those of the search, which is lexical where a model is missing and no
    mode was asked for.

    Examples:
        >>> hits = docs.search("a warm dish", k=2)
        >>> len(hits), hits.mode, hits.relevance[0] > hits.relevance[1]
        (2, 'hybrid', True)
    """

    facets: Mapping[str, Facet] = MappingProxyType({})
    highlights: Sequence[Highlight] = ()
    passages: Sequence[Sequence[Hit]] = ()
    copies: Sequence[Copies] = ()
    corrected: str | None = None
    suggestion: str | None = None
    understood: Mapping[str, Any] = MappingProxyType({})
    unknown_fields: Sequence[str] = ()
    mode: Mode | None = None
    space: str | None = None
    _relevance: list[float] | Callable[[Hits], list[float]] | None = None

    @property
    def relevance(self) -> list[float] | None:
        """The relevance of each hit from 0 to 1, on one scale for all modes and collections: from 0.51 on a hit counts
        as relevant. None for a vector, and where a server does not say. It is computed when it is asked for."""
        if callable(self._relevance):
            self._relevance = self._relevance(self)
        return self._relevance

    def set_relevance(self, relevance: list[float] | Callable[[Hits], list[float]] | None) -> None:
        """For those who make a list of hits: the relevances, or a function that computes them."""
        self._relevance = relevance

    def __getstate__(self) -> dict[str, Any]:
        """What computes the relevance stays where the search was."""
        return {**self.__dict__, "_relevance": self.relevance}

    def to_arrow(self) -> pa.Table:
        """One row a hit: rank (from 0), score, id, document_id, text, title, url and metadata, a struct of the fields
        that the hits have; values of several types are JSON there, and nulls are missing. ConfigurationError.

        Examples:
            >>> docs.search("a warm dish", k=1).to_arrow().column("document_id").to_pylist()
            ['soup']
        """
        return frames.to_arrow(frames.columns_of(self))

    def to_pandas(self) -> pd.DataFrame:
        """The columns of `to_arrow`, metadata as the dicts that the hits have. ConfigurationError.

        Examples:
            >>> list(docs.search("a warm dish", k=1).to_pandas()["title"])
            ['Soup']
        """
        return frames.to_pandas(frames.columns_of(self))

    def to_polars(self) -> pl.DataFrame:
        """The columns of `to_arrow`. ConfigurationError.

        Examples:
            >>> docs.search("a warm dish", k=1).to_polars()["title"].to_list()
            ['Soup']
        """
        return frames.to_polars(frames.columns_of(self))

    def _repr_html_(self) -> str:
        return as_html(frames.columns_of(self))


class SearchResults(Sequence[Hits]):
    """The hits of each query, in the order of the queries. `unknown_fields` are those of `Hits`.

    Examples:
        >>> found = docs.search_many(["soup", "tyre"], k=1)
        >>> len(found), found[1][0].document_id
        (2, 'tyre')
    """

    def __init__(self, hits: Sequence[Hits], unknown_fields: Sequence[str] = ()) -> None:
        self._hits, self.unknown_fields = hits, unknown_fields

    def __len__(self) -> int:
        return len(self._hits)

    @overload
    def __getitem__(self, index: int) -> Hits: ...
    @overload
    def __getitem__(self, index: slice) -> SearchResults: ...
    def __getitem__(self, index: int | slice) -> Hits | SearchResults:
        if isinstance(index, slice):
            return SearchResults(self._hits[index], self.unknown_fields)
        return self._hits[index]

    def __iter__(self) -> Iterator[Hits]:
        return iter(self._hits)

    def __repr__(self) -> str:
        return f"<SearchResults of {len(self)} queries>"

    def to_arrow(self) -> pa.Table:
        """The rows of `Hits.to_arrow` after one another, with query, the index of the query of each.

        Examples:
            >>> docs.search_many(["soup", "tyre"], k=1).to_arrow().column("document_id").to_pylist()
            ['soup', 'tyre']
        """
        return frames.to_arrow(self._columns())

    def to_pandas(self) -> pd.DataFrame:
        """The columns of `to_arrow`, metadata as the dicts that the hits have. ConfigurationError.

        Examples:
            >>> list(docs.search_many(["soup", "tyre"], k=1).to_pandas()["query"])
            [0, 1]
        """
        return frames.to_pandas(self._columns())

    def to_polars(self) -> pl.DataFrame:
        """The columns of `to_arrow`. ConfigurationError.

        Examples:
            >>> docs.search_many(["soup", "tyre"], k=1).to_polars()["query"].to_list()
            [0, 1]
        """
        return frames.to_polars(self._columns())

    def _repr_html_(self) -> str:
        return as_html(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        return frames.columns_of_many(self._hits)


def join_hits(found: Sequence[Hits]) -> SearchResults:
    """The hits of searches that were made one by one."""
    return SearchResults(found, tuple(dict.fromkeys(name for hits in found for name in hits.unknown_fields)))
