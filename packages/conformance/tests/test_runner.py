"""The kit against the sound server and against one with a fault each, `aidre_conformance/runner.py`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from aidre.engine.errors import InvalidInput, RequestFailed
from aidre_conformance import Fixtures, Report, checks_of, read_expected, run
from conftest import GIVEN, Answering
from tests.wrong_servers.faults import FAULTS
from tests.wrong_servers.faulty_server import faulty_server

NAMED = {
    "aidre_discovery_without_version": "aidre.23.1.version",
    "aidre_discovery_as_aidre_json": "aidre.3.2.media-type",
    "aidre_space_without_distance": "aidre.19.1.space-members",
    "aidre_collection_without_updated_at": "aidre.4.collection-members",
    "aidre_query_beside_vector": "aidre.5.1.exactly-one",
    "aidre_single_result_unwrapped": "aidre.16.1.results-are-an-array",
    "aidre_top_k_off_by_one": "aidre.18.1.top-k",
    "aidre_negative_top_k": "aidre.18.1.non-positive-top-k",
    "aidre_long_vector_truncated": "aidre.19.2.dimension",
    "aidre_cosine_as_dot_product": "aidre.19.3.distance",
    "aidre_worst_first": "aidre.24.2.best-first",
    "aidre_error_as_text": "aidre.17.1.errors-are-objects",
    "aidre_error_without_request_id": "aidre.17.1.error-members",
    "aidre_error_code_is_prose": "aidre.17.3.error-codes",
    "aidre_request_id_repeated": "aidre.16.3.request-ids",
    "aidre_charset_refused": "aidre.14.1.content-type",
    "aidre_latin_1": "aidre.14.2.utf8",
    "aidre_vectors_unasked": "aidre.7.3.no-vectors",
    "aidre_unknown_member_refused": "aidre.20.3.unknown-members",
    "aidre_next_chunk_under_this_id": "aidre.8.chunk-of-the-result",
    "aidre_slash_in_id_splits_the_path": "aidre.15.1.chunk",
    "aidre_hash_of_the_hash": "aidre.9.content-hash",
    "aidre_private_chunk_open": "aidre.11.6.private-collection",
    "aidre_pages_overlap": "aidre.18.2.pages",
    "nlweb_response_type_capitalized": "nlweb.4.envelope",
    "nlweb_failure_without_version": "nlweb.4.envelope",
    "nlweb_filter_refused": "nlweb.3.1.filters-are-an-open-set",
    "nlweb_site_ignored": "nlweb.3.1.site",
    "nlweb_unknown_format_answered": "nlweb.4.1.4.unknown-format",
    "nlweb_content_is_a_string": "nlweb.4.1.1.chatgpt-app",
    "nlweb_summary_without_type": "nlweb.4.1.1.summary",
    "nlweb_unknown_mode_is_an_invalid_query": "nlweb.4.1.4.unknown-mode",
    "nlweb_promise_with_200": "nlweb.7.4.promise",
    "nlweb_cancel_only_checks": "nlweb.4.2.cancel",
    "nlweb_stream_without_complete": "nlweb.6.1.complete",
    "nlweb_stream_counts_from_one": "nlweb.6.1.index",
    "nlweb_stream_error_is_bare": "nlweb.6.1.stream-error",
    "nlweb_missing_text_answered": "nlweb.3.1.text-is-required",
    "nlweb_no_results_with_404": "nlweb.7.4.no-results",
    "nlweb_mcp_without_await": "mcp.a.2.await-tool",
    "nlweb_mcp_query_is_a_string": "mcp.a.1.ask-tool",
    "nlweb_mcp_without_meta": "mcp.4.meta-of-the-tool",
    "intent_request_id_not_echoed": "intent.schema-summary.request-id",
    "intent_content_beside_denial": "intent.status-handling.content-or-denial",
    "intent_more_chunks_than_declared": "intent.content-rules.limits",
    "intent_citation_of_another_chunk": "intent.citation-rules.citations",
    "intent_citation_of_a_path": "intent.citation-rules.canonical",
    "intent_denial_reason_of_its_own": "intent.denial-reasons.denial-reason",
    "intent_any_domain_served": "intent.denial-reasons.out-of-scope",
    "intent_pricing_in_extensions": "intent.purpose.no-pricing",
    "intent_event_about_nothing": "intent.event-schema-summary.event-about-nothing",
    "intent_citation_event_without_citation": "intent.event-schema-summary.event-without-citation",
    "intent_signature_over_the_request": "intent.signing.response-signature",
    "intent_signature_not_checked": "intent.signing.wrong-signature",
    "intake_manifest_as_text": "intake.stage-1.manifest",
    "intake_without_binding_available": "intake.stage-1.manifest",
    "intake_session_not_echoed": "intake.offer-response-schema.session-id",
    "intake_data_not_validated": "intake.error-codes.schema-mismatch",
    "intake_enum_not_validated": "intake.error-codes.schema-mismatch",
    "intake_mismatch_is_invalid_input": "intake.error-codes.schema-mismatch",
    "intake_incomplete_bind": "intake.error-codes.bind-incomplete",
    "intake_expired_offer_bound": "intake.error-codes.expired",
    "intake_bind_of_another_session": "intake.bind-request-schema.session-of-the-intake",
    "intake_bind_without_consent": "intake.bind-request-schema.bind-consent",
    "intake_decline_without_reason": "intake.stage-3.declined",
    "intake_bare_error": "intake.error-codes.schema-mismatch",
}
"""Faults, and the check whose sentence is the one that the fault breaks."""
PROTOCOLS = {"nlweb": ("nlweb", "mcp")}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The servers log what the kit does to them."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def failed(report: Report) -> dict[str, str | None]:
    return {verdict.check.id: verdict.reason for verdict in report.verdicts if verdict.outcome == "fail"}


def untestable(report: Report) -> set[str]:
    return {verdict.check.id for verdict in report.verdicts if verdict.outcome == "not testable"}


@pytest.mark.slow
def test_the_sound_server_fails_nothing_and_nearly_everything_can_be_tested(sound: str) -> None:
    report = run(sound, fixtures=GIVEN)
    assert failed(report) == {}
    assert report.ok
    assert untestable(report) == {
        "aidre.19.3.distance-of-returned-vectors",
        "aidre.21.2.rate-limit-fields",
        "nlweb.3.1.item-type",
        "nlweb.5.actions",
        "nlweb.4.1.3.elicitation",
        "intake.response-status-codes.rate-limit",
        "http.3.1.path-prefix",
    }


def test_a_stranger_without_fixtures_gets_no_false_alarm(sound: str) -> None:
    report = run(sound)
    assert failed(report) == {}
    assert report.count("pass") > 100


def test_what_known_clients_show_of_the_sound_server(sound: str) -> None:
    report = run(sound, profile="compat", fixtures=GIVEN)
    assert failed(report) == {}
    assert untestable(report) == set()


def test_every_fault_has_a_check_that_names_it() -> None:
    assert NAMED.keys() == FAULTS.keys()
    assert len(NAMED) >= 60
    assert set(NAMED.values()) <= {check.id for check in checks_of("letter")}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMED)
def test_the_kit_finds_the_fault_and_names_its_sentence(store: Path, name: str) -> None:
    protocol = FAULTS[name].protocol
    with faulty_server(store, name) as url:
        report = run(url, fixtures=GIVEN, protocols=PROTOCOLS.get(protocol, (protocol,)))
    assert NAMED[name] in failed(report)
    assert not report.ok


# -- how a run is judged ---------------------------------------------------------------------------------------------

Serve = Callable[[Answering], AbstractContextManager[str]]


def test_an_expected_failure_is_none_and_one_that_does_not_come_is(store: Path) -> None:
    wrong, right = "aidre.23.1.version", "aidre.3.2.media-type"
    with faulty_server(store, "aidre_discovery_without_version") as url:
        report = run(url, fixtures=GIVEN, protocols=("aidre",), expected=[wrong])
        assert (report.ok, report.unmet) == (True, ())
        assert [verdict.check.id for verdict in report.verdicts if verdict.expected] == [wrong]
        report = run(url, fixtures=GIVEN, protocols=("aidre",), expected=[wrong, right])
        assert (report.ok, report.unmet) == (False, (right,))


def test_a_server_that_speaks_one_protocol_is_not_blamed_for_the_others(serve: Serve) -> None:
    with serve(lambda scope, body: (404, {"content-type": "text/html"}, b"<h1>nothing here</h1>")) as url:
        report = run(url)
        assert failed(report) == {}
        assert not report.ok
        asked_for = run(url, protocols=("intake",))
        assert asked_for.untested == ("intake",)
        assert not asked_for.ok


@pytest.mark.parametrize(
    "body",
    [b"[]", b"null", b'"x"', b"{", b"\xff", b'{"_meta": 7, "results": 7, "endpoints": 7, "embedding_spaces": [7]}'],
    ids=["list", "null", "string", "half", "bytes", "wrong types"],
)
@pytest.mark.parametrize("profile", ["letter", "compat"])
def test_no_answer_ends_a_run(serve: Serve, body: bytes, profile: str) -> None:
    with serve(lambda scope, _: (200, {"content-type": "application/json"}, body)) as url:
        report = run(url, profile=profile, fixtures=GIVEN)  # type: ignore[arg-type]
    assert len(report.verdicts) == len(checks_of(profile))  # type: ignore[arg-type]
    assert not report.ok


def test_an_endpoint_that_is_no_url_is_not_sent_to(serve: Serve) -> None:
    document = b'{"version": "1", "endpoints": {"search": "file:///etc/passwd", "collections": 7, "chunk": "{id}"}}'
    with serve(lambda scope, _: (200, {"content-type": "application/json"}, document)) as url:
        report = run(url, protocols=("aidre",))
    sent = {exchange.url for verdict in report.verdicts for exchange in verdict.exchanges}
    assert sent == {f"{url}/.well-known/ai-discovery"}


def test_a_server_that_does_not_answer_is_one_error() -> None:
    with pytest.raises(RequestFailed, match="does not answer"):
        run("http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("url", "protocols", "expected", "said"),
    [
        ("ftp://x", (), (), "not an http or https URL"),
        ("example.com", (), (), "not an http or https URL"),
        ("http://127.0.0.1:1", ("aidree",), (), "use one of aidre"),
        ("http://127.0.0.1:1", (), ("aidre.23.1.versio",), "aidre.23.1.version is the nearest"),
    ],
)
def test_a_wrong_name_is_refused_before_anything_is_sent(
    url: str, protocols: Collection[str], expected: Collection[str], said: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(said)):
        run(url, protocols=protocols, expected=expected)
    with pytest.raises(InvalidInput, match="use one of letter, aidre"):
        run("http://127.0.0.1:1", profile="spirit")  # type: ignore[arg-type]


def test_a_list_of_expected_failures_has_reasons(tmp_path: Path) -> None:
    file = tmp_path / "expected"
    file.write_text("# known\naidre.23.1.version  # until May\n\nnlweb.4.envelope\n")
    assert read_expected(file) == ["aidre.23.1.version", "nlweb.4.envelope"]
    file.write_bytes(b"\xff")
    with pytest.raises(InvalidInput, match="UTF-8"):
        read_expected(file)


def test_the_private_key_of_the_caller_is_in_no_report(sound: str) -> None:
    report = run(sound, fixtures=GIVEN, protocols=("aidre",))
    recorded = repr([verdict.exchanges for verdict in report.verdicts])
    assert "(secret)" in recorded
    assert str(GIVEN.key) not in recorded


def test_fixtures_of_another_server_make_no_run_fail_by_exception(sound: str) -> None:
    wrong = Fixtures(query="alpha", collection="nothing", site="x", promise={}, intake="none", intent_key_id="x")
    report = run(sound, fixtures=wrong)
    assert len(report.verdicts) == len(checks_of("letter"))
