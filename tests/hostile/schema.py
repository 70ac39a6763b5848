"""Requests made from /openapi.json by Schemathesis, right ones, wrong ones and chains of them, and all it can check.

Most are asked of the application in this process, a part of a real server over its socket; with a key and without.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aidre.api.app import create_app
from aidre.api.config.settings import load_settings
from aidre.api.protocols.nlweb.query.dialects import detect_dialect
from aidre.engine.collection.store import Store
from tests.hostile.publisher import PLATFORM, PLATFORM_SECRET, SECRET, publish
from tests.hostile.report import Report
from tests.hostile.server import running
from tests.support.clients import BASE
from tests.support.intent_platform import FIELDS, Platform

if TYPE_CHECKING:
    from schemathesis import Case, Response
    from schemathesis.core.failures import Failure
    from schemathesis.engine.recorder import ScenarioRecorder
    from schemathesis.schemas import BaseSchema

EXAMPLES = 60
"""Of each operation in a pass, beside those that cover the schema and the chains."""

SOCKET_EVERY = 5
"""One pass of so many goes over the socket."""

CREDENTIALS = (None, SECRET, None, SECRET, None, SECRET, "a-secret-that-nobody-knows")

SIGNED = b"x-signed-by-the-tests"
BEYOND_A_SCHEMA = re.compile(
    "|".join(
        [
            "send exactly one of query and query_vector|name the space of query_vector",
            "name the collection to search",
            '"code":"invalid_filter"',
            "send ids or |send fields or |order_by is the name of|facets names |must name a field in ",
            "vectors are not returned here|does not return text",
            # 5.0 is an integer to a schema
            r"(top_k|limit|offset|spans|snippets|snippet_chars) must be a whole number",
            "no such embedding space|embedding space takes no text|embedding space requires|has a norm",
            "a vector has no words|cannot be searched hybrid|has no embedding model",
            "promise_token must be the token of a promise",
            "since is not a token of this feed",
            "SCHEMA_MISMATCH|BIND_INCOMPLETE",
            "cursor does not belong",
            "publisher must be",
            "as X-AIP-Version says",
            "language tag of BCP 47",
        ]
    )
)
"""What may be refused although the schema admits it: words that only the server knows, or that contradict each other.
Everything else that is refused must be wrong by the schema."""


EXCUSES = {
    "RejectedPositiveData": BEYOND_A_SCHEMA,
    # NLWeb and Agentic Intent refuse some of what is wrong with 200 and a failure.
    # An event stream is described as text, and read as events here.
    "JsonSchemaError": re.compile("^(data|event|id|retry):"),
    "AcceptedNegativeData": re.compile('"response_type":"failure"|"status":"error"'),
}


@dataclass(slots=True)
class Tally:
    """What all passes found."""

    asked: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    chained: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    excused: int = 0

    def add(self, recorder: ScenarioRecorder, *, chained: bool) -> None:
        answers = [one.response for one in recorder.interactions.values() if one.response is not None]
        self.asked += len(answers)
        self.chained += len(answers) if chained else 0
        self.statuses.update(answer.status_code for answer in answers)
        for case_id, checks in recorder.checks.items():
            for check in checks:
                if check.failure_info is not None:
                    failure, interaction = check.failure_info.failure, recorder.interactions[case_id]
                    answer = interaction.response
                    said = b"" if answer is None else answer.content[:300]
                    self.failures.setdefault(
                        f"{check.name}: {recorder.label}: {failure.title}: {failure.message[:200]}",
                        f"{check.failure_info.code_sample[:600]}\n  -> {said!r}",
                    )


def run(report: Report, rounds: int, chance: random.Random) -> None:
    """At least `rounds` requests in passes over all operations: without a key, with one, with an unknown one."""
    store, configuration = publish(report.place("publisher"))
    tally, number, said = Tally(), 0, 0
    examples, coverage = min(EXAMPLES, max(2, rounds // 60)), rounds >= 1_000
    while tally.asked < rounds:
        credential = CREDENTIALS[number % len(CREDENTIALS)]
        over_socket = number % SOCKET_EVERY == SOCKET_EVERY - 1
        if over_socket:
            with running(store, configuration) as server:
                schema = load_url(f"http://127.0.0.1:{server.port}", chance)
                one_pass(tally, schema, examples, credential=credential, coverage=coverage)
                assert not server.complaints(), server.complaints()[:5]
        else:
            in_process(tally, store, configuration, chance, examples, credential=credential, coverage=coverage)
        number += 1
        report.say(
            f"schema: {tally.asked:,} requests, the last {'over the socket' if over_socket else 'in this process'} "
            f"{f'with {credential}' if credential else 'without a key'}"
        )
        for name in list(tally.failures)[said:]:
            report.say(f"schema: {name}\n  {tally.failures[name]}")
        said = len(tally.failures)
    assert not tally.failures, f"{len(tally.failures)} violations: {'; '.join(tally.failures)}"
    wrong = {status: count for status, count in tally.statuses.items() if status >= 500}
    assert not wrong, f"answers of the server's own fault: {wrong}"
    report.figure(
        "schema",
        f"{tally.asked:,} requests in {number} passes, {tally.chained:,} of them in chains; "
        f"{dict(sorted(tally.statuses.items()))}; 5xx 0, violations 0; {tally.excused} refused for what no schema says",
    )


def is_another_dialect(body: Any) -> bool:
    """Whether NLWeb reads this body although the schema, which is of 0.55 alone, does not admit it."""
    if not isinstance(body, dict):
        return False
    context = body.get("context")
    kind = context.get("@type") if isinstance(context, dict) else None
    return kind not in (None, "ConversationalContext") or detect_dialect(body) != "0.55"


class Signing:
    """Stands before the application as a platform that signs what it sends there, where a request says so."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._platform = Platform(lambda *_: (0, {}, b""), PLATFORM, PLATFORM_SECRET)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and SIGNED in dict(scope["headers"]):
            body = (await receive()).get("body", b"")
            made = self._platform.headers(scope["method"], scope["path"], body)
            fields = {name.lower().encode(): value.encode() for name, value in made.items() if name in FIELDS}
            scope["headers"] = [pair for pair in scope["headers"] if pair[0] not in fields] + list(fields.items())
            whole = {"type": "http.request", "body": body, "more_body": False}
            came = iter([whole])

            async def again() -> Any:
                return next(came, None) or await receive()

            await self.app(scope, again, send)
            return
        await self.app(scope, receive, send)


def in_process(
    tally: Tally,
    store: Path,
    configuration: Path,
    chance: random.Random,
    examples: int,
    *,
    credential: str | None,
    coverage: bool,
    only: str | None = None,
) -> None:
    import schemathesis
    from schemathesis.python import asgi

    app = Signing(create_app(Store(store), load_settings(configuration)))
    try:
        host = {"host": "localhost"}
        schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=configured(chance), headers=host)
        schema.config.base_url = BASE
        chosen = schema if only is None else schema.include(path_regex=only)
        one_pass(tally, chosen, examples, credential=credential, coverage=coverage)
    finally:
        asgi.shutdown_lifespans()


def load_url(url: str, chance: random.Random) -> BaseSchema:
    import schemathesis

    return schemathesis.openapi.from_url(f"{url}/openapi.json", config=configured(chance))


def configured(chance: random.Random) -> Any:
    from schemathesis.config import HealthCheck, SchemathesisConfig

    return SchemathesisConfig(seed=chance.getrandbits(32), suppress_health_check=[HealthCheck.all])


def one_pass(tally: Tally, schema: BaseSchema, examples: int, *, credential: str | None, coverage: bool) -> None:
    """All phases over all operations once."""
    from schemathesis.core.parameters import ParameterLocation
    from schemathesis.engine import events, from_schema
    from schemathesis.engine.run import PhaseName
    from schemathesis.hooks import hook, unregister

    config = schema.config
    config.headers = {"Authorization": f"Bearer {credential}"} if credential else {}
    config.continue_on_failure = True
    config.generation.max_examples = examples
    config.generation.no_shrink = True
    config.generation.database = "none"
    config.phases.coverage.enabled = coverage

    @schema.hook("filter_failure")
    def filter_failure(context: Any, failure: Failure, case: Case[Any], response: Response) -> bool:
        pattern = EXCUSES.get(type(failure).__name__)
        excused = pattern is not None and (pattern.search(response.text) is not None or is_another_dialect(case.body))
        tally.excused += excused
        return not excused

    def before_call(context: Any, case: Case[Any], kwargs: Any) -> None:
        right = case.meta is None or not case.meta.is_negative_at(ParameterLocation.HEADER)
        if case.path.startswith("/aip/") and case.method == "POST" and right:
            case.headers[SIGNED.decode()] = "yes"

    hook("before_call")(before_call)
    try:
        for event in from_schema(schema).execute():
            if isinstance(event, events.ScenarioFinished):
                tally.add(event.recorder, chained=event.phase is PhaseName.STATEFUL_TESTING)
            elif isinstance(event, events.NonFatalError | events.FatalError):
                tally.failures.setdefault(f"{type(event).__name__}", str(event)[:2_000])
    finally:
        unregister(before_call)
