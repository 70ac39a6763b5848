"""`aidre.toml` as a whole, `api/config/settings.py`: defaults, what is refused, and how it is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from aidre.api.config.settings import FusionSettings, Settings, load_settings, parse_settings
from aidre.api.config.toml import Duration, Rate
from aidre.engine.errors import ConfigurationError

EVERYTHING = """
[server]
base_url = "https://ai.example.com/v1"
origin = "https://example.com"
organization = "Example"
cors_origins = ["https://app.example.com"]
default_collection = "docs"
trusted_proxies = ["10.0.0.0/8"]
tls = "proxy"

[limits]
top_k_default = 5
top_k_max = 50
body_bytes = 2_000
query_chars = 100
rate = "600/minute"

[[spaces]]
id = "test:plain:4:cosine:v1"
dimensions = 4
distance = "cosine"
normalized = true
provider = "test"
model = "hashing"
revision = "v1"
precision = "float32"

[collections.docs]
description = "Documents"
visibility = "private"
spaces = ["test:plain:4:cosine:v1"]
protocols = ["aidre"]
return_text = false
return_vectors = true
index = { kind = "exact" }
fusion = { a = 0.5, c = 10.0 }

[[keys]]
name = "partner"
sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
collections = ["docs"]
scopes = ["search", "vectors"]
rate = "10/second"

[intent]
enabled = true
state = "paused"
publisher = { id = "example", name = "Example", domain = "example.com" }
max_chunks = 5
max_tokens = 1_000
full_article = false
event_required = true
max_document_fraction = 0.25
[intent.compliance]
revocable = true
notice_required = false
last_updated = 2026-11-01
revocation_reason = "policy"
sunset = 2027-01-01
[intent.editorial_domains."finance.markets"]
collection = "docs"
filter = { topic = "markets" }
[intent.keys]
platform = "env:PLATFORM_SECRET"

[[intakes]]
id = "corpus-search"
name = "Search"
description = "Finds passages"
category = "data/retrieval"
offer_type = "computed_result"
collection = "docs"
filter = { topic = "markets" }
query = "{need} {city}"
top_k = 3
min_score = 0.2
expires_in = "1h"
bind_requires = ["email"]
terms_url = "https://example.com/terms"
privacy = { pii_required = true }
rate_limit = { requests_per_minute = 10 }
requires_auth = true
input_schema = { type = "object" }

[intake]
bind_key = "env:PLATFORM_SECRET"
webhook = "https://example.com/hook"
retention = "7d"

[nlweb]
llm = { base_url = "http://127.0.0.1:9000/v1", model = "small", key = "env:PLATFORM_SECRET" }
min_score = 0.3
sites = ["example.com"]
template = { uri = "ui://widget/list.html", widget_accessible = true }
budget = "5s"
timeout = "30s"
[nlweb.elicitation."example.com"]
required = ["location"]
words = 2
questions = [{ id = "location", text = "Where?", type = "single_select", options = ["here", "there"] }]
[[nlweb.actions]]
name = "buy"
description = "Buy it"
protocol = "HTTP"
types = ["Product"]
method = "POST"
endpoint = "https://example.com/cart"

[provenance]
key = "provenance.pem"
lifetime = "30d"
"""


@pytest.mark.parametrize(("most", "default"), [(1, 1), (5, 5), (10, 10), (50, 10)])
def test_the_default_of_top_k_is_never_beyond_the_most(most: int, default: int) -> None:
    assert parse_settings(f"[limits]\ntop_k_max = {most}").limits.top_k_default == default
    with pytest.raises(ConfigurationError, match="top_k_default"):
        parse_settings(f"[limits]\ntop_k_max = {most}\ntop_k_default = {most + 1}")


def test_without_a_file_everything_has_its_default() -> None:
    settings = load_settings(None)
    assert settings == Settings()
    assert (settings.limits.top_k_default, settings.limits.top_k_max) == (10, 100)
    assert (settings.limits.body_bytes, settings.limits.query_chars) == (1_048_576, 8_192)
    assert settings.limits.client_memory == 134_217_728
    assert settings.collection("docs").visibility == "public"
    assert settings.collection("docs").protocols == ("aidre", "nlweb", "intent", "intake")
    assert settings.collection("docs").return_text
    assert not settings.collection("docs").return_vectors


def test_a_mapping_of_columns_is_checked_where_it_is_read() -> None:
    settings = parse_settings('[collections.docs.mapping]\ntext = ["head", "body"]\nvectors = { "s" = "embedding" }')
    assert settings.collection("docs").mapping == {"text": ["head", "body"], "vectors": {"s": "embedding"}}
    with pytest.raises(ConfigurationError, match=r"collections\.docs\.mapping\.headline"):
        parse_settings('[collections.docs.mapping]\nheadline = "x"')


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ("a = 1.5", "fusion.a must"),
        ("a = -0.1", "fusion.a must"),
        ("a = nan", "fusion.a must"),
        ("c = 0", "fusion.c must"),
        ("c = inf", "fusion.c must"),
        ("depth = 0", "fusion.depth must"),
        ("d = 1", "fusion"),
    ],
)
def test_the_weights_of_a_fusion_are_checked(value: str, where: str) -> None:
    with pytest.raises(ConfigurationError, match=where):
        parse_settings(f"[collections.docs]\nfusion = {{ {value} }}")


def test_every_key_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLATFORM_SECRET", "a secret that is long")
    path = tmp_path / "aidre.toml"
    path.write_text(EVERYTHING, encoding="utf-8")
    settings = load_settings(path)
    assert settings.limits.rate == Rate(600, 60)
    assert settings.spaces[0].dimensions == 4
    assert settings.collection("docs").fusion == FusionSettings(a=0.5, c=10.0)
    assert settings.keys[0].rate == Rate(10, 1)
    assert settings.intent.keys == {"platform": "a secret that is long"}
    assert settings.intent.editorial_domains["finance.markets"].collection == "docs"
    assert settings.intakes[0].expires_in == Duration(3_600)
    assert settings.intake.retention == Duration(7 * 86_400)
    assert settings.nlweb.llm is not None
    assert settings.provenance.lifetime == Duration(30 * 86_400)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("limits = 3", "limits"),
        ("[limits]\ntop_k_max = '5'", "limits.top_k_max"),
        ("[limits]\ntop_k_max = true", "limits.top_k_max"),
        ("[limits]\ntop_k_max = 0", "limits.top_k_max"),
        ("[limits]\ntop_k_default = 200", "limits.top_k_default"),
        ("[limits]\nrate = '5/fortnight'", "limits.rate"),
        ("[limits]\nrate = 5", "limits.rate"),
        ("[intake]\nretention = '7'", "intake.retention"),
        ("[intake]\nretention = 7", "intake.retention"),
        ("[intake]\nbind_key = ''", "intake.bind_key"),
        ("[intake]\nbind_key = 'env:NOT_THERE_AT_ALL'", "intake.bind_key"),
        ("[server]\ntls = 'some'", "server.tls"),
        ("[server]\ncors_origins = '*'", "server.cors_origins"),
        ("[server]\ncors_origins = [1]", "server.cors_origins[0]"),
        ("[server]\ncors_origins = ['app.example.com']", "server.cors_origins"),
        ("[server]\ncors_origins = ['https://app.example.com/']", "server.cors_origins"),
        ("[server]\ntrusted_proxies = ['10.0.0.0/33']", "server.trusted_proxies"),
        ("[server]\ntrusted_proxies = ['10.0.0']", "server.trusted_proxies"),
        ("[server]\noriginal_uri_header = 'X-Original URI'", "server.original_uri_header"),
        ("[server]\noriginal_uri_header = ''", "server.original_uri_header"),
        ("[provenance]\nalg = 'ES256'", "provenance.alg"),
        ("[server]\ntrusted_proxies = ['']", "server.trusted_proxies"),
        ("[server]\ndefault_collection = '.log'", "server.default_collection"),
        ("[collections.Docs]", "collections"),
        ("[collections.docs]\nvisibility = 'secret'", "collections.docs.visibility"),
        ("[collections.docs]\nprotocols = ['http']", "collections.docs.protocols[0]"),
        ("[collections.docs]\nrecall = 1.5", "collections.docs.recall"),
        ("[collections.docs]\nrecall = 0", "collections.docs.recall"),
        ("[collections.docs]\nrecall = nan", "collections.docs.recall"),
        ("[collections.docs]\nrecall = 'high'", "collections.docs.recall"),
        ("[[spaces]]\nid = 'a'\ndistance = 'cosine'", "spaces[0].dimensions"),
        ("[[spaces]]\nid = 'a'\ndimensions = 0\ndistance = 'cosine'", "spaces[0].dimensions"),
        ("[[spaces]]\nid = ''\ndimensions = 2\ndistance = 'cosine'", "spaces[0].id"),
        ("[[spaces]]\nid = 'a'\ndimensions = 2\ndistance = 'hamming'", "spaces[0].distance"),
        (
            "[[spaces]]\nid='a'\ndimensions=2\ndistance='dot'\n" * 2,
            "spaces",
        ),
        ("[[keys]]\nname = 'a'\nsha256 = 'secret'", "keys[0].sha256"),
        ("[[intakes]]\nid = 'bind'", "intakes[0].id"),
        ("[intent]\nmax_document_fraction = 'half'", "intent.max_document_fraction"),
        ("[intent]\nmax_chunks = 9223372036854775808", "intent.max_chunks must be a number of 64 bits"),
        ("[nlweb]\nmin_score = 1" + "0" * 400, "nlweb.min_score must be a number of 64 bits"),
        ("[limits]\ntop_k_max = " + "1" * 5_000, "not TOML"),
        ("a = " + "[" * 5_000 + "]" * 5_000, "not TOML"),
        ("[limits", "not TOML"),
    ],
)
def test_a_wrong_value_is_named_by_its_key(text: str, where: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_settings(text)
    assert where in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://ai.example.com", "http://10.0.0.1:8000", "ftp://x", "ai.example.com", "https://", "https://x/?a=1"]
)
def test_a_base_url_beyond_loopback_must_be_https(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"server\.base_url"):
        parse_settings(f'[server]\nbase_url = "{url}"')


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("HTTPS://ai.example.com", "https://ai.example.com"),
        ("https://AI.example.com/V1", "https://ai.example.com/V1"),
        ("https://ai.example.com:443/v1", "https://ai.example.com/v1"),
        ("https://ai.example.com/v1?", "https://ai.example.com/v1"),
        ("http://[::1]:80", "http://[::1]"),
    ],
)
@pytest.mark.parametrize("name", ["base_url", "origin"])
def test_what_signatures_are_over_is_written_as_clients_write_it(name: str, url: str, plain: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"server\.{name} .*'{re.escape(plain)}'"):
        parse_settings(f'[server]\n{name} = "{url}"')
    assert getattr(parse_settings(f'[server]\n{name} = "{plain}"').server, name) == plain


@pytest.mark.parametrize(
    "url", ["https://ai.example.com", "http://127.0.0.1:8000", "http://localhost:8080", "http://[::1]:8000"]
)
def test_https_anywhere_and_http_on_loopback_are_base_urls(url: str) -> None:
    assert parse_settings(f'[server]\nbase_url = "{url}"').server.base_url == url


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "aidre.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_settings(path)


def test_a_byte_order_mark_is_no_part_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "aidre.toml"
    path.write_text('[server]\ntrusted_proxies = ["10.0.0.1", "fd00::/8", "proxy.internal"]\n', encoding="utf-8-sig")
    assert len(load_settings(path).server.trusted_proxies) == 3


def test_the_runtime_of_models_is_a_setting() -> None:
    assert parse_settings("").embedding.runtime == "auto"
    native = parse_settings('[embedding]\nruntime = "sentence-transformers"\n')
    assert native.embedding.runtime == "sentence-transformers"
    with pytest.raises(ConfigurationError, match=r"embedding\.runtime"):
        parse_settings('[embedding]\nruntime = "torch"\n')


def test_the_recall_of_a_collection_is_its_default() -> None:
    settings = parse_settings("[collections.docs]\nrecall = 0.9\n[collections.exact]\nrecall = 1")
    recalls = [settings.collection(name).policy.recall for name in ("docs", "exact", "other")]
    assert recalls == [0.9, 1, 0.99]


def test_a_collection_declares_its_dates() -> None:
    assert parse_settings('[collections.docs]\ndates = ["released"]\n').collection("docs").dates == ("released",)


def test_the_state_folder_stays_when_the_working_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    state = parse_settings('[server]\nstate = "state"').state_folder(Path("store"))
    monkeypatch.chdir("/")
    assert state == tmp_path / "state"
