"""Offers: the data of a submission become a question, its hits become an offer. Pure translation."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from aidre.api.config import OfferedIntake, fill_all_templates, fill_template, hit_values
from aidre.api.retrieval import Answer, Question, RelevanceScale


def build_question(intake: OfferedIntake, data: Mapping[str, Any], query_chars: int) -> Question | None:
    """The question of a submission; None if its data leave the query template blank."""
    text = fill_template(intake.query, data)[:query_chars].strip()
    return Question(top_k=intake.top_k, text=text, filter=intake.filter) if text else None


def offer_items(answer: Answer, scale: RelevanceScale, min_score: float) -> list[dict[str, Any]]:
    """The hits with a relevance of at least `min_score`, as items of an offer; `score` is their relevance.

    They have their text if the collection returns it.
    """
    items = []
    for hit, relevance in zip(answer.hits, scale.relevances(hit.score for hit in answer.hits), strict=True):
        if relevance >= min_score:
            source = orjson.loads(hit.chunk.fragments[1])
            item = {"id": hit.chunk.id, **{name: source[name] for name in ("title", "url") if source.get(name)}}
            if answer.collection.settings.return_text:
                item["text"] = hit.chunk.text
            items.append({**item, "score": relevance})
    return items


def build_offer(
    id: str, intake: OfferedIntake, data: Mapping[str, Any], items: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """An offer without the members that binding needs (`binding_members`)."""
    hits = hit_values(items)
    details = {**fill_all_templates(intake.details, data, hits), "items": list(items)}
    offer = {"id": id, "summary": fill_template(intake.summary, data, hits), "details": details}
    return offer if intake.terms_url is None else {**offer, "terms_url": intake.terms_url}


def binding_members(intake: OfferedIntake, endpoint: str, expires: float) -> dict[str, Any]:
    """The members of an offer that say how to bind it; `expires` is in Unix time."""
    return {
        "expires": format_timestamp(expires),
        "bind_endpoint": endpoint,
        "bind_requires": list(intake.bind_requires),
    }


def format_timestamp(instant: float) -> str:
    """Format Unix time as RFC 3339 in UTC, in whole seconds."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def expiry_of(intake: OfferedIntake) -> float:
    """The expiry of an offer made now, in Unix time: a whole second, so that the answer states it exactly."""
    return float(int(time.time() + intake.expires_in))
