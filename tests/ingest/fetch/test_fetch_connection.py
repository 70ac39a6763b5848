"""What is connected to: checked addresses alone, whatever names, redirects and the environment say, and TLS."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from aidre.engine.errors import FetchFailed
from aidre.ingest.fetch.fetcher import Fetcher, FetchRules
from aidre.ingest.fetch.urls import look_up, read_url
from tests.support.clocks import WAIT_SECONDS
from tests.support.websites import Site, encrypted


class Net:
    """A network of names that only tests have: remembers what was connected to, and refuses the connection."""

    def __init__(self, **names: Sequence[str]) -> None:
        self.names = {name.replace("_", "."): list(addresses) for name, addresses in names.items()}
        self.asked: list[str] = []
        self.dialled: list[str] = []

    def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.names[host]

    def connect(self, address: str, port: int, seconds: float) -> socket.socket:
        self.dialled.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    def get(self, url: str, into: Path, rules: FetchRules | None = None) -> str:
        with pytest.raises(FetchFailed) as caught:
            Fetcher(rules or FetchRules(), resolve=self.resolve, connect=self.connect).get(read_url(url), into)
        return caught.value.message


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "https://127.0.0.1/", "http://127.0.0.1.:8080/", "http://10.1.2.3/", "http://0.0.0.0/",
        "http://169.254.169.254/latest/meta-data/", "http://100.100.100.200/", "http://168.63.129.16/",
        "http://192.168.0.1/", "http://224.0.0.1/", "http://255.255.255.255/", "http://[::1]/", "http://[::]/",
        "http://[::ffff:127.0.0.1]/", "http://[::ffff:a9fe:a9fe]/", "http://[64:ff9b::7f00:1]/", "http://[fe80::1]/",
        "http://[2002:7f00:1::]/", "http://[2001:0:1::1]/", "http://[fd00:ec2::254]/", "http://[::127.0.0.1]/",
        "http://１２７.0.0.1/",
    ],
)  # fmt: skip
def test_an_address_that_is_not_public_is_refused_before_it_is_connected_to(url: str, body: Path) -> None:
    net = Net()
    assert net.get(url, body).startswith("refused: ")
    assert (net.asked, net.dialled) == ([], [])


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["93.184.215.14", "10.0.0.1"],
        ["2606:4700::1111", "::ffff:127.0.0.1"],
        ["fe80::1%eth0"],
        ["no address"],
    ],
)
def test_a_name_is_refused_when_one_of_its_addresses_is_not_public(addresses: list[str], body: Path) -> None:
    net = Net(rebound_example=addresses)
    assert net.get("http://rebound.example/", body).startswith("refused: rebound.example has the address ")
    assert net.dialled == []


def test_what_is_connected_to_is_what_was_checked_whatever_the_name_server_says_next(body: Path) -> None:
    answers = iter([["93.184.215.14"], ["127.0.0.1"]])
    net = Net()
    net.resolve = lambda host, port: next(answers)  # type: ignore[method-assign]
    assert net.get("http://rebound.example/", body) == "the connection failed: Connection refused"
    assert net.dialled == ["93.184.215.14"]
    assert "127.0.0.1, which is loopback" in net.get("http://rebound.example/", body)
    assert net.dialled == ["93.184.215.14"]


def test_the_next_address_is_tried_where_one_does_not_answer(body: Path) -> None:
    net = Net(two_example=["93.184.215.14", "2606:4700::1111"], none_example=[])
    net.get("http://two.example/", body)
    assert net.dialled == ["93.184.215.14", "2606:4700::1111"]
    assert net.get("http://none.example/", body) == "the name none.example cannot be resolved: it has no address"
    reason = "the name missing.example cannot be resolved: Name or service not known"
    assert net.get("http://missing.example/", body) == reason


def test_a_name_server_that_does_not_answer_is_not_waited_for(body: Path) -> None:
    released = threading.Event()
    net = Net()
    net.resolve = lambda host, port: [str(released.wait(WAIT_SECONDS))]  # type: ignore[method-assign]
    reason = net.get("http://slow.example/", body, FetchRules(connect_timeout=0.05))
    released.set()
    assert reason == "the name slow.example cannot be resolved: no answer in time"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "to", ["http://internal.example/", "//10.0.0.1/", "http://[::ffff:127.0.0.1]/", "http://127.1/"]
)
def test_a_redirect_is_checked_like_the_first_address(site: Site, body: Path, status: int, to: str) -> None:
    net = Net(public_example=["93.184.215.14"], internal_example=["10.0.0.1"])
    site.redirect("/", to, status)

    def connect(address: str, port: int, seconds: float) -> socket.socket:
        net.dialled.append(address)
        return socket.create_connection(("127.0.0.1", site.port), seconds)

    with pytest.raises(FetchFailed, match=r"refused: |not a plain IPv4") as caught:
        Fetcher(FetchRules(), resolve=net.resolve, connect=connect).get(read_url("http://public.example/"), body)
    assert "answered" not in caught.value.message
    assert net.dialled == ["93.184.215.14"]


def test_the_host_is_named_and_the_environment_names_no_proxy(
    site: Site, body: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    site.put("/a?b", "hello")
    rules = FetchRules(user_agent="tester/1")
    port = site.port

    def connect(address: str, _: int, seconds: float) -> socket.socket:
        return socket.create_connection(("127.0.0.1", port), seconds)

    fetcher = Fetcher(rules, resolve=lambda host, port: ["93.184.215.14"], connect=connect)
    assert fetcher.get(read_url("http://example.com:8080/a?b"), body) is not None
    assert (site.headers[0]["Host"], site.headers[0]["User-Agent"]) == ("example.com:8080", "tester/1")


def test_a_redirect_leads_to_no_other_port_than_the_usual_ones(site: Site, body: Path) -> None:
    site.redirect("/", "http://example.com:6379/")

    def connect(address: str, _: int, seconds: float) -> socket.socket:
        return socket.create_connection(("127.0.0.1", site.port), seconds)

    fetcher = Fetcher(FetchRules(), resolve=lambda host, port: ["93.184.215.14"], connect=connect)
    with pytest.raises(FetchFailed, match="port 6379"):
        fetcher.get(read_url("http://example.com:8080/"), body)


def test_the_system_resolves_names() -> None:
    assert "127.0.0.1" in look_up("127.0.0.1", 80)


def test_a_certificate_must_be_trusted_and_of_this_host(
    tmp_path: Path, body: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with encrypted(tmp_path) as port:

        def fetcher() -> Fetcher:
            return Fetcher(
                FetchRules(),
                resolve=lambda host, _: ["93.184.215.14"],
                connect=lambda address, _, seconds: socket.create_connection(("127.0.0.1", port), seconds),
            )

        with pytest.raises(FetchFailed, match="certificate is not accepted: self"):
            fetcher().get(read_url("https://tea.example/"), body)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tea.pem"))
        fetched = fetcher().get(read_url("https://tea.example/"), body)
        assert fetched is not None and fetched.bytes == 5
        with pytest.raises(FetchFailed, match="certificate is not accepted: Hostname mismatch"):
            fetcher().get(read_url("https://coffee.example/"), body)


def test_a_body_without_a_length_ends_with_tls_and_not_before(
    tmp_path: Path, body: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with encrypted(tmp_path, b"HTTP/1.1 200 OK\r\n\r\nhel") as port:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tea.pem"))
        fetcher = Fetcher(
            FetchRules(),
            resolve=lambda host, _: ["93.184.215.14"],
            connect=lambda address, _, seconds: socket.create_connection(("127.0.0.1", port), seconds),
        )
        with pytest.raises(FetchFailed, match=r"^TLS failed: "):
            fetcher.get(read_url("https://tea.example/"), body)


def test_what_is_no_tls_is_a_failure(site: Site, body: Path) -> None:
    with pytest.raises(FetchFailed, match=r"^TLS failed: "):
        Fetcher(FetchRules(allow_private_addresses=True)).get(read_url(site.url().replace("http://", "https://")), body)
