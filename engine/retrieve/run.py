"""Carries the steps of an answer out in one thread: for the library, the command line, benchmarks and tests."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import AidreError, InvalidInput
from aidre.engine.model import EmbeddingSpace
from aidre.engine.retrieve.pages import only_page
from aidre.engine.retrieve.steps import Beside, Count, Embed, Search, Step, Together

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
        case Search(reader, query):
            return only_page(reader, query)
        case Embed(space, text):
            return embed(space, text)
        case Count(reader, filter):
            return reader.count(filter)
        case Beside(_, work):
            return work()
        case Together(answers):
            return [run(one, embed) for _, one in answers]
    raise InvalidInput("a cursor belongs to the server that gave it")
