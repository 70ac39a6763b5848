"""A reference agent of Agent Intake: it discovers, submits, has its user decide, binds and repeats, and refuses what
the protocol has an agent refuse. It knows only what it is sent."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

WELL_KNOWN = "/.well-known/agent-intake.json"
JSON = "application/json"
PERSONAL = {"email", "full_name", "phone", "address"}

Send = Callable[..., httpx.Response]


class Refused(Exception):
    """The agent does not go on."""


class Failed(Exception):
    """The provider answered with an error."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(response.text)
        self.status = response.status_code
        self.code: str = response.json()["error"]["code"]
        self.message: str = response.json()["error"]["message"]
        self.retry_after = response.headers.get("retry-after")


@dataclass
class Agent:
    """`send(method, url, **options)` is how it reaches the provider, `origin` where it looks for the manifest."""

    send: Send
    origin: str
    headers: Mapping[str, str] = field(default_factory=dict)
    id: str = "agent-1"
    retries: int = 0
    wait: Callable[[float], None] = time.sleep

    def discover(self) -> dict[str, Any]:
        response = self.send("GET", self.origin + WELL_KNOWN, headers={"accept": JSON})
        if response.status_code != 200 or response.headers["content-type"] != JSON:
            raise Refused("no manifest")
        manifest: dict[str, Any] = response.json()
        if not manifest["aip_version"].startswith("0.1."):
            raise Refused("another minor version may break")
        for intake in manifest["intakes"]:
            _check_endpoint(intake["endpoint"])
        return manifest

    def submit(self, intake: Mapping[str, Any], data: Mapping[str, Any], session: str | None = None) -> dict[str, Any]:
        """The answer, an offer or a decline, whose form has been looked at."""
        if PERSONAL & set(data) and not intake.get("privacy", {}).get("pii_required", False):
            raise Refused("personal data are sent only where they are required")
        session = session or str(uuid.uuid4())
        body = {
            "aip_version": "0.1.0",
            "agent": {"id": self.id, "platform": "test", "consent_scope": ["intake", "offer"]},
            "intake_data": data,
            "session_id": session,
        }
        answer = self._said(self._post(intake["endpoint"], body), session)
        offer = answer.get("offer")
        if (answer["status"] == "offer") != (offer is not None):
            raise Refused("an offer must be there exactly when the status says so")
        if offer is not None and intake["binding_available"]:
            _check_endpoint(offer["bind_endpoint"])
        return answer

    def bind(self, answer: Mapping[str, Any], data: Mapping[str, Any], *, user_agrees: bool) -> httpx.Response:
        """The user decides (stage 4); only then do personal data leave."""
        if not user_agrees:
            raise Refused("the user has not agreed")
        offer = answer["offer"]
        if datetime.fromisoformat(offer["expires"]) <= datetime.now(UTC):
            raise Refused("the offer has expired")
        missing = [name for name in offer["bind_requires"] if name not in data]
        if missing:
            raise Refused(f"the user must be asked for {missing}")
        return self.bind_again(answer, data)

    def bind_again(self, answer: Mapping[str, Any], data: Mapping[str, Any]) -> httpx.Response:
        """The same request as before: what a lost answer is for."""
        body = {
            "offer_id": answer["offer"]["id"],
            "session_id": answer["session_id"],
            "bind_data": data,
            "agent": {"id": self.id, "consent_scope": ["intake", "offer", "bind"]},
        }
        response = self._post(answer["offer"]["bind_endpoint"], body)
        self._said(response, answer["session_id"])
        return response

    def _post(self, url: str, body: Mapping[str, Any]) -> httpx.Response:
        """Once more where the provider says when, or where no answer came: either is safe, a bind by its repetition."""
        for left in range(self.retries, -1, -1):
            try:
                response = self.send("POST", url, json=body, headers={"content-type": JSON, **self.headers})
            except httpx.TransportError:
                if left == 0:
                    raise
                self.wait(1.0)
                continue
            if response.status_code not in {429, 503} or left == 0 or "retry-after" not in response.headers:
                break
            self.wait(float(response.headers["retry-after"]))
        return response

    def _said(self, response: httpx.Response, session: str) -> dict[str, Any]:
        if response.headers["content-type"] != JSON:
            raise Refused("an answer must be JSON")
        answer: dict[str, Any] = response.json()
        if answer["session_id"] != session or not answer["aip_version"].startswith("0.1."):
            raise Refused("this answers something else")
        if answer["status"] == "error":
            raise Failed(response)
        return answer


def _check_endpoint(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in {"127.0.0.1", "localhost", "::1"}:
        raise Refused("data go over https only")
