"""From a question to an answer: mode, vector, search, relevance, repair of typing errors, facets and highlights.

`answer` is a generator of steps. It decides what is asked; its driver embeds, searches and counts, in a thread or on
the event loop, and throws the errors of a step into it.
"""

from __future__ import annotations

import operator
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import InvalidInput, ModelUnavailable, Unsupported, printable_name
from aidre.engine.index.fields import (
    And,
    Compare,
    Filter,
    ValueRange,
    field_name,
    parse_range,
    unmistakable_name,
    without_field,
)
from aidre.engine.index.text import MAX_HIGHLIGHTED
from aidre.engine.model import EmbeddingSpace, Highlight, Mode, Query, Rescore
from aidre.engine.ports import Reader
from aidre.engine.retrieve.by_document import Counted, has_passages, search_documents
from aidre.engine.retrieve.conditions import FieldOrder, order_value
from aidre.engine.retrieve.evidence import evidence_for
from aidre.engine.retrieve.modes import can_fuse, is_lexical, resolve_mode, tells_words
from aidre.engine.retrieve.operators import QuestionReading
from aidre.engine.retrieve.paging import SearchPage, length_for
from aidre.engine.retrieve.question import Question, Rerank, State
from aidre.engine.retrieve.question_reading import attempts, read
from aidre.engine.retrieve.relevance import FIRST_HITS, RELEVANT, QuestionRelevance, RelevanceScale, finding, scale_for
from aidre.engine.retrieve.repair import better_of
from aidre.engine.retrieve.steps import Beside, Count, Embed, Older, Position, Search, Step
from aidre.engine.types import Facet, FacetRequest, Hit

HIGHLIGHT_SECONDS = 5e-8
"""About the time in which words are looked for in a character."""

ORDERED: Final = 100
"""Best hits of a question that are put in the order of a field; those after them keep theirs."""

RERANKED: Final = 50
"""Best hits of a question that a reranker scores again; those after them keep scores of another scale."""

_EQUAL: Final = 1e-9

Reranked: TypeAlias = Literal["feedback", "rescore"]


class Answer(NamedTuple):
    """The hits of a question, best first, and what was asked beside them.

    `question` is the one that was answered: with the repaired text where that is `corrected`; `suggestion` is a text
    that finds something, too. `space` and the query's vector are None for a lexical search. `best` are the first hits
    of all pages, None where they are not known. `next` is the offset of the next page, `position` that of this one
    where it is a later one. `passages` are, by hit, the next best chunks of its document, `copies` the best ones of its
    near-copies; None without `group` "document", and where documents are chunks. `ignored` are the fields of filter
    and order that no document has. `reranked` says what reordered the first hits. `problem` is why a model was done
    without. `reading` are the operators that were read in the text; where its phrases stand nowhere, the text without
    quotes is the `corrected` one. `unranked` are hits that were scored again, as the search scored them.
    """

    question: Question
    state: State
    mode: Mode
    space: EmbeddingSpace | None
    query: Query
    hits: list[Hit]
    best: Sequence[Hit] | None
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
    reading: QuestionReading | None = None
    unranked: Sequence[Hit] = ()

    @property
    def relevances(self) -> list[float] | None:
        """The relevance of each hit, from 0 to 1; None without a scale."""
        return self.relevances_of(self.hits)

    @property
    def relevant(self) -> list[Hit]:
        """The hits that are relevant; all of them without a scale."""
        pairs = zip(self.hits, self.relevances or [1.0] * len(self.hits), strict=True)
        return [hit for hit, relevance in pairs if relevance >= RELEVANT]

    @property
    def may_go_on(self) -> bool:
        """Whether hits of later pages may be relevant, as far as scores tell; where ranks are fused, those of this one
        are asked."""
        if self.scale is None or not self.hits:
            return True
        relevances = self.scale.relevances(self.hits) if self.scale.by_rank else self.scale.by_score(self.hits[-1:])
        return max(relevances) >= RELEVANT

    def relevances_of(self, hits: Sequence[Hit]) -> list[float] | None:
        """As `relevances`, of some hits or passages."""
        return None if self.scale is None else self.scale.relevances(hits)


def answer(question: Question, state: State) -> Generator[Step, Any, Answer]:
    """The answer to a question in a collection. Raises the errors of a question that the collection cannot answer."""
    has_extras = bool(question.facets) or question.highlight is not None
    if has_extras:
        _check_extras(question, state.reader)
    found = yield from _as_read(question, state)
    return (yield from _with_extras(found)) if has_extras else found


def _as_read(question: Question, state: State) -> Generator[Step, Any, Answer]:
    """The answer to a question by its operators and conditions, without those that leave nothing."""
    readings = None
    if question.operators and question.text is not None:
        readings = yield from read(question.text, [state])
    if readings is None:
        return (yield from _corrected(question, state))
    refusal: InvalidInput | None = None
    found: Answer | None = None
    for [reading], with_phrases in attempts(readings):
        filter = reading.narrowed(question.filter, with_phrases=with_phrases)
        read_question = question._replace(text=reading.text, filter=filter, order=question.order or reading.order)
        try:
            found = yield from _corrected(read_question, state)
        except InvalidInput as error:  # a cursor may belong to the question without phrases or conditions
            if question.cursor is None:
                raise
            refusal = refusal or error
            continue
        corrected = found.corrected if with_phrases else found.corrected or reading.text
        found = found._replace(reading=reading, corrected=corrected)
        is_found = bool(found.hits)
        if not is_found and found.query.offset > 0 and filter is not None:  # a page after the last hit
            is_found = (yield Count(state.reader, filter)) > 0
        if is_found:
            return found
    if found is None:
        raise cast("InvalidInput", refusal)
    return found


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
    listed, place = query, position
    if question.order is not None:  # all pages are cut from one list of the best hits
        end = offset + query.top_k
        listed, place = replace(query, top_k=ORDERED if end <= ORDERED else length_for(end), offset=0), None
    elif question.rerank is not None:
        end = offset + query.top_k
        listed = replace(query, top_k=RERANKED if end <= RERANKED else length_for(end), offset=0)
    page = yield from _page(_to_count(question, reader), listed, reader, state.reader, place)
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
        ignored=(yield from _unknown_fields(reader, question)),
        reranked=_reranked(reader, query),
        problem=missing or problem,
    )
    if question.text is not None and (question.scaled or (question.order is not None and question.order.all_relevant)):
        if found.best is None and query.offset > 0:
            found = found._replace(best=(yield from _best_of(found)))
        found = found._replace(scale=(yield from scale_of(found)))
    if question.order is not None:
        return (yield from _ordered(found, question.order, offset))
    return found if question.rerank is None else (yield from _reranked_by(found, question.rerank, offset))


def _reranked_by(found: Answer, rerank: Rerank, offset: int) -> Generator[Step, Any, Answer]:
    """One page of hits: those that were reranked, then the others with their former scores."""
    best = found.hits[:RERANKED]
    scores: Sequence[float] = yield Beside(None, partial(rerank, str(found.question.text), best))
    order = sorted(range(len(best)), key=lambda place: (-scores[place], best[place].chunk.id))
    hits = [*(Hit(best[place].chunk, float(scores[place])) for place in order), *found.hits[RERANKED:]]
    shown = slice(offset, offset + found.question.top_k)
    places = [*order, *range(len(best), len(found.hits))][shown]
    return found._replace(
        hits=hits[shown],
        unranked=[found.hits[place] for place in places],
        passages=None if found.passages is None else [found.passages[place] for place in places],
        copies=None if found.copies is None else [found.copies[place] for place in places],
    )


def _ordered(found: Answer, order: FieldOrder, offset: int) -> Generator[Step, Any, Answer]:
    """One page of the hits that are sorted by a field."""
    places: list[int] = yield Beside(None, partial(_in_order, found, order))
    if found.position is not None and found.position.reader is not found.state.reader:
        places = [place for place in places if found.state.reader.get(found.hits[place].chunk.id) is not None]
    end = offset + found.question.top_k
    shown = places[offset:end]
    return found._replace(
        hits=[found.hits[place] for place in shown],
        passages=None if found.passages is None else [found.passages[place] for place in shown],
        copies=None if found.copies is None else [found.copies[place] for place in shown],
        next=end if end < len(places) else None,
    )


def _in_order(found: Answer, order: FieldOrder) -> list[int]:
    """The places of the hits that fit, in the order of a field, and then of the others by score."""
    reader = found.state.reader if found.position is None else found.position.reader
    relevances = found.relevances or [1.0] * len(found.hits)
    shares = [1.0] * len(found.hits)
    if not order.all_relevant and reader.can.words and found.question.text is not None and found.hits:
        _, shares = reader.word_shares(found.question.text, found.hits)
    sign = -1 if order.direction == "descending" else 1

    def key(place: int) -> tuple[bool, bool, float]:
        fits = relevances[place] >= RELEVANT and shares[place] >= shares[0] - _EQUAL
        value = order_value(found.hits[place].chunk, order.field) if fits else None
        return not fits, value is None, sign * (value or 0.0)

    places = range(len(found.hits))
    return [*sorted(places[:ORDERED], key=key), *places[ORDERED:]]


def _to_count(question: Question, reader: Reader) -> Counted:
    if question.group == "document" and question.collapse:
        return "distinct"
    return "document" if question.group == "document" and has_passages(reader) else "chunk"


def _page(
    counted: Counted, query: Query, reader: Reader, newest: Reader, position: Position | None
) -> Generator[Step, Any, SearchPage]:
    """A page of chunks or of documents; the first one of documents may take several searches for chunks."""
    if position is not None or counted == "chunk" or query.offset > 0:
        first = None if position is None else position.first
        page: SearchPage = yield Search(reader, query, newest, first, counted)
        return page
    steps = search_documents(reader, query, collapse=counted == "distinct")
    chunk_query = next(steps)
    while True:
        page = yield Search(reader, chunk_query, newest)
        try:
            chunk_query = steps.send(page.hits)
        except StopIteration as end:
            hits, passages, copies, more = end.value
            return SearchPage(hits, query.offset + len(hits) if more else None, page.best, passages, copies)


def _unknown_fields(reader: Reader, question: Question) -> Generator[Step, Any, tuple[str, ...]]:
    named = [] if question.filter is None else [question.filter]
    if question.order is not None:
        named.append(Compare(unmistakable_name(question.order.field), "exists", value=True))
    if not named:
        return ()
    if reader.waits:
        return cast("tuple[str, ...]", (yield Beside(None, partial(reader.unknown_fields, And(tuple(named))))))
    return reader.unknown_fields(And(tuple(named)))


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
    if question.recall is not None and not reader.can.recall:
        name = reader.collection.name
        raise Unsupported(
            f"collection {name!r} has no recall: its engine measures none; leave it out", capability="recall"
        )
    recall = state.policy.recall if question.recall is None else question.recall
    query = Query(
        vector, space_id, question.top_k, offset, question.filter, text=question.text, mode=mode, recall=recall
    )
    if mode != "hybrid":
        return query, None
    fusion = state.policy.fusion
    if question.weight is not None:
        fusion = replace(fusion, a=question.weight)
    if question.fusion is not None:
        fusion = replace(fusion, method=question.fusion)
    rescore, problem = None, None
    if state.policy.rescore is not None and question.vector is None and fusion.method == "score":
        rescore, problem = yield from _rescore(question, state, reader)
    return replace(query, fusion=fusion, rescore=rescore), problem


def _vector_of(
    question: Question, state: State
) -> Generator[Step, Any, tuple[Mode, EmbeddingSpace | None, NDArray[np.float32] | None, ModelUnavailable | None]]:
    """The mode, its space and the query vector; lexical if the model is unavailable and no mode was asked for."""
    mode, space = resolve_mode(state, question)
    for name, value in (("weights", question.weight), ("fusion", question.fusion)):
        if value is not None and mode != "hybrid":
            raise InvalidInput(f"{name}= is for hybrid search, and this one is {mode}: leave it out")
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
    if query.mode != "hybrid" or query.fusion.method == "rrf":
        return None
    if query.rescore is not None:
        return "rescore"
    return "feedback" if reader.can.feedback and query.fusion.a > 0 else None


# -- relevance and repair ------------------------------------------------------------------------------------------


def scale_of(found: Answer) -> Generator[Step, Any, RelevanceScale]:
    """The scale for the hits of an answer to a text, by the first of them."""
    query, policy = found.query, found.state.policy
    reader = found.state.reader if found.position is None else found.position.reader
    first = found.best
    if first is None and query.offset > 0:
        first = yield from _best_of(found)
    if first is not None and len(first) <= len(found.hits) and all(map(operator.is_, first, found.hits)):
        first = None  # they are on the page
    evidence = evidence_for(query, found.space, reader, by_words=policy.lexical)
    if evidence is not None and query.filter is not None:
        evidence = replace(evidence, chunks=(yield Count(reader, cast("Filter", query.filter))))
    odds = None if evidence is None else evidence.odds
    by_rank = query.mode == "hybrid" and query.fusion.method == "rrf"
    return scale_for(found.hits, found.mode, found.space, odds, first=first or None, by_rank=by_rank)


def _best_of(found: Answer) -> Generator[Step, Any, Sequence[Hit]]:
    """The first hits of all pages, where the page begins after them."""
    page: SearchPage = yield Search(
        found.state.reader, replace(found.query, top_k=FIRST_HITS, offset=0), found.state.reader
    )
    return page.best or ()


def _better(question: Question, repaired: str, state: State) -> Generator[Step, Any, Answer]:
    """The answer as typed, with the repaired text as suggestion if that finds anything; or the repaired one."""
    scaled = question._replace(scaled=True)
    typed = yield from find(scaled, state)

    def ask(text: str) -> Generator[Step, Any, Answer]:
        return find(scaled._replace(text=text), state)

    best = yield from better_of(typed, (str(question.text), repaired), ask, judge)
    return best[0]._replace(corrected=best[1], suggestion=best[2])


def judge(found: Answer) -> QuestionRelevance | None:
    """How well a text did; None where there is no bound and so nothing to compare."""
    scale = found.scale
    if scale is None or (scale.bound == 0 and found.hits):
        return None
    return finding(found.hits if found.best is None else found.best, scale)


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
    extras = ("facets", bool(question.facets), reader.can.facets), ("highlight", highlights, reader.can.highlight)
    for capability, is_asked, is_possible in extras:
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
        facets = yield Beside(None, partial(count_facets, reader, question.facets, question.filter, text))
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


def count_facets(
    reader: Reader, requests: Sequence[FacetRequest], filter: Filter | None, text: str | None = None
) -> tuple[Facet, ...]:
    """The facets of the documents that pass a filter; with `text` of those with a word of it. InvalidFilter."""
    return tuple(_counted(reader, request, filter, text) for request in requests)


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
