"""What /openapi.json says of Agent Intake, compared with what is served."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from aidre.api.protocols.intake import intake_routes as intake
from tests.support.clients import BASE, Client
from tests.support.intake_agent import JSON, WELL_KNOWN
from tests.support.intakes import SECRET, SESSION, a_bind, a_submission, offered


@pytest.fixture(scope="module")
def described(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def check(described: dict[str, Any], schema: dict[str, Any], value: Any) -> None:
    Draft202012Validator({**schema, "components": described["components"]}).validate(value)


@pytest.mark.slow
def test_every_route_is_described(described: dict[str, Any]) -> None:
    for route in intake.routes:
        assert {method.upper() for method in described["paths"][route.path]} == (route.methods or set()) - {"HEAD"}
    for schema in described["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_aidre_discovery_names_the_manifest(client: Client) -> None:
    assert client.get("/.well-known/ai-discovery").json()["endpoints"]["intake"] == f"{BASE}{WELL_KNOWN}"


SUBMISSIONS: list[tuple[str, Any, int]] = [
    ("find-a-plumber", a_submission(), 200),
    ("choosy", a_submission({"query": "pipe"}), 200),
    ("find-a-plumber", a_submission({}), 400),
    ("find-a-plumber", {}, 400),
    ("members", a_submission({"query": "pipe"}), 401),
    ("absent", a_submission(), 404),
    ("nowhere", a_submission({"query": "pipe"}), 503),
]


@pytest.mark.parametrize(("id", "body", "status"), SUBMISSIONS)
def test_answers_to_submissions_are_as_described(
    client: Client, described: dict[str, Any], id: str, body: Any, status: int
) -> None:
    response = client.request("POST", f"/intakes/{id}", json=body, headers={"content-type": JSON})
    assert response.status_code == status
    stated = described["paths"]["/intakes/{id}"]["post"]["responses"][str(status)]
    check(described, stated["content"][JSON]["schema"], response.json())
    if status == 200:
        requested = described["paths"]["/intakes/{id}"]["post"]["requestBody"]["content"][JSON]["schema"]
        check(described, requested, body)


def test_manifest_and_binds_are_as_described(client: Client, described: dict[str, Any]) -> None:
    stated = described["paths"][WELL_KNOWN]["get"]["responses"]["200"]
    check(described, stated["content"][JSON]["schema"], client.get(WELL_KNOWN).json())
    operation = described["paths"]["/intakes/bind"]["post"]
    good = a_bind(offered(client)["id"])
    check(described, operation["requestBody"]["content"][JSON]["schema"], good)
    other = {**good, "bind_data": {**good["bind_data"], "phone": "1"}}
    for body, status in ((good, 200), (other, 409), ({"session_id": SESSION}, 400), (a_bind("absent"), 404)):
        response = client.request("POST", "/intakes/bind", json=body, headers={"content-type": JSON})
        assert response.status_code == status
        check(described, operation["responses"][str(status)]["content"][JSON]["schema"], response.json())


def test_what_needs_a_key_is_described_for_those_who_have_it(client: Client, described: dict[str, Any]) -> None:
    headers = {"content-type": JSON, "authorization": f"Bearer {SECRET}"}
    response = client.request("POST", "/intakes/members", json=a_submission({"query": "pipe"}), headers=headers)
    stated = described["paths"]["/intakes/{id}"]["post"]["responses"]["200"]
    check(described, stated["content"][JSON]["schema"], response.json())
