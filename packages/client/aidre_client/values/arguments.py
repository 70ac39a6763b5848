"""Arguments that the verbs of local collections and of those of a server share. InvalidInput names the argument."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias, get_args

from aidre_client.errors import InvalidDocument, InvalidInput
from aidre_client.values.model import FusionMethod, Group, Mode

Weights: TypeAlias = Mapping[str, float] | Sequence[float]
"""Those of vectors and words, as {"dense": 0.7, "lexical": 0.3} or (0.7, 0.3)."""
Direction: TypeAlias = Literal["ascending", "descending"]
SearchOrder: TypeAlias = str | Mapping[str, str]
"""A field, "-field" for the greatest first, or {"field": ..., "direction": ...} as AIDRE has it."""


def check_range(name: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        cure = f": pass int({name})" if isinstance(value, Integral) and not isinstance(value, bool | int) else ""
        raise InvalidInput(f"{name} must be a whole number from {least} to {most:,}, not {shown(value)}{cure}")


def check_text(text: Any) -> None:
    """That of a search."""
    if isinstance(text, str) and text.strip():
        return
    cure = "" if isinstance(text, str) else f", not {type(text).__name__}: a vector is vector=, several are search_many"
    raise InvalidInput(f"the text of a search must be a string that is not blank{cure}")


def check_mode(mode: Any) -> None:
    if mode is not None and (not isinstance(mode, str) or mode not in get_args(Mode)):
        raise InvalidInput(f"mode {shown(mode)} is unknown: use hybrid, dense or lexical")


def check_group(group: Any) -> None:
    if not isinstance(group, str) or group not in get_args(Group):
        raise InvalidInput(f"group {shown(group)} is unknown: use chunk or document")


def check_fusion(fusion: Any) -> None:
    if fusion is not None and (not isinstance(fusion, str) or fusion not in get_args(FusionMethod)):
        raise InvalidInput(f"fusion {shown(fusion)} is unknown: use score or rrf")


def check_space_id(space_id: Any) -> None:
    if space_id is not None and not isinstance(space_id, str):
        raise InvalidInput(f"space= is the id of a space, not {type(space_id).__name__}")


def check_least(min_score: Any) -> None:
    is_number = isinstance(min_score, Real) and not isinstance(min_score, bool)  # those of numpy are registered
    if min_score is not None and (not is_number or math.isnan(min_score)):
        raise InvalidInput(f"min_score must be a number, not {shown(min_score)}")


def check_recall(recall: Any) -> None:
    is_number = isinstance(recall, Real) and not isinstance(recall, bool)
    if recall is not None and not (is_number and 0 < recall <= 1):  # nan is not either
        raise InvalidInput(f"recall must be a number above 0 and at most 1, such as 0.95, not {shown(recall)}")


def to_weight(weights: Any) -> float | None:
    """The weight of vectors in a hybrid search, of which that of words is the rest, from 0 to 1."""
    if weights is None:
        return None
    names = ("dense", "lexical")
    if isinstance(weights, Mapping):
        pair = [weights.get(name, 0) for name in names] if weights.keys() <= set(names) else []
    else:
        pair = list(weights) if isinstance(weights, list | tuple) else []
    are_numbers = all(
        isinstance(number, Real) and not isinstance(number, bool) and 0 <= float(number) < math.inf for number in pair
    )
    if len(pair) != len(names) or not are_numbers or not 0 < sum(pair) < math.inf:
        raise InvalidInput(
            'weights= are numbers of at least 0 for vectors and words, as in {"dense": 0.7, "lexical": 0.3}, '
            f"not {shown(weights)}"
        )
    return float(pair[0] / sum(pair))


def to_field_order(order: Any) -> tuple[str, Direction] | None:
    """The field and the direction of the order of a search."""
    if order is None:
        return None
    field: Any = order
    direction: Any = None
    if isinstance(order, Mapping) and order.keys() == {"field", "direction"}:
        field, direction = order["field"], order["direction"]
    elif isinstance(order, str):
        field, direction = order.removeprefix("-"), "descending" if order.startswith("-") else "ascending"
    if not isinstance(field, str) or not field or direction not in get_args(Direction):
        raise InvalidInput(
            'order= is the name of a field, "-price" for the greatest first, or {"field": "price", "direction": '
            f'"descending"}}, not {shown(order)}'
        )
    return field, direction


def to_ids(ids: Any, verb: str) -> list[str]:
    """The ids of documents or chunks in a list."""
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise InvalidInput(f"{verb} needs a list of ids, not {type(ids).__name__}")
    listed = list(ids)
    for item in listed:
        if not isinstance(item, str):
            raise InvalidInput(f"{verb} needs ids that are strings, not {type(item).__name__}")
    return listed


def not_a_row(row: Any) -> str:
    """Why something in the rows of `add` is not a document."""
    cure = "; vectors are vectors=, beside the rows" if hasattr(row, "__array__") else ""
    return f"is {type(row).__name__}: a document is a text, a mapping or a Document{cure}"


def check_misplaced_vector(members: Mapping[str, Any], *, has_vectors: bool) -> None:
    """A vector where other stores have it, in a row that has nothing else to be found by. InvalidDocument."""
    if has_vectors or members.get("text") is not None:
        return
    for name in ("vector", "embedding"):
        if isinstance(members.get(name), list):
            raise InvalidDocument(f'has a vector in {name}: write "vectors": {{"mine": [...]}}, by space, or vectors=')


def shown(value: Any) -> str:
    """The value of a plain type, cut to one short line; of another, its type."""
    if isinstance(value, str | int | float | None):
        text = repr(value)
        return text if len(text) <= 64 else text[:64] + "…"
    return type(value).__name__
