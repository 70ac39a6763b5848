"""Publishers and replicas as they are run: what a replica serves, what it does not, and each misuse in one line."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from aidre.api.app import create_app
from aidre.api.config.settings import parse_settings
from aidre.engine.collection.store import Store
from aidre.engine.errors import ConfigurationError
from aidre.engine.maintenance import bucket as bucket_module
from aidre.engine.maintenance.publication import CATALOG, read_publication
from aidre.engine.storage.manifest import seal
from tests.support.buckets import CREDENTIALS, S3, FolderPlace, Place, S3Place, denied, proxy_of
from tests.support.clients import AGENTS, AIDRE, a_document, fill, metrics_of, serving
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.fault_proxy import FaultyServer
from tests.support.loaded import python
from tests.support.processes import Running, running, running_command
from tests.support.shell import COMMAND, Shell

SECRET = '[server]\ncursor_secret = "the secret that all replicas share"\n'
DOCUMENTS = [a_document(f"d{number}", f"alpha word{number}") for number in range(12)]


def settings_of(place: Place, endpoint: str | None = None, more: str = "") -> str:
    address = endpoint or place.address.endpoint
    where = f'endpoint = "{address}"\nregion = "us-east-1"\n' if address else ""
    return f"{SECRET}{AGENTS}\n[store]\n{where}{more}"


# -- a replica of two workers ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Home:
    """A store, its bucket behind a proxy, and a server that is a replica of it."""

    store: Path
    place: S3Place
    proxy: FaultyServer
    away: threading.Event
    cache: Path
    server: Running

    def publish(self) -> int:
        return self.place.publish(self.store).generation

    @contextmanager
    def client(self) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=self.server.url, timeout=WAIT_SECONDS) as client:
            yield client

    def everywhere(self, path: str, status: int) -> bool:
        """Whether each of many new connections, of which each worker takes some, is answered so."""
        return all(httpx.get(f"{self.server.url}{path}", timeout=WAIT_SECONDS).status_code == status for _ in range(12))


@pytest.fixture(scope="module")
def home(s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder, away = tmp_path_factory.mktemp("home"), threading.Event()
    fill(folder / "store", "docs", DOCUMENTS)
    with pytest.MonkeyPatch.context() as patched, proxy_of(s3) as proxy:
        for name, value in CREDENTIALS.items():
            patched.setenv(name, value)
        proxy.plan = lambda asked: denied() if away.is_set() else None
        place = s3.place()
        place.publish(folder / "store")
        (folder / "replica.toml").write_text(settings_of(place, proxy.url), encoding="utf-8")
        cache = folder / "cache"
        words = ("--store", place.address.url, "--cache", str(cache), "--config", str(folder / "replica.toml"))
        with running_command([*python(), *COMMAND[1:], "serve", *words, "--port", "0", "--workers", "2"]) as server:
            yield Home(folder / "store", place, proxy, away, cache, server)


@pytest.mark.process
def test_a_publication_becomes_visible_on_every_worker(home: Home) -> None:
    fill(home.store, "docs", [a_document("new", "alpha of the new one")])
    assert home.everywhere("/chunks/new%23chunk_1", 404)
    home.publish()
    until(lambda: home.everywhere("/chunks/new%23chunk_1", 200), "the publication does not become visible")


@pytest.mark.process
def test_what_one_host_keeps_is_neither_served_nor_advertised(home: Home) -> None:
    with home.client() as client:
        discovery = client.get("/.well-known/ai-discovery").json()
        assert discovery["extensions"]["replica"] == {"protocols": ["aidre", "nlweb"]}
        text = json.dumps(discovery) + client.get("/openapi.json").text
        assert "aip.json" not in text
        assert "agent-intake" not in text
        assert "documents" not in discovery["extensions"]
        for path in ("/.well-known/aip.json", "/.well-known/agent-intake.json"):
            assert client.get(path).status_code == 404
        for path in ("/intakes/find", "/aip/retrieve", "/aip/report"):  # nothing signed is answered a second time here
            assert client.post(path, json={}).status_code == 404
        assert client.put("/collections/docs/documents/x", json={"text": "x"}).status_code in (404, 405)


@pytest.mark.process
def test_nlweb_is_answered_without_a_promise(home: Home) -> None:
    asked = {"query": {"text": "alpha"}, "prefer": {"respond-async": True}}
    with home.client() as client:
        answer = client.post("/ask", json=asked).json()
    assert "promise" not in answer
    assert "alpha" in json.dumps(answer)


@pytest.mark.process
def test_a_bucket_that_goes_away_is_seen_and_does_not_stop_the_answers(home: Home) -> None:
    with home.client() as client:
        ready = client.get("/readyz").json()
        assert (ready["status"], ready["protocols"]) == ("ready", ["aidre", "nlweb"])
        home.away.set()
        try:
            until(lambda: client.get("/readyz").json()["replica_age"] > 3)
            assert metrics_of(client)["aidre_replica_age_seconds"] > 3
            assert client.get("/readyz").status_code == 200
            assert client.post("/search", json={"query": "alpha"}, headers={"content-type": AIDRE}).status_code == 200
        finally:
            home.away.clear()
        until(lambda: client.get("/readyz").json()["replica_age"] < 3, "the bucket came back")


@pytest.mark.process
def test_a_purge_leaves_nothing_in_the_bucket_and_in_the_cache(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    word = b"quixotrope"
    fill(home.store, "docs", [a_document("secret", "alpha quixotrope vorlagish")])
    home.publish()
    until(lambda: home.everywhere("/chunks/secret%23chunk_1", 200))
    with home.client() as client:
        body = {"query": "quixotrope", "return": {"text": True}}
        assert word in client.post("/search", json=body, headers={"content-type": AIDRE}).content
        assert word.lower() in client.post("/ask", json={"query": {"text": "quixotrope"}}).content.lower()
    assert [key for key, content in home.place.contents().items() if word in content]
    shell = Shell(home.store.parent, capsys)
    shell.json("delete", "secret", "--purge", "--collection", "docs")
    [published] = shell.json("publish", "--to", home.place.address.url, "--config", home.store.parent / "replica.toml")
    assert published["collection"] == "docs"
    until(lambda: home.everywhere("/chunks/secret%23chunk_1", 404))
    until(lambda: holders(home.cache, word) == [], "the cache keeps what was purged")
    assert [key for key, content in home.place.contents().items() if word in content] == []


def holders(folder: Path, word: bytes) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and word in path.read_bytes()]


# -- a server that publishes -------------------------------------------------------------------------------------


@pytest.mark.process
def test_a_server_publishes_every_commit_where_it_is_told_to(s3_place: S3Place, tmp_path: Path) -> None:
    store, config = tmp_path / "store", tmp_path / "aidre.toml"
    fill(store, "docs", DOCUMENTS)
    config.write_text(settings_of(s3_place, more=f'publish = "{s3_place.address.url}"\n'), encoding="utf-8")

    def published() -> int:
        found = read_publication(s3_place.bucket, "docs")
        return 0 if found is None else found[0].generation

    with running(store, settings=config):
        until(lambda: published() == 1, "the first generation is not published")
        fill(store, "docs", [a_document("new", "beta")])
        until(lambda: published() == 2, "the commit is not published")
    assert s3_place.replica(tmp_path / "cache").source.open("docs").documents == 13


# -- cursors -----------------------------------------------------------------------------------------------------


def test_a_cursor_is_good_on_every_replica_and_on_one_that_never_saw_its_generation(
    folder_place: FolderPlace, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    fill(store, "docs", DOCUMENTS)
    folder_place.publish(store)
    first = folder_place.replica(tmp_path / "first")
    with serving(first.cache, SECRET, source=first.source) as client:
        page = client.search({"query": "alpha", "top_k": 4}).json()
        rest = client.search({"query": "alpha", "top_k": 4, "cursor": page["meta"]["next_cursor"]}).json()["results"]
    fill(store, "docs", [a_document(f"new{number}", "alpha") for number in range(4)])
    folder_place.publish(store)
    second = folder_place.replica(tmp_path / "second")
    with serving(second.cache, SECRET, source=second.source) as client:
        body = {"query": "alpha", "top_k": 4, "cursor": page["meta"]["next_cursor"]}
        answer = client.search(body)
        assert (answer.status_code, answer.json().get("results")) == (200, rest)
        assert {one["id"] for one in client.search({"query": "alpha", "top_k": 4}).json()["results"]} == {
            f"new{number}#chunk_1" for number in range(4)
        }
    with serving(second.cache, SECRET.replace("share", "do not share"), source=second.source) as client:
        assert client.search(body).status_code in (400, 409)


def test_a_cursor_whose_generation_was_purged_has_expired_on_replicas(
    folder_place: FolderPlace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    fill(store, "docs", DOCUMENTS)
    folder_place.publish(store)
    replica = folder_place.replica(tmp_path / "cache")
    with serving(replica.cache, SECRET, source=replica.source) as client:
        body = {"query": "alpha", "top_k": 4}
        cursor = client.search(body).json()["meta"]["next_cursor"]
        Shell(tmp_path, capsys).json("delete", "d1", "--purge", "--collection", "docs")
        folder_place.publish(store)
        replica.pull()
    with serving(replica.cache, SECRET, source=replica.source) as client:
        assert client.search({**body, "cursor": cursor}).status_code == 409


# -- misuse ------------------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_module, "_RETRY", {"max_retries": 0})


def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, *words: str | Path) -> str:
    """The one line that a command ends with; no credential is in it."""
    status, out, err = Shell(tmp_path, capsys).run(*words)
    assert status not in (0, 70), (status, out, err)
    lines = [line for line in err.splitlines() if line.strip()]
    assert len(lines) == 1, err
    assert not [value for name, value in CREDENTIALS.items() if name != "AWS_REGION" and value in out + err]
    return lines[0]


def test_each_misuse_of_serve_is_one_line(
    s3: S3, s3_place: S3Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: None
) -> None:
    store, config, cache = tmp_path / "home", tmp_path / "replica.toml", tmp_path / "cache"
    fill(store, "docs", DOCUMENTS)
    config.write_text(settings_of(s3_place), encoding="utf-8")
    url = s3_place.address.url

    def serve(*words: str | Path, settings: Path = config) -> str:
        return refused(capsys, tmp_path, "serve", "--port", "0", "--config", settings, *words)

    assert "--cache: name the folder" in serve("--store", url)
    assert "--cache is for replicas" in serve("--store", store, "--cache", cache)
    assert "nothing is published" in serve("--store", url, "--cache", cache)
    assert "does not exist" in serve("--store", "s3://no-such-bucket/x", "--cache", tmp_path / "other")
    assert "nonsense://x is not a bucket" in serve("--store", "nonsense://x", "--cache", tmp_path / "other")
    s3_place.publish(store)
    assert "is not empty: name a new folder" in serve("--store", url, "--cache", store)
    assert "--workers" in serve("--store", url, "--cache", cache, "--workers", "0")
    other = s3.place()
    other.publish(store)
    assert f"is the cache of {url}" in serve("--store", other.address.url, "--cache", cache)
    writes = tmp_path / "writes.toml"
    writes.write_text(config.read_text().replace("[server]", "[server]\nwrites = true"), encoding="utf-8")
    assert "server.writes" in serve("--store", url, "--cache", cache, settings=writes)
    s3_place.put(CATALOG, seal(b'{"format":2}'))
    assert "upgrade aidre" in serve("--store", url, "--cache", tmp_path / "newer")


def test_wrong_credentials_and_a_mute_endpoint_are_one_line(
    s3: S3, s3_place: S3Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: None
) -> None:
    fill(tmp_path / "store", "docs", DOCUMENTS)
    config = tmp_path / "replica.toml"
    with proxy_of(s3, lambda asked: denied()) as proxy:
        config.write_text(settings_of(s3_place, proxy.url), encoding="utf-8")
        words = ("--store", s3_place.address.url, "--cache", tmp_path / "cache", "--config", config)
        assert "denies access" in refused(capsys, tmp_path, "serve", "--port", "0", *words)
        to = ("--to", s3_place.address.url, "--config", config)
        assert "denies access" in refused(capsys, tmp_path, "publish", "--store", tmp_path / "store", *to)
    assert "does not answer" in refused(capsys, tmp_path, "serve", "--port", "0", *words)
    assert "does not answer" in refused(capsys, tmp_path, "publish", "--store", tmp_path / "store", *to)


def test_each_misuse_of_publish_is_one_line(
    s3_place: S3Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: None
) -> None:
    fill(tmp_path / "store", "docs", DOCUMENTS)
    fill(tmp_path / "another", "docs", DOCUMENTS)
    config = tmp_path / "replica.toml"
    config.write_text(settings_of(s3_place), encoding="utf-8")
    store, to = ("--store", tmp_path / "store", "--config", config), ("--to", s3_place.address.url)
    assert "publish: say where" in refused(capsys, tmp_path, "publish", *store)
    assert "missing" in refused(capsys, tmp_path, "publish", "--store", tmp_path / "missing", *to)
    assert "none is not in the store" in refused(capsys, tmp_path, "publish", *store, *to, "--collection", "none")
    assert Shell(tmp_path, capsys).run("publish", *store, *to)[0] == 0
    another = ("--store", tmp_path / "another", "--config", config)
    assert "--force" in refused(capsys, tmp_path, "publish", *another, *to)
    status, out, _ = Shell(tmp_path, capsys).run("publish", *another, *to, "--force")
    assert status == 0
    assert "docs" in out


def test_no_command_writes_into_a_cache(
    folder_place: FolderPlace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, cache = tmp_path / "home", tmp_path / "store"
    fill(store, "docs", DOCUMENTS)
    folder_place.publish(store)
    fill(store, "docs", [a_document("new", "beta")])
    folder_place.publish(store)
    folder_place.replica(cache)
    shell = Shell(tmp_path, capsys)
    at = ("--store", cache, "--collection", "docs")
    for words in (
        ("ingest", shell.source, *at, "--config", shell.config),
        ("delete", "d1", *at),
        ("delete", "d1", "--purge", *at),
        ("compact", *at),
        ("generations", "--keep", "5", *at),
        ("rollback", "1", *at),
    ):
        assert "takes no writes" in refused(capsys, tmp_path, *words), words
    assert Store(cache).open("docs").documents == 13


def test_http_writes_are_refused_by_name(tmp_path: Path) -> None:
    fill(tmp_path, "docs", DOCUMENTS)
    settings = parse_settings(
        '[server]\nwrites = true\n[[keys]]\nname = "k"\nsha256 = "%s"\nscopes = ["write"]' % ("0" * 64)
    )
    with pytest.raises(ConfigurationError, match=r"server\.writes: a replica takes no writes"):
        create_app(Store(tmp_path), settings, replica_age=lambda: 0.0)
