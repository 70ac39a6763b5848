"""Each misuse of the client, and each server that is none, is one exception with a code and a message of one line."""

from __future__ import annotations

import site
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aidre_client
from tests import ROOT
from tests.support.fault_proxy import Fault, FaultyServer, answering, foreign
from tests.support.remote import SPACE, connected

NAN = float("nan")
INVALID, FILTER, FAILED, MISSING = "invalid_input", "invalid_filter", "request_failed", "missing"
CLASSES = {
    INVALID: aidre_client.InvalidInput,
    FILTER: aidre_client.InvalidFilter,
    FAILED: aidre_client.RequestFailed,
    MISSING: aidre_client.Missing,
    "collection_missing": aidre_client.CollectionMissing,
    "history_missing": aidre_client.HistoryMissing,
    "space_missing": aidre_client.SpaceMissing,
    "dimension_mismatch": aidre_client.DimensionMismatch,
    "access_denied": aidre_client.AccessDenied,
    "unsupported": aidre_client.Unsupported,
    "closed": aidre_client.Closed,
}


def refused(code: str, words: str, verb: Callable[[], object]) -> aidre_client.AidreError:
    with pytest.raises(aidre_client.AidreError) as caught:
        verb()
    error, message = caught.value, str(caught.value)
    assert type(error) is CLASSES[code], message
    assert (error.code, error.message) == (code, message)
    assert words in message, message
    assert "\n" not in message
    assert len(message) < 1_000
    for place in (str(ROOT), *site.getsitepackages(), "Traceback", "secret"):
        assert place not in message
    return error


def ask(client: aidre_client.Client, **preferences: Any) -> object:
    return client.nlweb.ask("x", **preferences)


def asked_by(
    verb: Callable[[aidre_client.RemoteCollection], object], client: aidre_client.Client
) -> Callable[[], object]:
    return lambda: verb(client.collection("docs"))


URLS = (
    "example.com", None, 3, b"http://x", "", "ftp://x", "file:///x", "http://", "http://x:99999", "http://x:abc",
    "http://[", "http://a b", "http://a\0", "http://x\n", "//x",
)  # fmt: skip
OPTIONS: list[tuple[dict[str, Any], str]] = [
    *(({"key": key}, "key=") for key in (3, b"k", "", "a\nb", "ü")),
    *(({"verify": verify}, "use if_signed, required, off") for verify in ("maybe", 3, None, ["off"])),
    *(({"trust": trust}, "write one such as") for trust in (3, "x", "ftp://x", "")),
    *(({"embed": embed}, "use auto, local, server") for embed in ("x", 3, ["auto"])),
    *(({"models": models}, "mapping of the ids") for models in (3, {"a": 3}, ["a"], "a")),
    *(({"timeout": timeout}, "number of seconds") for timeout in (-1, 0, "3", NAN, None, True)),
    *(({"attempts": attempts}, "at least 1") for attempts in (0, -1, "3", 1.5, None, True)),
    *(({"patience": patience}, "at least 0") for patience in (-1, "x", NAN, None)),
]
Case = tuple[str, str, Callable[[aidre_client.RemoteCollection, aidre_client.Client], object]]
CASES: list[Case] = [
    *((INVALID, "name of a collection", lambda _, c, v=v: c.collection(v)) for v in (3, b"a", "", ["a"])),
    ("collection_missing", "nope", lambda _, c: c.collection("nope").search("alpha")),
    ("collection_missing", "nope", lambda _, c: c.collection("nope").info),
    (INVALID, "a text or vector=", lambda d, _: d.search()),
    (INVALID, "a text or vector=", lambda d, _: d.search("x", vector=[1, 0, 0, 0])),
    *((INVALID, "not blank", lambda d, _, v=v: d.search(v)) for v in (3, b"x", ["a"], "", " ")),
    *((INVALID, "k must be", lambda d, _, v=v: d.search("x", k=v)) for v in (0, -1, "3", 1.5, None, True, 10**9, NAN)),
    *((INVALID, "offset must be", lambda d, _, v=v: d.search("x", offset=v)) for v in (-1, "3", 1.5, None, 10**9)),
    *((INVALID, "size must be", lambda d, _, v=v: list(d.pages("x", size=v))) for v in (0, -1, "3", None)),
    *((INVALID, "a mapping", lambda d, _, v=v: d.search("x", filter=v)) for v in ("x", [1], 3)),
    (FILTER, "use one of eq", lambda d, _: d.search("x", filter={"a": {"like": 1}})),
    (FILTER, "not JSON", lambda d, _: d.search("x", filter={"a": object()})),
    *((INVALID, "use hybrid, dense or lexical", lambda d, _, v=v: d.search("x", mode=v)) for v in ("f", 3, ["dense"])),
    (INVALID, "needs a text", lambda d, _: d.search(vector=[1, 0, 0, 0], mode="lexical")),
    ("space_missing", "does not exist; the collection has", lambda d, _: d.search("x", space="nope")),
    *((INVALID, "id of a space", lambda d, _, v=v: d.search("x", space=v)) for v in (3, ["a"], b"x")),
    (INVALID, "use score or rrf", lambda d, _: d.search("x", fusion="ranks")),  # type: ignore[arg-type]
    (INVALID, "fusion= is for hybrid search", lambda d, _: d.search("x", mode="dense", fusion="rrf")),
    *((INVALID, "recall must be", lambda d, _, v=v: d.search("x", recall=v)) for v in (0, 1.5, NAN, "x", True)),
    *((INVALID, "min_score must be", lambda d, _, v=v: d.search("x", min_score=v)) for v in ("x", NAN, [1])),
    *(
        (INVALID, "list of numbers", lambda d, _, v=v: d.search(vector=v, space=SPACE))
        for v in (b"x", "abc", [None], ["1"], [True], [1j], {"a": 1}, object(), [[1], [1, 2]])
    ),
    *((INVALID, "one axis", lambda d, _, v=v: d.search(vector=v, space=SPACE)) for v in (3, [[1, 0, 0, 0]])),
    *((INVALID, "not finite", lambda d, _, v=v: d.search(vector=v, space=SPACE)) for v in ([NAN] * 64, [9e99] * 64)),
    *(("dimension_mismatch", "64", lambda d, _, v=v: d.search(vector=v, space=SPACE)) for v in ([1, 0], [])),
    *((INVALID, "list of texts", lambda d, _, v=v: d.search_many(v)) for v in (None, 3, "x", b"x", ["a", 3], {"a": 1})),
    (INVALID, "a text or vector=", lambda d, _: d.search_many([None])),
    *((INVALID, "id of a chunk", lambda d, _, v=v: d.chunk(v)) for v in (None, 3, b"a", "", ["a"])),
    (MISSING, "no chunk", lambda d, _: d.chunk("nope")),
    *((INVALID, "list of ids", lambda d, _, v=v: d.chunks(v)) for v in (None, 3, "a", b"a")),
    *((INVALID, "strings", lambda d, _, v=v: d.chunks(v)) for v in ([3], [None])),
    *((INVALID, "since is", lambda d, _, v=v: list(d.changes(v))) for v in (3, "", "AAAA", b"x")),
    *((INVALID, "limit must be", lambda d, _, v=v: list(d.changes(limit=v))) for v in (0, -1, "3", 1.5)),
    *((INVALID, "not blank", lambda _, c, v=v: c.nlweb.ask(v)) for v in (None, 3, "", " ", b"x")),
    (INVALID, "dialect 'nope' is unknown", lambda _, c: ask(c, dialect="nope")),
    (INVALID, "no preference nope", lambda _, c: ask(c, nope=1)),
]  # fmt: skip


@pytest.mark.parametrize("url", URLS)
def test_what_is_no_address_is_told_at_once(url: Any) -> None:
    refused(INVALID, "write one such as 'https://example.com'", lambda: aidre_client.connect(url))
    refused(INVALID, "write one such as 'https://example.com'", lambda: aidre_client.connect_async(url))


def test_a_key_in_the_address_is_not_repeated() -> None:
    refused(INVALID, "give the key by key=", lambda: aidre_client.connect("https://me:secret@example.com/"))


@pytest.mark.parametrize(("options", "words"), OPTIONS)
def test_an_option_that_is_wrong_is_told_at_once(options: dict[str, Any], words: str) -> None:
    refused(INVALID, words, lambda: aidre_client.connect("http://127.0.0.1", **options))
    refused(INVALID, words, lambda: aidre_client.connect_async("http://127.0.0.1", **options))


@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{code}" for number, (code, _, _) in enumerate(CASES)])
def test_a_misuse_of_a_verb_is_one_exception(proxy: FaultyServer, case: Case) -> None:
    code, words, verb = case
    with connected(proxy.url, attempts=1) as client:
        refused(code, words, lambda: verb(client.collection("docs"), client))


def test_a_closed_client_says_so(proxy: FaultyServer) -> None:
    client = connected(proxy.url)
    client.close()
    refused("closed", "connect again", lambda: client.collection("docs").search("x"))


# -- servers that are none -------------------------------------------------------------------------------------------

VERBS: list[Callable[[aidre_client.RemoteCollection], object]] = [
    lambda docs: docs.search("x"),
    lambda docs: docs.info,
    lambda docs: docs.chunk("a"),
    lambda docs: list(docs.changes()),
]
ANSWERS: list[tuple[Fault, str, str]] = [
    (answering(200, b"<html>", "text/html"), MISSING, "no discovery document"),
    (answering(404, b"<html>", "text/html"), MISSING, ""),
    (answering(200, b"{"), FAILED, "not what the protocol says"),
    (answering(200, b"[]"), FAILED, "not what the protocol says"),
    (answering(200, b""), FAILED, "not what the protocol says"),
    (answering(200, b"\xff\xfe"), FAILED, "not what the protocol says"),
    (answering(200, b'{"version":NaN}'), FAILED, "not what the protocol says"),
    (answering(200, b"[" * 100_000), FAILED, "not what the protocol says"),
    (answering(500, b"Traceback (most recent call last):\n  File /x/y"), FAILED, "HTTP status 500"),
    (answering(503, b""), FAILED, "503"),
    (answering(401, b'{"error":"unauthorized","message":"bad\\nkey"}'), "access_denied", "bad key"),
    (answering(403, b""), "access_denied", "403"),
]


@pytest.mark.parametrize(("answer", "code", "words"), ANSWERS, ids=[f"{n}" for n in range(len(ANSWERS))])
def test_a_server_that_answers_something_else_is_told(answer: Fault, code: str, words: str) -> None:
    with foreign(lambda asked: answer) as server:
        for verb in VERBS:
            with connected(server.url, attempts=1) as client:
                refused(code, words, asked_by(verb, client))


@pytest.mark.parametrize("verb", VERBS)
def test_a_host_that_does_not_answer_is_told(verb: Callable[[aidre_client.RemoteCollection], object]) -> None:
    with socket.socket() as bound:  # nobody listens
        bound.bind(("127.0.0.1", 0))
        with connected(f"http://127.0.0.1:{bound.getsockname()[1]}", attempts=1) as client:
            error = refused(FAILED, "does not answer", lambda: verb(client.collection("docs")))
    assert error.details["error"] == "no_answer"


def test_a_server_that_says_nothing_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with connected(url, attempts=1, timeout=0.05) as client:
            refused(FAILED, "Timeout", lambda: client.collection("docs").search("x"))


def test_a_certificate_that_nobody_trusts_is_told(tmp_path: Path) -> None:
    embeddings = pytest.importorskip("tests.support.embeddings", reason="its server needs aidre")
    with embeddings.embedding(tmp_path) as api, connected(f"https://127.0.0.1:{api.port}", attempts=1) as client:
        refused(FAILED, "certificate", lambda: client.collection("docs").search("x"))


def test_a_key_that_is_refused_is_never_shown() -> None:
    with foreign(lambda asked: answering(401, b'{"error":"unauthorized","message":"bad key"}')) as server:
        for verb in VERBS:
            with connected(server.url, key="a-secret-key", attempts=1) as client:
                error = refused("access_denied", "bad key", asked_by(verb, client))
                assert "secret" not in repr((error.details, client, client.collection("docs")))
