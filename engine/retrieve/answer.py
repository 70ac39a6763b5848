"""From a question to an answer: mode, vector, search, relevance, repair of typing errors, facets and highlights.

`answer` is a generator of steps. It decides what is asked; its driver embeds, searches and counts, in a thread or on
the event loop, and throws the errors of a step into it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import InvalidInput, ModelUnavailable, Unsupported, printable_name
from aidre.engine.index.fields import Filter, ValueRange, field_name, parse_range, without_field
from aidre.engine.index.text import MAX_HIGHLIGHTED
from aidre.engine.model import EmbeddingSpace, Highlight, Mode, Query, Rescore
from aidre.engine.ports import Reader
from aidre.engine.retrieve.by_document import Counted, has_passages, search_documents
from aidre.engine.retrieve.modes import can_fuse, is_lexical, resolve_mode, tells_words
from aidre.engine.retrieve.operators import Reading, read_operators
from aidre.engine.retrieve.pages import Page
from aidre.engine.retrieve.question import Question, State
from aidre.engine.retrieve.relevance import Finding, RelevanceScale, calibrated_scale, finding, is_calibrated
from aidre.engine.retrieve.repair import better_of
from aidre.engine.types import Facet, FacetRequest, Hit

HIGHLIGHT_SECONDS = 5e-8
"""About the time in which words are looked for in a character."""

Reranked: TypeAlias = Literal["feedback", "rescore"]


class Embed(NamedTuple):
    """Asks for the vector of a text in a space. Sent: shape (dimensions,). Thrown: ModelUnavailable, Busy."""

    space: EmbeddingSpace
    text: str


class Search(NamedTuple):
    """Asks for a `Page`. A later page is one after a first page of `first` hits, without what `newest` lacks; only that
    is asked for by what is `counted`."""

    reader: Reader
    query: Query
    newest: Reader
    first: int | None = None
    counted: Counted = "chunk"


class Count(NamedTuple):
    """Asks for the number of chunks that pass a filter."""

    reader: Reader
    filter: Filter


class Older(NamedTuple):
    """Asks for the `Position` that the cursor of a question means. Thrown: InvalidInput where the cursor is of another
    search, and errors of a state that is gone."""

    question: Question
    mode: Mode
    space: str | None


class Beside(NamedTuple):
    """Asks for the result of work beside the search, which takes about so many seconds; None: long."""

    seconds: float | None
    work: Callable[[], Any]


class Together(NamedTuple):
    """Asks for the results of several answers, in order, each in the collection of a place that the driver knows."""

    answers: tuple[tuple[int, Generator[Any, Any, Any]], ...]


Step: TypeAlias = Embed | Search | Count | Older | Beside | Together


class Position(NamedTuple):
    """Where a later page begins: in the state of the first page, which had `first` hits. `newest` is the state of the
    collection now; `mark` belongs to the driver."""

    reader: Reader
    first: int
    offset: int
    newest: State
    mark: Any = None


class Answer(NamedTuple):
    """The hits of a question, best first, and what was asked beside them.

    `question` is the one that was answered: with the repaired text where that is `corrected`; `suggestion` is a text
    that finds something, too. `space` and the query's vector are None for a lexical search. `best` is the best hit of
    all pages, None where it is not known. `next` is the offset of the next page, `position` that of this one where it
    is a later one. `passages` are, by hit, the next best chunks of its document, `copies` the best ones of its
    near-copies; None without `group` "document", and where documents are chunks. `ignored` are the fields of the filter
    that no document has. `reranked` says what ordered the first hits anew. `problem` is why a model was done without.
    `reading` are the operators that were read in the text; where its phrases stand nowhere, the text without quotes is
    the `corrected` one.
    """

    question: Question
    state: State
    mode: Mode
    space: EmbeddingSpace | None
    query: Query
    hits: list[Hit]
    best: Hit | None
    passages: list[tuple[Hit, ...]] | None = None
    copies: list[tuple[Hit, ...]] | None = None
    next: int | None = None
    position: Position | None = None
    ignored: tuple[str, ...] = ()
    reranked: Reranked | None = None
    scale: RelevanceScale | None = None
    corrected: str | None = None
    suggestion: str | None = None
    facets: tuple[Facet, ...] = ()
    highlights: list[Highlight] | None = None
    passage_highlights: list[list[Highlight]] | None = None
    problem: ModelUnavailable | None = None
    reading: Reading | None = None

    @property
    def relevances(self) -> list[float] | None:
        """The relevance of each hit, from 0 to 1; None without a scale."""
        return self.relevances_of(self.hits)

    def relevances_of(self, hits: Sequence[Hit]) -> list[float] | None:
        """As `relevances`, of some hits or passages."""
        return None if self.scale is None else self.scale.relevances([hit.score for hit in hits])


def answer(question: Question, state: State) -> Generator[Step, Any, Answer]:
    """The answer to a question in a collection. Raises the errors of a question that the collection cannot answer."""
    has_extras = bool(question.facets) or question.highlight is not None
    if has_extras:
        _check_extras(question, state.reader)
    found = yield from _as_read(question, state)
    return (yield from _with_extras(found)) if has_extras else found


def _as_read(question: Question, state: State) -> Generator[Step, Any, Answer]:
    """The answer to a question by its operators, if it has any: where its phrases stand nowhere, without them."""
    reading = None
    if question.operators and question.text is not None and tells_words(state):
        reading = read_operators(question.text)
    if reading is None:
        return (yield from _corrected(question, state))
    asked, narrowed = question._replace(text=reading.text), reading.narrowed(question.filter)
    try:
        found = yield from _corrected(asked._replace(filter=narrowed), state)
    except InvalidInput:  # a cursor may belong to the question without phrases
        if question.cursor is None or not reading.phrases:
            raise
    else:
        is_found = bool(found.hits) or not reading.phrases
        if not is_found and found.query.offset > 0:  # a page after the last hit
            is_found = (yield Count(state.reader, cast("Filter", narrowed))) > 0
        if is_found:
            return found._replace(reading=reading)
    asked = asked._replace(filter=reading.narrowed(question.filter, with_phrases=False))
    found = yield from _corrected(asked, state)
    return found._replace(reading=reading, corrected=found.corrected or reading.text)


def _corrected(question: Question, state: State) -> Generator[Step, Any, Answer]:
    """The answer to a question without what may be typing errors in it."""
    repaired = None
    if question.correct and question.text is not None and question.vector is None and tells_words(state):
        repaired = state.reader.corrected(question.text)
    if repaired is None:
        return (yield from find(question, state))
    if question.cursor is not None:
        return (yield from _later_page(question, repaired, state))
    return (yield from _better(question, repaired, state))


def find(question: Question, state: State) -> Generator[Step, Any, Answer]:
    """The answer to a question as it is typed, without facets and highlights."""
    mode, space, vector, problem = yield from _vector_of(question, state)
    position: Position | None = None
    reader, offset = state.reader, question.offset
    if question.cursor is not None:
        position = yield Older(question, mode, None if space is None else space.id)
        reader, offset, state = position.reader, position.offset, position.newest
    query, missing = yield from _query(question, state, reader, (mode, space, vector), offset)
    problem = missing or problem
    page = yield from _page(_to_count(question, reader), query, reader, state.reader, position)
    found = Answer(
        question,
        state,
        mode,
        space,
        query,
        page.hits,
        page.best,
        passages=page.passages,
        copies=page.copies,
        next=page.offset,
        position=position,
        ignored=(yield from _unknown_fields(reader, question.filter)),
        reranked=_reranked(reader, query),
        problem=problem,
    )
    if not question.scaled or question.text is None:
        return found
    if found.best is None and query.offset > 0:
        found = found._replace(best=(yield from _best_of(found)))
    return found._replace(scale=(yield from scale_of(found)))


def _to_count(question: Question, reader: Reader) -> Counted:
    if question.group == "document" and question.collapse:
        return "distinct"
    return "document" if question.group == "document" and has_passages(reader) else "chunk"


def _page(
    counted: Counted, query: Query, reader: Reader, newest: Reader, position: Position | None
) -> Generator[Step, Any, Page]:
    """A page of chunks or of documents; the first one of documents may take several searches for chunks."""
    if position is not None or counted == "chunk":
        first = None if position is None else position.first
        page: Page = yield Search(reader, query, newest, first, counted)
        return page
    steps = search_documents(reader, query, collapse=counted == "distinct")
    asked = next(steps)
    while True:
        page = yield Search(reader, asked, newest)
        try:
            asked = steps.send(page.hits)
        except StopIteration as end:
            hits, passages, copies, more = end.value
            return Page(hits, query.offset + len(hits) if more else None, page.best, passages, copies)


def _unknown_fields(reader: Reader, filter: Filter | None) -> Generator[Step, Any, tuple[str, ...]]:
    if filter is None:
        return ()
    if reader.waits:
        return cast("tuple[str, ...]", (yield Beside(None, partial(reader.unknown_fields, filter))))
    return reader.unknown_fields(filter)


def query_of(question: Question, state: State) -> Generator[Step, Any, Query]:
    """The query of a question as it is typed, for engines that are asked several at once."""
    mode, space, vector, _ = yield from _vector_of(question, state)
    query, _ = yield from _query(question, state, state.reader, (mode, space, vector), question.offset)
    return query


def _query(
    question: Question,
    state: State,
    reader: Reader,
    found: tuple[Mode, EmbeddingSpace | None, NDArray[np.float32] | None],
    offset: int,
) -> Generator[Step, Any, tuple[Query, ModelUnavailable | None]]:
    mode, space, vector = found
    space_id = None if space is None else space.id
    query = Query(vector, space_id, question.top_k, offset, question.filter, text=question.text, mode=mode)
    if mode != "hybrid":
        return query, None
    rescore, problem = None, None
    if state.policy.rescore is not None and question.vector is None:
        rescore, problem = yield from _rescore(question, state, reader)
    return replace(query, fusion=state.policy.fusion, rescore=rescore), problem


def _vector_of(
    question: Question, state: State
) -> Generator[Step, Any, tuple[Mode, EmbeddingSpace | None, NDArray[np.float32] | None, ModelUnavailable | None]]:
    """The mode, its space and the query vector; lexical if the model is unavailable and no mode was asked for."""
    mode, space = resolve_mode(state, question)
    if question.vector is not None or space is None:
        return mode, space, question.vector, None
    try:
        vector: NDArray[np.float32] = yield Embed(space, str(question.text))
    except ModelUnavailable as problem:
        if question.mode is not None or not is_lexical(state):
            raise
        return "lexical", None, None, problem
    return mode, space, vector, None


def _rescore(
    question: Question, state: State, reader: Reader
) -> Generator[Step, Any, tuple[Rescore | None, ModelUnavailable | None]]:
    """Re-scoring in the second space of the policy, if the collection has it and its model can be asked."""
    for space in reader.collection.spaces if reader.can.rescore else ():
        if space.id == state.policy.rescore and space.model is not None and can_fuse(reader, space):
            try:
                vector: NDArray[np.float32] = yield Embed(space, str(question.text))
            except ModelUnavailable as problem:  # the first scores are an answer, too
                return None, problem
            return Rescore(vector, space.id, state.policy.depth), None
    return None, None


def _reranked(reader: Reader, query: Query) -> Reranked | None:
    if query.mode != "hybrid":
        return None
    if query.rescore is not None:
        return "rescore"
    return "feedback" if reader.can.feedback and query.fusion.a > 0 else None


# -- relevance and repair ------------------------------------------------------------------------------------------


def scale_of(found: Answer) -> Generator[Step, Any, RelevanceScale]:
    """The scale for the scores of an answer to a text, by its best hit."""
    (reader, policy), query, space, best = found.state, found.query, found.space, found.best
    if space is None or not is_calibrated(space):
        return RelevanceScale(found.mode, space, 0.0)
    if best is None and query.offset > 0:
        best = yield from _best_of(found)
    if best is None:
        return RelevanceScale(found.mode, space, 0.0)
    chunks = reader.chunks
    if query.filter is not None:
        chunks = yield Count(reader, cast("Filter", query.filter))
    return calibrated_scale(
        query,
        space,
        best,
        chunks=chunks,
        centroid=reader.centroid(space.id),
        by_words=policy.lexical,
    )


def _best_of(found: Answer) -> Generator[Step, Any, Hit | None]:
    """The best hit of all pages, where the page begins after it."""
    page: Page = yield Search(found.state.reader, replace(found.query, top_k=1, offset=0), found.state.reader)
    return page.best


def _better(question: Question, repaired: str, state: State) -> Generator[Step, Any, Answer]:
    """The answer as typed, with the repaired text as suggestion if that finds anything; or the repaired one."""
    scaled = question._replace(scaled=True)
    typed = yield from find(scaled, state)

    def ask(text: str) -> Generator[Step, Any, Answer]:
        return find(scaled._replace(text=text), state)

    best = yield from better_of(typed, (str(question.text), repaired), ask, judge)
    return best[0]._replace(corrected=best[1], suggestion=best[2])


def judge(found: Answer) -> Finding | None:
    """How well a text did; None where there is no bound and so nothing to compare."""
    scale = found.scale
    if scale is None or (scale.bound == 0 and found.hits):
        return None
    return finding([found.best] if found.best is not None else found.hits, scale)


def _later_page(question: Question, repaired: str, state: State) -> Generator[Step, Any, Answer]:
    """The page of a cursor, which belongs to the question as typed or to the repaired one."""
    try:
        found = yield from find(question, state)
        return found._replace(suggestion=repaired)
    except InvalidInput as refusal:
        try:
            found = yield from find(question._replace(text=repaired), state)
        except InvalidInput:
            raise refusal from None
        return found._replace(corrected=repaired)


# -- beside the hits -----------------------------------------------------------------------------------------------


def _check_extras(question: Question, reader: Reader) -> None:
    """Unsupported, InvalidInput."""
    highlights = question.highlight is not None
    asked = ("facets", bool(question.facets), reader.can.facets), ("highlight", highlights, reader.can.highlight)
    for capability, is_asked, is_possible in asked:
        if is_asked and not is_possible:
            raise Unsupported(
                f"collection {reader.collection.name!r} has no {capability}: its engine lacks it", capability=capability
            )
    if question.highlight is not None and question.text is None:
        raise InvalidInput("highlight needs a text: a vector has no words")


def _with_extras(found: Answer) -> Generator[Step, Any, Answer]:
    """With the facets of all matches of the question, in the newest state, and the words of the text in each hit."""
    question, reader = found.question, found.state.reader
    facets: tuple[Facet, ...] = ()
    if question.facets:
        text = question.text if found.mode == "lexical" else None
        facets = yield Beside(None, partial(_counted_facets, reader, question.facets, question.filter, text))
    highlights: list[Highlight] | None = None
    of_passages: list[list[Highlight]] | None = None
    if question.highlight is not None:
        passages = found.passages or ()
        hits = [*found.hits, *chain.from_iterable(passages)]
        lengths = (end - start for start, end in (hit.chunk.span for hit in hits))
        seconds = sum(min(length, MAX_HIGHLIGHTED) for length in lengths) * HIGHLIGHT_SECONDS
        marked = iter((yield Beside(seconds, partial(reader.highlight, str(question.text), hits, question.highlight))))
        highlights = list(islice(marked, len(found.hits)))
        of_passages = [list(islice(marked, len(few))) for few in passages]
    return found._replace(facets=facets, highlights=highlights, passage_highlights=of_passages)


def _counted_facets(
    reader: Reader, requests: Sequence[FacetRequest], filter: Filter | None, text: str | None
) -> tuple[Facet, ...]:
    """The facets of the documents that pass a filter; with `text` of those with a word of it. InvalidFilter."""
    return tuple(_counted(reader, one, filter, text) for one in requests)


def _counted(reader: Reader, request: FacetRequest, filter: Filter | None, text: str | None) -> Facet:
    field = field_name(request.field)
    if request.exclude_own and filter is not None:
        filter = without_field(filter, field)
    return reader.facet(field, filter, text=text, limit=request.limit, ranges=parsed_ranges(request))


def parsed_ranges(request: FacetRequest, where: str | None = None) -> tuple[ValueRange, ...]:
    """The ranges of a facet; `where` names it in an error. InvalidFilter."""
    where = f"facet {printable_name(request.field)!r}" if where is None else where
    name = field_name(request.field)
    return tuple(
        parse_range(name, low, high, f"{where}.ranges[{number}]") for number, (low, high) in enumerate(request.ranges)
    )
