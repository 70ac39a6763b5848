"""The endpoints of embedding spaces in the configuration, `Space` in `api/config/settings.py`."""

from __future__ import annotations

import pytest

from aidre.api.config.settings import parse_settings
from aidre.api.writing.document_writes import Start, read_start, write_start
from aidre.engine.embedding import Endpoint
from aidre.engine.errors import ConfigurationError
from aidre.engine.model import EmbeddingSpace

KEY = "sk-of-the-test-0123456789"
SPACE = '[[spaces]]\nid = "mine"\ndimensions = 1536\ndistance = "cosine"\n'
HOSTED = f'{SPACE}provider = "openai"\nmodel = "text-embedding-3-small"\n'
PLACED = f'{HOSTED}endpoint = "https://api.example.com/v1"\n'


def refusal(text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(text)
    said = str(caught.value)
    assert "\n" not in said
    return said


def test_an_endpoint_is_kept_apart_from_its_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIDRE_TEST_KEY", KEY)
    settings = parse_settings(f'{PLACED}key = "env:AIDRE_TEST_KEY"\nrequest_dimensions = true\ntimeout = "5s"\n')
    assert settings.spaces == (
        EmbeddingSpace("mine", 1536, "cosine", provider="openai", model="text-embedding-3-small"),
    )
    assert settings.endpoints == {"mine": Endpoint("https://api.example.com/v1", KEY, True, 5.0)}
    assert KEY not in repr(settings) + repr(settings.endpoints)


def test_a_space_has_no_endpoint_where_its_vectors_come_with_the_rows() -> None:
    assert parse_settings(f'{SPACE}provider = "openai"\n').endpoints == {}


def test_the_writer_process_is_told_of_endpoints() -> None:
    settings = parse_settings(f'{PLACED}key = "{KEY}"\n')
    start = Start("store", 1, settings.declared_spaces, settings.collections, settings.embedding)
    read = read_start(write_start(start))
    assert read.settings.endpoints == settings.endpoints
    assert KEY not in repr(read)


@pytest.mark.parametrize("url", ["http://127.0.0.1:11434/v1", "http://localhost:8080/v1/", "https://a.example"])
def test_plain_http_is_for_loopback(url: str) -> None:
    assert parse_settings(f'{HOSTED}endpoint = "{url}"\n').endpoints["mine"].url == url


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HOSTED, "spaces[0].endpoint is missing"),
        (f'{HOSTED}endpoint = "http://api.example.com/v1"\n', "spaces[0].endpoint must begin with https://"),
        (f'{HOSTED}endpoint = "https://user:hidden@api.example.com"\n', "spaces[0].endpoint must be a URL"),
        (f'{HOSTED}endpoint = "api.example.com"\n', "spaces[0].endpoint must be a URL"),
        (f'{HOSTED}endpoint = "https://a.example/v1/embeddings"\n', "spaces[0].endpoint must be the base URL"),
        (f'{SPACE}model = "m"\nendpoint = "https://a.example"\n', "spaces[0].provider must be 'openai'"),
        (f'{SPACE}provider = "openai"\nendpoint = "https://a.example"\n', "spaces[0].model is missing"),
        (f'{SPACE}key = "hidden"\n', "spaces[0].key is for an endpoint"),
        (f"{SPACE}request_dimensions = true\n", "spaces[0].request_dimensions is for an endpoint"),
        (f'{PLACED}key = "hidden key"\n', "spaces[0].key must be printable ASCII"),
        (f'{PLACED}key = "env:AIDRE_NOT_SET"\n', "'AIDRE_NOT_SET', which is not set"),
        (f"{PLACED}key = 5\n", 'spaces[0].key must be a string or "env:NAME"'),
        (f'{PLACED}timeout = "0s"\n', "spaces[0].timeout must be a duration of at least 1s"),
        (f'{PLACED}endpont = "https://a.example"\n', "did you mean 'endpoint'?"),
        (f'{PLACED}dimension = "5"\n', "did you mean 'dimensions'?"),
    ],
)
def test_a_fault_names_its_key_and_the_cure(text: str, said: str) -> None:
    refused = refusal(text)
    assert said in refused
    assert "hidden" not in refused
