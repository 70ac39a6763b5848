"""LlamaIndex's filters as filters of aidre."""

from __future__ import annotations

from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

COMPARED = {
    FilterOperator.EQ: "eq",
    FilterOperator.NE: "ne",
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
    FilterOperator.IN: "in",
    FilterOperator.NIN: "nin",
    FilterOperator.CONTAINS: "eq",  # of a list: one of its elements
    FilterOperator.TEXT_MATCH: "contains",
}
EVERYTHING: dict[str, Any] = {"document_id": {"exists": True}}


def to_filter(filters: MetadataFilters | None) -> dict[str, Any] | None:
    """None for no filter. ValueError for an operator that aidre lacks."""
    if filters is None or not filters.filters:
        return None
    parts = [
        to_filter(one) or EVERYTHING if isinstance(one, MetadataFilters) else _comparison(one)
        for one in filters.filters
    ]
    if filters.condition == FilterCondition.OR:
        return {"or": parts}
    return {"not": {"and": parts}} if filters.condition == FilterCondition.NOT else {"and": parts}


def _comparison(filter: MetadataFilter) -> dict[str, Any]:
    name, value = f"metadata.{filter.key}", filter.value
    if filter.operator == FilterOperator.IS_EMPTY:
        return {name: {"exists": False}}
    if filter.operator in {FilterOperator.ANY, FilterOperator.ALL}:
        each = [{name: {"eq": one}} for one in value or ()] if isinstance(value, list) else [{name: {"eq": value}}]
        return {"or" if filter.operator == FilterOperator.ANY else "and": each}
    operator = COMPARED.get(filter.operator)
    if operator is None:
        raise ValueError(f"aidre has no filter {filter.operator.value!r}")
    if value is None:
        raise ValueError(f"the filter {filter.operator.value!r} of {filter.key!r} needs a value")
    return {name: {operator: value}}
