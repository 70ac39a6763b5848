"""`aidre serve`, `api/cli/serve.py`: what it refuses to start with, and servers in processes of their own."""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from aidre.api.app import create_app
from aidre.api.cli.serve import SEND_BUFFER_BYTES, _config, _listen, serve, with_base_url
from aidre.api.config.settings import Settings, parse_settings
from aidre.api.retrieval.snapshots import POLL_SECONDS
from aidre.engine.collection.store import Store
from aidre.engine.errors import ConfigurationError
from tests import ROOT
from tests.support.clients import AIDRE, TEXT, a_document, fill
from tests.support.clocks import WAIT_SECONDS, until
from tests.support.processes import SEARCH, running, running_command, search
from tests.support.servers import served
from tests.support.shell import COMMAND


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    fill(path, "docs", [*(a_document(f"doc_{n}", f"alpha word{n}") for n in range(12)), a_document("a/b c%", "alpha")])
    return path


# -- over real connections ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client(store: Path) -> Iterator[httpx.Client]:
    with served(store) as (_, shared):
        yield shared


def test_raw_percent_encoding_reaches_the_route(client: httpx.Client) -> None:
    assert client.get("/chunks/a%2Fb%20c%25%23chunk_1").json()["id"] == "a/b c%#chunk_1"
    assert client.get("/chunks/a/b%20c%25%23chunk_1").json()["id"] == "a/b c%#chunk_1"
    assert client.get("/chunks/%FF").status_code == 404


def test_a_large_body_is_refused_and_the_next_request_answered(client: httpx.Client) -> None:
    large = client.post("/search", content=b" " * 3_000_000, headers={"content-type": AIDRE})
    assert (large.status_code, large.json()["error"]) == (413, "payload_too_large")
    assert search(client).status_code == 200


@pytest.mark.slow
def test_a_new_generation_is_served_by_itself_and_no_request_fails(tmp_path: Path) -> None:
    fill(tmp_path, "docs", [a_document("doc", "alpha")])
    statuses: list[int] = []
    done = threading.Event()

    def ask(url: str) -> None:
        with httpx.Client(base_url=url, timeout=WAIT_SECONDS) as client:
            while not done.is_set():
                statuses.append(search(client).status_code)

    with served(tmp_path) as (server, client):
        askers = [threading.Thread(target=ask, args=(f"http://127.0.0.1:{server.port}",)) for _ in range(2)]
        for asker in askers:
            asker.start()
        try:
            for number in range(2):
                fill(tmp_path, "docs", [a_document(f"new_{number}", "alpha new")])
                until(lambda: client.get(f"/chunks/new_{number}%23chunk_1").status_code == 200)  # noqa: B023
            asked = len(statuses)
            until(lambda: len(statuses) > asked + 10)
        finally:
            done.set()
            for asker in askers:
                asker.join()
        fill(tmp_path, "more", [a_document("x", "beta")], (TEXT,))
        until(lambda: client.get("/collections/more").status_code == 200)
    assert set(statuses) == {200}
    assert POLL_SECONDS <= 0.5, "it is looked for a few times in a second"


# -- processes ------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_a_server_answers_over_http_and_ends_cleanly(store: Path) -> None:
    with running(store) as server:
        with httpx.Client(base_url=server.url, timeout=WAIT_SECONDS) as client:
            response = search(client)
            assert response.status_code == 200
            assert len(response.json()["results"]) == 5
            assert "date" in response.headers
            assert "server" not in response.headers
            head = client.head("/collections")
            assert (head.status_code, head.content) == (200, b"")
            discovered = client.get("/.well-known/ai-discovery").json()
            assert discovered["endpoints"]["search"] == f"{server.url}/search"
        assert server.stop() == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""


@pytest.mark.process
def test_serve_answers_until_it_is_interrupted(store: Path, tmp_path: Path) -> None:
    settings = tmp_path / "aidre.toml"
    settings.write_text('[collections.doc]\nvisibility = "private"\n')
    words = ["serve", "--store", str(store), "--config", str(settings), "--port", "0"]
    with running_command([*COMMAND, *words]) as server:
        assert server.stop(signal.SIGINT) == 0
        assert server.process.stderr is not None
        said = server.process.stderr.read()
    assert said == "aidre: collections.doc: collection 'doc' is not in the store: did you mean 'docs'?\n"


EMBED_WHEN_TOLD = """
import time
from aidre.engine.embedding.graph import HashingEmbedder
embed = HashingEmbedder.embed_queries
def embed_when_told(self, texts):
    (Path(sys.argv[1]).parent / "asked").touch()
    while not (Path(sys.argv[1]).parent / "go").exists():
        time.sleep(0.01)
    return embed(self, texts)
HashingEmbedder.embed_queries = embed_when_told
"""


@pytest.mark.process
def test_a_running_request_is_finished_before_the_end(tmp_path: Path) -> None:
    fill(tmp_path / "store", "docs", [a_document("doc", "alpha")])
    answers: list[int] = []
    with running(tmp_path / "store", before=EMBED_WHEN_TOLD) as server:
        address = ("127.0.0.1", urlsplit(server.url).port)

        def ask() -> None:
            with httpx.Client(base_url=server.url, timeout=WAIT_SECONDS) as client:
                answers.append(search(client).status_code)

        def is_closed() -> bool:
            try:
                socket.create_connection(address).close()
            except ConnectionRefusedError:
                return True
            return False

        asker = threading.Thread(target=ask)
        asker.start()
        until((tmp_path / "asked").exists)
        server.process.send_signal(signal.SIGTERM)
        until(is_closed)
        (tmp_path / "go").touch()
        assert server.process.wait(WAIT_SECONDS) == 0
        asker.join()
    assert answers == [200]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_soft_limit_of_open_files_keeps_no_collection_from_being_opened(workers: int, tmp_path: Path) -> None:
    for number in range(20):  # each keeps some ten files open
        fill(tmp_path, f"tenant{number}", [a_document("d", "alpha")])
    few = "from resource import RLIMIT_NOFILE as F, getrlimit, setrlimit\nsetrlimit(F, (110, getrlimit(F)[1]))"
    with running(tmp_path, workers, before=few) as server:
        assert httpx.get(f"{server.url}/readyz", timeout=WAIT_SECONDS).json() == {"status": "ready", "damaged": 0}
        assert server.stop() == 0
        assert server.process.stderr is not None
        assert "cannot be opened" not in server.process.stderr.read()


@pytest.mark.process
@pytest.mark.slow
def test_two_workers_share_a_port_and_understand_each_others_cursors(store: Path) -> None:
    with running(store, workers=2) as server:
        seen = set()
        for _ in range(10):
            with httpx.Client(base_url=server.url, timeout=WAIT_SECONDS) as client:
                first = search(client)
            with httpx.Client(base_url=server.url, timeout=WAIT_SECONDS) as client:
                cursor = first.json()["meta"]["next_cursor"]
                second = search(client, {**SEARCH, "cursor": cursor})
            assert (first.status_code, second.status_code) == (200, 200)
            seen.add(tuple(result["id"] for result in first.json()["results"] + second.json()["results"]))
        assert len(seen) == 1
        assert len(set(*seen)) == 10
        assert server.stop() == 0


@pytest.mark.process
@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed(store: Path) -> None:
    with running(store, workers=2, interpreter=[sys.executable]) as server:
        workers = children_of(server.process.pid)
        assert len(workers) >= 2
        server.process.kill()
        server.process.wait()
        until(lambda: not any(map(is_running, workers)))


def children_of(parent: int) -> list[int]:
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(pid) for pid in found]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.process
def test_a_text_query_loads_no_torch(store: Path) -> None:
    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from pathlib import Path\n"
        "from tests.support.clients import serving\n"
        "with serving(Path(sys.argv[1])) as client:\n"
        "    assert client.search({'query': 'alpha'}).status_code == 200\n"
        "assert 'aidre.api.app' in sys.modules\n"
        "assert not {'torch', 'sentence_transformers', 'transformers'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(store)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# -- what it refuses to start with ----------------------------------------------------------------------------------


def test_a_store_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no store at") as caught:
        serve(tmp_path / "missing", None, "127.0.0.1", 0, 1)
    assert "\n" not in str(caught.value)


def test_a_port_in_use_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port} on 127.0.0.1 is in use"):
            serve(tmp_path, None, "127.0.0.1", port, 1)


def test_a_host_that_is_none_is_one_line(tmp_path: Path) -> None:
    configuration = tmp_path / "aidre.toml"
    configuration.write_text('[server]\nbase_url = "https://ai.example.com"\ntls = "proxy"')
    with pytest.raises(ConfigurationError, match="is not an address to listen on"):
        serve(tmp_path, configuration, "no such host", 0, 1)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('[oauth]\nissuer = "https://x.example"\naudience = "x"\njwks = "keys.json"', r"oauth\.jwks .*keys\.json"),
        ('[limits]\nrate = "9/hour"\nredis = "http://127.0.0.1"', r"limits\.redis must begin"),
        ('[provenance]\nkey = "none.pem"', r"none\.pem"),
    ],
)
@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_guard_or_a_signer_lacks_is_one_line(workers: int, written: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"keys": []}')
    configuration = tmp_path / "aidre.toml"
    configuration.write_text(written)
    with pytest.raises(ConfigurationError, match=said):
        serve(tmp_path, configuration, "127.0.0.1", 0, workers)
    assert logging.getLogger("aidre").propagate, "what failed has not begun to speak"


def test_beyond_loopback_a_base_url_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"server\.base_url is missing"):
        serve(tmp_path, None, "0.0.0.0", 0, 1)
    configuration = tmp_path / "aidre.toml"
    configuration.write_text('[server]\nbase_url = "http://ai.example.com"')
    with pytest.raises(ConfigurationError, match=r"server\.base_url must begin with https"):
        serve(tmp_path, configuration, "127.0.0.1", 0, 1)


def test_a_worker_that_is_slow_on_a_busy_machine_is_not_taken_for_hung() -> None:
    assert _config(lambda: create_app(Store(Path()), Settings()), 2).timeout_worker_healthcheck >= 60


def test_the_listening_socket_sends_without_delay() -> None:
    with _listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            held = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            assert held <= 2 * SEND_BUFFER_BYTES, "one who does not read has this much made for him"
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", "http://127.0.0.1:80"), ("::1", "http://[::1]:80"), ("localhost", "http://localhost:80")],
)
def test_on_loopback_the_base_url_is_the_address_itself(host: str, expected: str) -> None:
    assert with_base_url(Settings(), host, 80).server.base_url == expected
    configured = parse_settings('[server]\nbase_url = "https://ai.example.com"')
    assert with_base_url(configured, host, 80) == configured
