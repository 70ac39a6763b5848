"""What an answer asks of its driver, step by step: vectors, searches, counts, and work beside them.

`run` carries the steps out in one thread: for the library, the command line, benchmarks and tests.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import AidreError, InvalidInput
from aidre.engine.index.fields import Filter
from aidre.engine.model import EmbeddingSpace, Mode, Query
from aidre.engine.ports import Reader
from aidre.engine.retrieve.by_document import Counted
from aidre.engine.retrieve.paging import page_at
from aidre.engine.retrieve.question import Question, State


class Embed(NamedTuple):
    """Asks for the vector of a text in a space. Sent: shape (dimensions,). Thrown: ModelUnavailable, Busy."""

    space: EmbeddingSpace
    text: str


class Search(NamedTuple):
    """Asks for a `SearchPage`. A later page is one after a first page of `first` hits, without what `newest` lacks;
    only that and one at an offset are asked for by what is `counted`."""

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
    """Asks for the result of work beside the search. Its expected seconds; None: long."""

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


# -- in one thread -------------------------------------------------------------------------------------------------

T = TypeVar("T")

EmbedText: TypeAlias = Callable[[EmbeddingSpace, str], NDArray[np.float32]]
"""The vector of a text in a space, shape (dimensions,). ModelUnavailable."""


def run(steps: Generator[Step, Any, T], embed: EmbedText) -> T:
    """The result of the steps. Raises what they raise."""
    do: Callable[..., Any] = steps.send
    value: Any = None
    while True:
        try:
            step = do(value)
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            do, value = steps.send, _done(step, embed)
        except AidreError as error:
            do, value = steps.throw, error


def _done(step: Step, embed: EmbedText) -> Any:
    match step:
        case Search(reader, query, counted=counted):
            return page_at(reader, query, counted)
        case Embed(space, text):
            return embed(space, text)
        case Count(reader, filter):
            return reader.count(filter)
        case Beside(_, work):
            return work()
        case Together(answers):
            return [run(steps, embed) for _, steps in answers]
    raise InvalidInput("a cursor belongs to the server that gave it")
