"""Conditions of the engine's filter grammar, put together. An empty one asks nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from aidre.engine.model import Json

Clause: TypeAlias = dict[str, Json]


def all_of(clauses: Sequence[Clause]) -> Clause:
    real = [clause for clause in clauses if clause]
    return (real[0] if len(real) == 1 else {"and": real}) if real else {}


def either(clauses: Sequence[Clause | None]) -> Clause | None:
    """Any of the clauses; None where one of them cannot be applied. Lists of values of one field become one list."""
    if any(clause is None for clause in clauses):
        return None
    listed: dict[str, dict[Json, None]] = {}
    others: list[Clause] = []
    for clause in clauses:
        [(name, asked)] = clause.items() if clause else [("", None)]
        if name not in {"and", "or"} and type(asked) is dict and list(asked) == ["in"]:
            listed.setdefault(name, {}).update(dict.fromkeys((type(one).__name__, one) for one in asked["in"]))
        elif clause:
            others.append(clause)
        else:
            return {}
    merged: list[Clause] = [{name: {"in": [one for _, one in values]}} for name, values in listed.items()]
    both = [*merged, *others]
    return both[0] if len(both) == 1 else {"or": both}


def any_of(spelled: Mapping[str, Sequence[str]]) -> Clause:
    clauses: list[Clause] = [{name: {"in": list(values)}} for name, values in spelled.items()]
    return clauses[0] if len(clauses) == 1 else {"or": clauses}


def nodes_in(clause: Json) -> int:
    """How many conditions the engine will count, roughly and never too few."""
    if type(clause) is dict:
        return sum(1 + nodes_in(one) for one in clause.values())
    return sum(map(nodes_in, clause)) if type(clause) is list and clause and type(clause[0]) is dict else 0
