"""Thousands of requests that are nearly right: whatever comes, the answer is the protocol's own and no defect."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from jsonschema import Draft202012Validator

from tests.support import intakes
from tests.support.clients import Client
from tests.support.intake_agent import JSON
from tests.support.intake_schemas import ANSWER, BOUND
from tests.support.intakes import a_bind, a_submission, offered, post

client = intakes.client

REQUESTS = 1_000
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    1e308,
    2**70,
    "",
    " ",
    "\x00",
    "é😀\u202e",
    "a" * 3_000,
    "{need}",
    "'; DROP TABLE offers; --",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    [],
    [[]],
    {},
    {"": ""},
    {"$ref": "#"},
    ["bind", "intake"],
    {"a": {"b": {"c": [1, 2, {"d": None}]}}},
]
DATA = {"need": "leaking pipe", "urgency": "today", "code": "aaa", "place": {"city": "Berlin"}}
METADATA = {"timestamp": "2026-11-22T06:00:00Z", "locale": "de-DE"}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all members."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        yield (*path, name)
        yield from places(item, (*path, name))


def mutated(value: Any, chance: random.Random) -> Any:
    """A copy in which a few members are gone, doubled, renamed or another thing."""
    copy = json.loads(json.dumps(value))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        paths = list(places(copy))
        if not paths:
            break
        *above, last = chance.choice(paths)
        holder = copy
        for name in above:
            holder = holder[name]
        kind = chance.randrange(4)
        if kind == 0:
            del holder[last]
        elif kind == 1 and isinstance(holder, dict):
            holder[chance.choice(["x", "", "__proto__", str(last).upper(), "bind"])] = holder.pop(last)
        elif kind == 2 and isinstance(holder, list):
            holder.append(deepcopy(holder[last]))
        else:
            holder[last] = deepcopy(chance.choice(ODD))
    return copy


def bent(content: bytes, chance: random.Random) -> bytes:
    """Bytes with a few changed, cut off or repeated."""
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(changed))
        kind = chance.randrange(3)
        if kind == 0:
            changed[at] = chance.randrange(256)
        elif kind == 1:
            del changed[at : at + chance.randrange(1, 20)]
        else:
            changed[at:at] = changed[at : at + chance.randrange(1, 20)]
        if not changed:
            break
    return bytes(changed)


def test_every_mutated_request_is_answered_by_the_protocol(client: Client) -> None:
    chance = random.Random(5)
    offer = offered(client)["id"]
    answer_form, bound_form = Draft202012Validator(ANSWER), Draft202012Validator(BOUND)
    statuses: dict[int, int] = {}
    for number in range(REQUESTS):
        if number % 2:
            path, body = "/intakes/bind", a_bind(chance.choice([offer, "x"]), metadata=METADATA)
        else:
            id = chance.choice(["find-a-plumber"] * 8 + ["search", "members", "x%00", "bind%2F"])
            path, body = f"/intakes/{id}", a_submission(DATA, metadata=METADATA)
        content = json.dumps(mutated(body, chance), ensure_ascii=chance.random() < 0.5).encode()
        if chance.random() < 0.3:
            content = bent(content, chance)
        kind = (
            JSON if chance.random() < 0.95 else chance.choice(["", "text/json", "application/json;;charset", "a" * 99])
        )
        response = post(client, path, content, content_type=kind)
        form = bound_form if response.status_code == 200 and number % 2 else answer_form
        form.validate(response.json())
        assert response.status_code < 500, (content, response.text)
        statuses[response.status_code] = statuses.get(response.status_code, 0) + 1
    assert set(statuses) >= {200, 400, 401, 404, 409, 415}, statuses
