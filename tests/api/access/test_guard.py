"""Who is let in as whom, what is counted for whom, and what goes out with the answer, `api/access/guard.py`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from aidre.api.access import guard as module
from aidre.api.access.caller import Caller
from aidre.api.access.credentials import MAX_CREDENTIAL_BYTES
from aidre.api.access.guard import Guard
from aidre.api.access.limits import RawHeaders
from aidre.api.access.limits.token_bucket import BucketState
from aidre.api.config.settings import parse_settings
from aidre.api.config.toml import Rate
from aidre.api.http.http_errors import Forbidden, HttpError, RateLimited, Unauthorized
from aidre.engine.errors import ConfigurationError
from tests.api.access.limits.test_token_bucket_headers import structured

T = TypeVar("T")
GOLD, BLIND, VECTORS = "gold-secret", "blind-secret", "vectors-secret"
BEYOND = '[server]\nbase_url = "https://ai.example.com/x"\norigin = "https://www.example.com"\n'
LOOPBACK = '[server]\nbase_url = "http://127.0.0.1:8000"\n'


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


KEYS = f"""
[[keys]]
name = "gold"
sha256 = "{digest(GOLD)}"
collections = ["vault", "cellar"]
rate = "3/hour"
[[keys]]
name = "blind"
sha256 = "{digest(BLIND)}"
scopes = ["vectors"]
[[keys]]
name = "vectors"
sha256 = "{digest(VECTORS)}"
scopes = ["search", "vectors"]
rate = "none"
"""


def admitted(guard: Guard, scope: dict[str, Any]) -> RawHeaders:
    fields = guard.admit(scope)
    return fields if isinstance(fields, list) else run(fields)


def run(coroutine: Awaitable[T]) -> T:
    async def awaited() -> T:
        return await coroutine

    return asyncio.run(awaited())


class Door:
    """Asks a guard as a request would. No time passes, so nothing is refilled."""

    def __init__(self, configuration: str, *folders: Path) -> None:
        self.settings = parse_settings(configuration)
        self.guard = Guard(self.settings, folders)
        if self.guard._buckets is not None:
            self.guard._buckets._clock = lambda: 0
        self.state: dict[str, Any] = {}

    def ask(self, path: str = "/search", *authorizations: str, host: str = "203.0.113.7") -> dict[str, str]:
        """The fields of the answer."""
        self.state = {}
        headers = [(b"authorization", value.encode("latin-1")) for value in authorizations]
        scope = {"path": path, "headers": headers, "client": (host, 1), "state": self.state}
        fields = {name.decode(): value.decode() for name, value in admitted(self.guard, scope)}
        known = self.settings.knows_callers and path not in {"/healthz", "/readyz"}
        assert fields.pop("vary", None) == ("Authorization" if known else None)
        return fields

    def refused(self, kind: type[HttpError], path: str = "/search", *authorizations: str, **options: str) -> HttpError:
        with pytest.raises(kind) as caught:
            self.ask(path, *authorizations, **options)
        assert caught.type is kind
        return caught.value

    @property
    def caller(self) -> Caller:
        found: Caller = self.state["caller"]
        return found


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door(BEYOND + KEYS)
    yield door
    run(door.guard.close())


def test_a_secret_is_known_by_its_digest_and_opens_what_its_key_lists(door: Door) -> None:
    for scheme in ("Bearer", "bearer", "BEARER"):
        door.ask("/search" if scheme == "Bearer" else "/metrics", f"{scheme}  {GOLD} ")
        assert door.caller == Caller("key gold", frozenset({"vault", "cellar"}), vectors=False)
    door.ask("/search", f"Bearer {VECTORS}")
    assert door.caller == Caller("key vectors", frozenset(), vectors=True)
    assert GOLD not in repr(door.guard.__dict__)


def test_without_a_key_one_is_anonymous_and_has_no_more_than_a_key_without_grants(door: Door) -> None:
    door.ask()
    assert door.caller == Caller(vectors=False)


def test_where_nobody_has_a_key_the_collection_alone_decides_about_vectors() -> None:
    door = Door(LOOPBACK)
    assert door.ask() == {}
    assert door.caller == Caller(vectors=True)
    assert not door.settings.knows_callers


@pytest.mark.parametrize(
    "authorizations",
    [
        ["Bearer wrong"],
        ["Bearer"],
        ["Bearer "],
        [""],
        [GOLD],
        [f"Basic {GOLD}"],
        [f"Bearer{GOLD}"],
        [f"Bearer {GOLD}x"],
        [f"Bearer {GOLD[:-1]}"],
        [f"Bearer {GOLD.upper()}"],
        [f"Bearer {digest(GOLD)}"],
        [f"Bearer {GOLD}, Bearer {GOLD}"],
        [f"Bearer {GOLD}", f"Bearer {GOLD}"],
        [f"Bearer {GOLD}", "Bearer wrong"],
        [f"Token {GOLD}"],
        ["Bearer é\xff\x00"],
        ["Bearer a.b.c"],
        ["Bearer " + "x" * (MAX_CREDENTIAL_BYTES + 1)],
        ["Bearer \t" + GOLD],
    ],
)
@pytest.mark.parametrize("path", ["/search", "/mcp", "/metrics", "/.well-known/ai-discovery", "/nothing"])
def test_what_is_no_known_secret_is_refused_on_every_route_but_health(
    authorizations: list[str], path: str, door: Door
) -> None:
    refusal = door.refused(Unauthorized, path, *authorizations)
    assert (refusal.status, refusal.code) == (401, "unauthorized")
    challenge = refusal.headers["WWW-Authenticate"]
    base = "https://www.example.com/.well-known/oauth-protected-resource/x"
    where = base + "/mcp" if path == "/mcp" else base
    assert challenge == f'Bearer realm="aidre", resource_metadata="{where}", error="invalid_token"'
    assert "caller" not in door.state
    assert all(GOLD not in said for said in (refusal.message, challenge, str(refusal.details)))
    for health in ("/healthz", "/readyz"):
        assert door.ask(health, *authorizations) == {}


def test_wrong_secrets_are_refused_alike_whether_or_not_there_are_keys() -> None:
    door = Door(LOOPBACK)
    assert door.refused(Unauthorized, "/search", "Bearer wrong").status == 401


def test_a_key_that_may_not_search_is_told_so(door: Door) -> None:
    refusal = door.refused(Forbidden, "/search", f"Bearer {BLIND}")
    assert (refusal.status, refusal.code) == (403, "forbidden")
    assert refusal.headers["WWW-Authenticate"].endswith('error="insufficient_scope", scope="search"')
    assert door.refused(Forbidden, "/metrics", f"Bearer {BLIND}").status == 403
    for path in ("/.well-known/ai-discovery", "/healthz", "/readyz"):
        door.ask(path, f"Bearer {BLIND}")  # what is there to be found is not read


def test_metrics_can_be_for_known_callers_alone() -> None:
    door = Door('[server]\nmetrics = "callers"\n' + KEYS)
    refusal = door.refused(Unauthorized, "/metrics")
    assert (refusal.status, "error=" in refusal.headers["WWW-Authenticate"]) == (401, False)
    assert door.refused(Forbidden, "/metrics", f"Bearer {BLIND}").status == 403
    door.ask("/metrics", f"Bearer {GOLD}")
    assert door.caller.name == "key gold"
    for path in ("/.well-known/ai-discovery", "/healthz", "/search"):
        door.ask(path)
    with pytest.raises(ConfigurationError, match="needs a key or"):
        parse_settings('[server]\nmetrics = "callers"\n')


def test_a_caller_has_one_bucket_for_all_that_is_counted(door: Door) -> None:
    remaining = [door.ask(path, f"Bearer {GOLD}")["ratelimit-remaining"] for path in ("/search", "/ask", "/nothing")]
    assert remaining == ["2", "1", "0"]
    refusal = door.refused(RateLimited, "/search", f"Bearer {GOLD}", host="198.51.100.1")
    assert (refusal.status, refusal.code) == (429, "rate_limited")
    assert refusal.headers["retry-after"] == "1200"
    assert door.ask("/search")["ratelimit-remaining"] == "599"
    for path in ("/healthz", "/readyz", "/metrics", "/.well-known/ai-discovery", "/.well-known/aip.json"):
        assert door.ask(path, f"Bearer {GOLD}") == {}


def test_an_address_has_a_bucket_that_wrong_secrets_are_counted_in() -> None:
    door = Door(BEYOND + '[limits]\nrate = "3/hour"\n' + KEYS)
    door.ask()
    door.refused(Unauthorized, "/search", "Bearer wrong")
    door.refused(Unauthorized, "/search", "Basic wrong")
    assert door.refused(RateLimited, "/search", "Bearer wrong").status == 429
    assert door.refused(RateLimited, "/search").status == 429
    assert door.ask(host="203.0.113.8")["ratelimit-remaining"] == "2"
    assert door.ask("/search", f"Bearer {GOLD}")["ratelimit-remaining"] == "2"
    assert door.refused(RateLimited, "/.well-known/ai-discovery", "Bearer wrong").status == 429
    door.ask("/.well-known/ai-discovery")


def test_hosts_of_one_network_of_ipv6_share_a_bucket() -> None:
    door = Door(BEYOND + '[limits]\nrate = "2/hour"\n')
    assert door.ask(host="2001:db8::1")["ratelimit-remaining"] == "1"
    assert door.ask(host="2001:db8::2")["ratelimit-remaining"] == "0"
    assert door.refused(RateLimited, host="2001:db8::ffff:1")
    assert door.ask(host="2001:db8:0:1::1")["ratelimit-remaining"] == "1"


@pytest.mark.parametrize(
    ("configuration", "remaining"),
    [
        (LOOPBACK, None),
        (BEYOND, "599"),
        (BEYOND + '[limits]\nrate = "none"\n', None),
        (LOOPBACK + '[limits]\nrate = "10/second"\n', "9"),
    ],
)
def test_without_a_rate_callers_are_limited_beyond_loopback_only(configuration: str, remaining: str | None) -> None:
    assert Door(configuration).ask().get("ratelimit-remaining") == remaining


def test_a_key_without_a_limit_gets_no_fields_of_one(door: Door) -> None:
    assert door.ask("/search", f"Bearer {VECTORS}") == {}


def test_the_fields_fit_together_on_answers_and_on_refusals() -> None:
    door = Door(BEYOND + '[limits]\nrate = "5/minute"\n')
    said = [door.ask() for _ in range(5)] + [door.refused(RateLimited).headers]
    for number, fields in enumerate(said):
        name, limit = structured(fields["ratelimit"])
        assert (name, structured(fields["ratelimit-policy"])) == ("default", ("default", {"q": 5, "w": 60}))
        assert limit["r"] == int(fields["ratelimit-remaining"]) == max(0, 4 - number)
        assert limit["t"] == int(fields["ratelimit-reset"])
        assert fields["ratelimit-limit"] == "5"
        assert 0 < limit["t"] <= 60
    assert int(said[-1]["retry-after"]) == int(said[-1]["ratelimit-reset"]) == 12
    assert "retry-after" not in said[0]


def test_workers_count_together(tmp_path: Path) -> None:
    one, other = (Door(BEYOND + KEYS, tmp_path) for _ in range(2))
    assert [door.ask("/search", f"Bearer {GOLD}")["ratelimit-remaining"] for door in (one, other, one)] == list("210")
    other.refused(RateLimited, "/search", f"Bearer {GOLD}")
    for door in (one, other):
        run(door.guard.close())


def test_chunks_of_a_day_are_counted_for_an_address_and_for_a_key(tmp_path: Path) -> None:
    door = Door(LOOPBACK + "[limits]\nchunks_per_day = 20\n" + KEYS, tmp_path)
    accounts = []
    for authorizations, host in [([], "203.0.113.7"), ([], "203.0.113.8"), ([f"Bearer {GOLD}"], "203.0.113.7")]:
        door.ask("/search", *authorizations, host=host)
        accounts.append(door.caller.account)
    assert accounts == ["address 203.0.113.7", "address 203.0.113.8", "key gold"]
    assert door.guard.budget is not None
    door.guard.budget.give(accounts[0], "docs", [f"{number}" for number in range(20)])
    with pytest.raises(RateLimited):
        door.guard.budget.check(accounts[0])
    for account in accounts[1:]:
        door.guard.budget.check(account)
    run(door.guard.close())


def test_no_file_is_made_where_nothing_is_counted(tmp_path: Path) -> None:
    Door(LOOPBACK, tmp_path).ask()
    assert list(tmp_path.iterdir()) == []


def test_a_request_without_a_client_is_counted_too() -> None:
    guard = Door(BEYOND).guard
    scope: dict[str, Any] = {"path": "/search", "headers": [], "client": None, "state": {}}
    remaining = [dict(admitted(guard, scope))[b"ratelimit-remaining"] for _ in range(2)]
    assert remaining == [b"599", b"598"]
    assert guard.account(scope, scope["state"]["caller"]) == "address "


def test_a_submission_is_charged_to_all_limits_of_its_intake_or_to_none() -> None:
    intake = '[[intakes]]\nid = "a"\nname = "A"\ncollection = "c"\nrate_limit = { requests_per_minute = 2 }\n'
    guard = Door(LOOPBACK + intake).guard
    charges = [("minute", Rate(2, 60)), ("day", Rate(3, 86_400))]
    assert [run(guard.spend(charges)) for _ in range(9)] == [0, 0, *[30] * 7]
    assert [run(guard.spend(charges[1:])) for _ in range(3)] == [0, 28_800, 28_800]
    assert run(guard.spend(charges)) == 28_800, "the longest wait"
    run(guard.close())


def test_a_rate_is_refused_by_every_bucket_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server far away answers as the file does."""
    door = Door(BEYOND + '[limits]\nredis = "redis://127.0.0.1:1"\n')
    asked: list[tuple[str, Rate]] = []

    async def take(account: str, rate: Rate) -> BucketState:
        asked.append((account, rate))
        return BucketState(False, 0, 7)

    monkeypatch.setattr(door.guard._redis, "take", take)
    assert door.refused(RateLimited).headers["retry-after"] == "7"
    assert asked == [("address 203.0.113.7", module.DEFAULT_RATE)]
