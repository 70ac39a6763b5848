"""Offers as pure translation: an intake's data become a question, its hits become what is offered."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from aidre.api.intake.settings import OfferedIntake
from aidre.api.intake.templates import facts_of, filled, filled_all
from aidre.api.retrieve import Answer, Question


def question(intake: OfferedIntake, data: Mapping[str, Any], query_chars: int) -> Question | None:
    """What the data ask for; None where they fill the query template with nothing."""
    text = filled(intake.query, data)[:query_chars].strip()
    return Question(top_k=intake.top_k, text=text, filter=intake.filter) if text else None


def items_of(answer: Answer, min_score: float) -> list[dict[str, Any]]:
    """The hits above `min_score`, as the items of an offer; their text where the collection returns text."""
    items = []
    for hit in answer.hits:
        if hit.score > min_score:
            source = orjson.loads(hit.chunk.json_source)
            item = {"id": hit.chunk.id, **{name: source[name] for name in ("title", "url") if source.get(name)}}
            if answer.shown.settings.return_text:
                item["text"] = hit.chunk.text
            items.append({**item, "score": hit.score})
    return items


def offer_of(
    id: str, intake: OfferedIntake, data: Mapping[str, Any], items: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """An offer without what binding it takes."""
    hits = facts_of(items)
    details = {**filled_all(intake.details, data, hits), "items": list(items)}
    offer = {"id": id, "summary": filled(intake.summary, data, hits), "details": details}
    return offer if intake.terms_url is None else {**offer, "terms_url": intake.terms_url}


def binding(intake: OfferedIntake, endpoint: str, expires: float) -> dict[str, Any]:
    """What an offer says about how it is bound."""
    return {"expires": timestamp(expires), "bind_endpoint": endpoint, "bind_requires": list(intake.bind_requires)}


def timestamp(instant: float) -> str:
    """RFC 3339 in UTC, whole seconds."""
    return datetime.fromtimestamp(instant, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def expiry(intake: OfferedIntake) -> float:
    """When an offer that is made now expires: a whole second, so that what is said is what holds."""
    return float(int(time.time() + intake.expires_in))
