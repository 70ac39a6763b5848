"""The example with Docker Compose: settings, commands, and the rules of the load balancer, by nginx itself.

The images are not built and Docker is not run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import typer
import yaml

from aidre.api.app import of_replica
from aidre.api.cli.main import app
from aidre.api.cli.serve import check_exposure
from aidre.api.config.settings import Settings, load_settings
from tests.integration.balancers import COMPOSE, Named, balanced, named

COMMANDS: dict[str, Any] = dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
SECRET = "0123456789abcdef0123456789abcdef"


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text("utf-8"))["services"]
    return found


def configured(name: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("CURSOR_SECRET", SECRET)
    return load_settings(COMPOSE / f"{name}.toml")


@pytest.mark.parametrize("name", ["home", "replica"])
def test_the_settings_are_accepted_and_may_listen_beyond_loopback(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = configured(name, monkeypatch)
    check_exposure(settings, "0.0.0.0", [])
    assert settings.server.cursor_secret == SECRET
    assert set(settings.server.trusted_proxies) == {subnet()}


def subnet() -> str:
    networks = yaml.safe_load((COMPOSE / "compose.yaml").read_text("utf-8"))["networks"]
    return str(networks["default"]["ipam"]["config"][0]["subnet"])


def test_home_and_replicas_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    home, replica = configured("home", monkeypatch), of_replica(configured("replica", monkeypatch))
    assert home.server.base_url == replica.server.base_url
    assert home.store.endpoint == replica.store.endpoint and home.store.region == replica.store.region
    words = services()["replica"]["command"]
    assert words[words.index("--store") + 1] == home.store.publish


def test_replicas_have_credentials_of_their_own_which_read_and_do_not_write() -> None:
    home, replica = (services()[name]["environment"] for name in ("home", "replica"))
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    assert all("READER_" in replica[name] and "READER_" not in home[name] for name in names)
    statements = json.loads((COMPOSE / "reader.json").read_text("utf-8"))["Statement"]
    actions = {action for statement in statements for action in statement["Action"]}
    assert actions == {"s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation"}
    [made] = services()["bucket"]["command"]
    assert "policy attach s3 aidre-reader --user" in made


def test_the_commands_of_the_services_are_understood() -> None:
    for name in ("home", "replica"):
        words = services()[name]["command"]
        assert words[0] == "aidre"
        COMMANDS[words[1]].make_context(words[1], list(words[2:]))
        configuration = words[words.index("--config") + 1]
        assert any(volume.endswith(f":{configuration}:ro") for volume in services()[name]["volumes"])


def test_the_commands_of_its_page_are_understood() -> None:
    lines = [line for line in (COMPOSE / "README.md").read_text("utf-8").splitlines() if " aidre " in line]
    words = [shlex.split(line.partition(" aidre ")[2]) for line in lines if "docker compose" in line]
    assert [one[0] for one in words] == ["ingest"]
    for name, *arguments in words:
        COMMANDS[name].make_context(name, arguments)


def test_every_file_that_a_service_mounts_is_there() -> None:
    mounted = [volume for one in services().values() for volume in one.get("volumes", ()) if volume.startswith("./")]
    assert mounted and all((COMPOSE / volume.split(":")[0]).exists() for volume in mounted)


def test_both_get_the_secrets_that_their_settings_name() -> None:
    for name in ("home", "replica"):
        assert {"CURSOR_SECRET", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} <= set(services()[name]["environment"])


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Named]]:
    with named(["home", "one", "two"]) as found:
        yield found


@pytest.fixture(scope="module")
def balancer(servers: list[Named], tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    home, *replicas = (server.server_port for server in servers)
    with balanced(home, replicas, tmp_path_factory.mktemp("n")) as client:
        yield client


HOME = (
    ("POST", "/aip/retrieve"),
    ("GET", "/aip/capabilities"),
    ("POST", "/intakes/find-a-recipe"),
    ("GET", "/.well-known/ai-discovery"),
    ("POST", "/await"),
    ("PUT", "/collections/docs/documents"),
    ("POST", "/collections/docs/documents/delete"),
    ("DELETE", "/collections/docs/documents/a%2Fb.md"),
)
REPLICAS = (
    ("POST", "/search"),
    ("GET", "/chunks/notes%2Fa.md%23chunk_1"),
    ("GET", "/collections/docs/changes?since=x"),
    ("GET", "/collections/documents"),
    ("POST", "/ask"),
    ("POST", "/mcp"),
    ("OPTIONS", "/search"),
    ("GET", "/readyz"),
    ("GET", "/"),
)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(("method", "target"), HOME)
def test_what_one_host_keeps_goes_to_the_home_node(method: str, target: str, balancer: httpx.Client) -> None:
    assert ask(balancer, method, target).headers["x-server"] == "home"


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize(("method", "target"), REPLICAS)
def test_all_else_goes_to_the_replicas(method: str, target: str, balancer: httpx.Client) -> None:
    assert {ask(balancer, method, target).headers["x-server"] for _ in range(4)} == {"one", "two"}


@pytest.mark.process
@pytest.mark.slow
def test_the_target_arrives_as_it_was_asked_for(balancer: httpx.Client) -> None:
    target = "/chunks/https%3A%2F%2Fx.example%2F%2Fb%3Fc"
    assert ask(balancer, "GET", target).headers["x-asked-for"] == target


@pytest.mark.process
@pytest.mark.slow
def test_the_metrics_of_one_host_are_not_those_of_the_service(balancer: httpx.Client) -> None:
    assert ask(balancer, "GET", "/metrics").status_code == 404


@pytest.mark.process
@pytest.mark.slow
def test_a_search_is_asked_again_where_a_replica_breaks_and_a_write_is_not(
    balancer: httpx.Client, servers: list[Named]
) -> None:
    home, one, _ = servers
    one.breaks = home.breaks = True
    try:
        assert {ask(balancer, "POST", "/search").headers["x-server"] for _ in range(4)} == {"two"}
        before = home.asked
        assert ask(balancer, "PUT", "/collections/docs/documents").status_code == 502
        assert home.asked == before + 1
    finally:
        one.breaks = home.breaks = False


def ask(client: httpx.Client, method: str, target: str) -> httpx.Response:
    """The answer to this target as it is written."""
    request = client.build_request(method, "http://localhost")
    request.extensions["target"] = target.encode()
    return client.send(request)
