"""Offers and the manifest of Agent Intake: the data of a submission become a question, its hits an offer.

Nothing here searches or stores.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from msgspec import UNSET, structs, to_builtins

from aidre.api.config import (
    IntakeSettings,
    OfferedIntake,
    Settings,
    declared_retention,
    fill_all_templates,
    fill_template,
    hit_values,
)
from aidre.api.http import present, rfc3339
from aidre.api.protocols.intake.intake_envelope import PROTOCOL_VERSION
from aidre.api.protocols.intake.intake_messages import (
    DeclaredIntake,
    IntakeManifest,
    IntakePrivacy,
    IntakeProvider,
    IntakeRateLimit,
    Offer,
    OfferItem,
)
from aidre.engine.retrieve import Answer, Question


def build_question(intake: OfferedIntake, data: Mapping[str, Any], query_chars: int) -> Question | None:
    """The question of a submission; None if its data leave the query template blank."""
    text = fill_template(intake.query, data)[:query_chars].strip()
    return Question(top_k=intake.top_k, text=text, operators=False) if text else None


def offer_items(answer: Answer, min_score: float, *, returns_text: bool) -> list[OfferItem]:
    """The hits with a text and a relevance of at least `min_score`, as items of an offer; `score` is their relevance.

    They have their text if the collection returns it.
    """
    relevances = answer.relevances or ()
    relevant = [pair for pair in zip(answer.hits, relevances, strict=True) if pair[1] >= min_score]
    return [
        OfferItem(
            id=hit.chunk.id,
            title=present(hit.chunk.title or None),
            url=present(hit.chunk.url or None),
            text=present(hit.chunk.text if returns_text else None),
            score=relevance,
        )
        for hit, relevance in relevant
        if hit.chunk.text.strip()
    ]


def build_offer(id: str, intake: OfferedIntake, data: Mapping[str, Any], items: Sequence[OfferItem]) -> Offer:
    """An offer without the members that binding needs (`with_binding`)."""
    hits = hit_values(to_builtins(items))
    details = {**fill_all_templates(intake.details, data, hits), "items": items}
    summary = fill_template(intake.summary, data, hits)
    return Offer(id=id, summary=summary, details=details, terms_url=present(intake.terms_url))


def with_binding(offer: Offer, intake: OfferedIntake, endpoint: str, expires: float) -> Offer:
    """The offer with the members that say how to bind it; `expires` is in Unix time."""
    return structs.replace(
        offer,
        expires=rfc3339(expires),
        bind_endpoint=endpoint,
        bind_requires=list(intake.bind_requires),
    )


def expiry_of(intake: OfferedIntake) -> float:
    """The expiry of an offer made now, in Unix time: a whole second, so that the answer states it exactly."""
    return float(int(time.time() + intake.expires_in))


def build_manifest(settings: Settings) -> IntakeManifest:
    """The manifest, /.well-known/agent-intake.json: the provider and its intakes, the same for every caller."""
    server = settings.server
    url = server.origin or str(server.base_url)
    return IntakeManifest(
        version=PROTOCOL_VERSION,
        provider=IntakeProvider(name=server.organization or str(urlsplit(url).hostname), url=url),
        intakes=[_intake(intake, settings.intake, str(server.base_url)) for intake in settings.intakes],
    )


def bind_endpoint(base_url: str) -> str:
    return f"{base_url}/intakes/bind"


def _intake(intake: OfferedIntake, settings: IntakeSettings, base_url: str) -> DeclaredIntake:
    name = intake.name or intake.id
    privacy = intake.privacy
    return DeclaredIntake(
        id=intake.id,
        name=name,
        description=intake.description or name,
        endpoint=f"{base_url}/intakes/{intake.id}",
        method="POST",
        category=present(intake.category),
        input_schema=intake.schema,
        offer_type=intake.offer_type,
        binding_available=intake.binds,
        requires_auth=intake.requires_auth,
        privacy=IntakePrivacy(
            data_retention=declared_retention(intake, settings),
            pii_required=present(privacy.pii_required),
            redacted_acceptable=present(privacy.redacted_acceptable),
        ),
        rate_limit=IntakeRateLimit(**intake.rate_limit) if intake.rate_limit else UNSET,
    )
