"""Agent Intake: what an agent submits, the offer that comes of it, and its bind, to which the user has to agree."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urljoin

import msgspec

from aidre_client.errors import AccessDenied, Conflict, InvalidInput, Missing, RequestFailed, Unsupported
from aidre_client.exchange import Response, Steps, decode, invalid_answer, one_line, retry_after
from aidre_client.session import JSON, ClientSession, encode

WELL_KNOWN = "/.well-known/agent-intake.json"
VERSION = "0.1.0"
COMPATIBLE = "0.1."
"""Before 1.0 a breaking change bumps the minor version."""
PERSONAL = frozenset({"email", "full_name", "phone", "address"})
"""Members that go to a provider only where it requires them."""


class DeclaredIntake(msgspec.Struct, frozen=True):
    """An intake of the manifest. `input_schema` is the JSON Schema of what is submitted."""

    id: str
    name: str
    description: str
    endpoint: str
    input_schema: dict[str, Any]
    offer_type: str
    binding_available: bool
    requires_auth: bool = False
    category: str | None = None
    privacy: dict[str, Any] = {}
    rate_limit: dict[str, Any] = {}


class Provider(msgspec.Struct, frozen=True):
    name: str
    url: str


class Manifest(msgspec.Struct, frozen=True):
    """What a provider takes in."""

    version: str = msgspec.field(name="aip_version")
    provider: Provider
    intakes: list[DeclaredIntake]


class Offer(msgspec.Struct, frozen=True):
    """An offer. One that can be bound says until when, where, and which data that takes."""

    id: str
    summary: str
    details: dict[str, Any] = {}
    expires: str | None = None
    bind_endpoint: str | None = None
    bind_requires: list[str] = []
    terms_url: str | None = None


class IntakeAnswer(msgspec.Struct, frozen=True):
    """The outcome of a submission: an offer, or the reason why there is none."""

    status: str
    session_id: str | None = None
    version: str | None = msgspec.field(default=None, name="aip_version")
    offer: Offer | None = None
    decline_reason: str | None = None
    error: dict[str, Any] = {}


class BindAnswer(msgspec.Struct, frozen=True):
    """The answer to a bind; the text defines no members of it, so all may be missing."""

    status: str | None = None
    session_id: str | None = None
    offer_id: str | None = None
    bound_at: str | None = None
    error: dict[str, Any] = {}


@dataclass(slots=True)
class Agent:
    """An agent that submits to one provider, on behalf of a user."""

    session: ClientSession
    agent_id: str
    platform: str | None = None
    _manifest: Manifest | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not self.agent_id:
            raise InvalidInput("Agent Intake needs the id of the agent")

    def manifest(self) -> Steps[Manifest]:
        """What the provider takes in, read once. Unsupported for a version that may differ."""
        if self._manifest is None:
            found = yield from self.session.discovery_or_none()
            named = None if found is None else found.endpoints.intake
            url = self.session.origin + WELL_KNOWN if named is None else self.session.allowed(named)
            manifest = yield from self.session.document(url, Manifest)
            if not manifest.version.startswith(COMPATIBLE):
                raise Unsupported(f"{url} is of version {manifest.version}: this client speaks {VERSION}")
            self._manifest = manifest
        return self._manifest

    def submit(self, intake_id: str, data: Mapping[str, Any], session_id: str | None = None) -> Steps[IntakeAnswer]:
        """Submit data to an intake. InvalidInput where they do not fit its schema; Missing without such an intake.

        A submission whose answer was lost is not repeated: it may have been taken.
        """
        intake = yield from self._intake(intake_id)
        _check_personal(intake, data)
        session_id = session_id or str(uuid.uuid4())
        agent: dict[str, Any] = {"id": self.agent_id, "consent_scope": ["intake", "offer"]}
        body = {
            "aip_version": VERSION,
            "agent": agent | ({} if self.platform is None else {"platform": self.platform}),
            "intake_data": dict(data),
            "session_id": session_id,
        }
        url = self.session.allowed(urljoin(self.session.url, intake.endpoint))
        response = yield from self._post(url, encode(body), repeatable=False)
        answer = decode(response, IntakeAnswer)
        if answer.status == "error" or response.status != 200:
            raise self._failure(response, answer.error)
        if answer.session_id != session_id:
            raise invalid_answer(response, "this is the answer to another session")
        if (answer.status == "offer") != (answer.offer is not None):
            raise invalid_answer(response, "an offer is there exactly when the status says so")
        if answer.offer is not None and intake.binding_available and answer.offer.bind_endpoint is None:
            raise invalid_answer(response, "an offer that can be bound says where")
        return answer

    def bind(self, answer: IntakeAnswer, data: Mapping[str, Any], *, user_agrees: bool) -> Steps[BindAnswer]:
        """Accept an offer with the user's data. The same bind may be sent again. Conflict where it is bound with other
        data or has expired, Missing where the provider does not know it."""
        offer = answer.offer
        if user_agrees is not True:
            raise InvalidInput("an offer is bound only where the user has agreed to it: user_agrees=True")
        if offer is None or offer.bind_endpoint is None:
            raise Unsupported("this answer has no offer that can be bound", capability="bind")
        missing = [name for name in offer.bind_requires if name not in data]
        if missing:
            raise InvalidInput(f"the bind lacks {', '.join(missing)}: ask the user", missing=missing)
        if self._has_expired(offer):
            raise Conflict(f"the offer expired at {offer.expires}: submit again", error="OFFER_EXPIRED")
        body = {
            "offer_id": offer.id,
            "session_id": answer.session_id,
            "bind_data": dict(data),
            "agent": {"id": self.agent_id, "consent_scope": ["intake", "offer", "bind"]},
        }
        url = self.session.allowed(urljoin(self.session.url, offer.bind_endpoint))
        response = yield from self._post(url, encode(body), repeatable=True)
        bound = decode(response, BindAnswer)
        if bound.status == "error" or response.status != 200:
            raise self._failure(response, bound.error)
        return bound

    def _intake(self, intake_id: str) -> Steps[DeclaredIntake]:
        manifest = yield from self.manifest()
        for intake in manifest.intakes:
            if intake.id == intake_id:
                return intake
        known = ", ".join(intake.id for intake in manifest.intakes)
        raise Missing(f"{self.session.url} has no intake {intake_id!r}, but {known}", intake=intake_id)

    def _post(self, url: str, body: bytes, *, repeatable: bool) -> Steps[Response]:
        request = self.session.request("POST", url, body, accept=JSON, media_type=JSON)
        return (yield from self.session.call(lambda: request, repeatable=repeatable))

    def _has_expired(self, offer: Offer) -> bool:
        if offer.expires is None:
            return False
        try:
            return datetime.fromisoformat(offer.expires).timestamp() <= self.session.retry.clock()
        except ValueError:
            return False

    def _failure(self, response: Response, error: Mapping[str, Any]) -> Exception:
        url, code, text = response.request.url, error.get("code"), error.get("message")
        message = one_line(text) if isinstance(text, str) else f"HTTP status {response.status}"
        waiting = retry_after(response, self.session.retry.clock())
        facts: dict[str, Any] = {"url": url, "status": response.status, "error": code}
        facts |= {"request_id": response.header("x-request-id")} | ({} if waiting is None else {"retry_after": waiting})
        kinds = {400: InvalidInput, 401: AccessDenied, 403: AccessDenied, 404: Missing, 409: Conflict, 410: Conflict}
        kind: type[Exception] = kinds.get(response.status, RequestFailed)
        return kind(f"{url}: {message}", **facts)


def _check_personal(intake: DeclaredIntake, data: Mapping[str, Any]) -> None:
    required = intake.input_schema.get("required")
    expected = set(required) if isinstance(required, list) else set()
    personal = sorted(PERSONAL & data.keys() - expected)
    if personal and intake.privacy.get("pii_required") is not True:
        raise InvalidInput(
            f"intake {intake.id!r} does not require personal data: leave out {', '.join(personal)}", members=personal
        )
