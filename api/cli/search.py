"""One search by text without a server, as a server with the configuration would answer it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Final, NamedTuple, cast

import numpy as np
import orjson
from numpy.typing import NDArray

from aidre.api.cli.console import printable
from aidre.api.config import Settings
from aidre.engine.embedding import load_stored
from aidre.engine.errors import InvalidFilter, InvalidInput
from aidre.engine.index.fields import Filter, parse_filter
from aidre.engine.model import EmbeddingSpace, FusionMethod, Group, HighlightLimits, Mode
from aidre.engine.ports import Reader
from aidre.engine.retrieve import Answer, EmbedText, Question, State, answer, run
from aidre.engine.types import FacetRequest
from aidre_client.values import check_recall

VALUES: Final = 10
"""Values of a facet."""


class SearchArguments(NamedTuple):
    """`filter` is JSON text; without a `mode` the best mode of the collection is used. `facets` are names of fields.
    With `correct` a text that finds little is answered without what may be typing errors in it; with `operators` its
    quotes and `-word` are read. `k` counts what `group` names. Without `recall` and `fusion` those of the collection
    hold; `name` is its name or alias, where one was given, and settings of an alias come before those of what it means.
    """

    text: str
    k: int
    filter: str | None = None
    mode: Mode | None = None
    facets: Sequence[str] = ()
    correct: bool = True
    operators: bool = True
    group: Group = "document"
    collapse: bool = True
    recall: float | None = None
    fusion: FusionMethod | None = None
    name: str | None = None


def find(
    reader: Reader,
    arguments: SearchArguments,
    settings: Settings,
    note: Callable[[str], None],
    embed: EmbedText | None = None,
) -> Answer:
    """Fields of the filter that no document has, and models that cannot be loaded, are reported to `note`.

    Who searches often passes `embed`, which keeps the models that are loaded (`embedding_of`).
    """
    if not arguments.text.strip():
        raise InvalidInput("QUERY must not be blank")
    check_recall(arguments.recall)
    question = Question(
        arguments.k,
        arguments.text,
        filter=None if arguments.filter is None else read_filter(arguments.filter),
        mode=arguments.mode,
        facets=tuple(FacetRequest(name, VALUES) for name in arguments.facets),
        highlight=HighlightLimits() if reader.can.highlight else None,
        correct=arguments.correct,
        operators=arguments.operators,
        group=arguments.group,
        collapse=arguments.collapse,
        recall=arguments.recall,
        fusion=arguments.fusion,
    )
    # What a server withholds from its callers is not withheld from one who can read the store.
    own = reader.collection.name
    policy = replace(settings.collection(arguments.name or own, own).policy, shows_text=True)
    found = run(answer(question, State(reader, policy)), embed or embedding_of(settings))
    for name in found.ignored:
        note(f"--filter: no document has {printable(name)}")
    if found.problem is not None:
        note(f"{'lexical search only' if found.mode == 'lexical' else f'without {policy.rescore}'}: {found.problem}")
    return found


def embedding_of(settings: Settings) -> EmbedText:
    """Embeds texts by the models of spaces, each loaded once."""
    load = cache(partial(load_stored, runtime=settings.embedding.runtime, endpoints=settings.endpoints))

    def embed(space: EmbeddingSpace, text: str) -> NDArray[np.float32]:
        [vector] = load(space).embed_queries([text])
        return cast("NDArray[np.float32]", vector)

    return embed


def read_filter(text: str) -> Filter:
    """InvalidFilter."""
    try:
        return parse_filter(orjson.loads(text))  # the parser of the server
    except orjson.JSONDecodeError as error:
        raise InvalidFilter(f"--filter is not JSON: {error}") from None
