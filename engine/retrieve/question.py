"""What is asked of a collection, and what its operator has decided about such searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aidre.engine.model import Fusion, FusionMethod, Group, HighlightLimits, Mode
from aidre.engine.ports import Reader
from aidre.engine.types import FacetRequest, Hit

if TYPE_CHECKING:
    from aidre.engine.index.fields import Filter
    from aidre.engine.retrieve.conditions import FieldOrder


Rerank: TypeAlias = Callable[[str, Sequence[Hit]], Sequence[float]]
"""The scores of some hits for a text, in their order; larger is better."""

_FUSION: Final = Fusion()


class Question(NamedTuple):
    """A text, a vector (float32, shape (dimensions,)), or both, which are searched hybrid.

    Without `mode` a text is searched hybrid; dense if its space cannot be fused or the collection is not searched by
    words; lexical without a model. `space` is an id. `offset` hits are left out. `cursor` names a later page of an
    earlier search, in the terms of whoever carries the steps out. With `correct` a text that finds little is answered
    without what may be typing errors in it. With `scaled` the answer has a scale of relevance. With `operators` quotes
    and `-word` in the text are read (`operators.py`), and numbers, dates and orders in words (`conditions.py`). With
    `order` relevant hits are ordered by a field. With `group` "document" `top_k` and `offset` count documents, and with
    `collapse` near-copies of one count as one (`by_document.py`). `recall` is that of `Query`; without it that of the
    policy holds. `weight` is that of the vector in a hybrid search, between 0 and 1; that of the words is the rest.
    `fusion` is how both are joined; without it the policy says it. `rerank` reorders the best hits.
    """

    top_k: int
    text: str | None = None
    vector: NDArray[np.float32] | None = None
    space: str | None = None
    filter: Filter | None = None
    mode: Mode | None = None
    offset: int = 0
    cursor: str | None = None
    facets: tuple[FacetRequest, ...] = ()
    highlight: HighlightLimits | None = None
    correct: bool = False
    scaled: bool = True
    operators: bool = True
    order: FieldOrder | None = None
    group: Group = "chunk"
    collapse: bool = True
    recall: float | None = None
    weight: float | None = None
    fusion: FusionMethod | None = None
    rerank: Rerank | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator of a collection has decided; the defaults are those of a server without a configuration.

    `lexical`: it may be searched by words. `spaces` are ids of its spaces, of which the first with a model answers
    texts that name none. `rescore` names a second space whose cosine orders the best `depth` hits of a hybrid search.
    `shows_text`: callers may be told words of its texts. `recall` holds for questions that name none; None: what the
    engine aims at.
    """

    lexical: bool = True
    spaces: tuple[str, ...] | None = None
    fusion: Fusion = _FUSION
    rescore: str | None = None
    depth: int = 50
    shows_text: bool = True
    recall: float | None = None


class State(NamedTuple):
    """The newest state of a collection, and the policy of its searches."""

    reader: Reader
    policy: Policy = Policy()
