"""The configuration file `aidre.toml` as frozen dataclasses: every key has a default and is checked when it is read.

It opens no store: the configuration is compared with the manifests elsewhere.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from aidre.api.config.intake import Intake, OfferedIntake, check_intakes
from aidre.api.config.intent import Intent, check_intent, with_date
from aidre.api.config.nlweb import Nlweb, check_nlweb
from aidre.api.config.oauth import OAuth, check_oauth
from aidre.api.config.origins import check_hosts, check_origins, check_proxies
from aidre.api.config.toml import Duration, Rate, Secret, read_value
from aidre.engine.embedding import DEFAULT_SPACE
from aidre.engine.errors import ConfigurationError
from aidre.engine.model import EmbeddingSpace, Visibility
from aidre.engine.storage import MAX_KEPT_GENERATIONS, MIN_KEPT_GENERATIONS
from aidre.ingest.records import parse_column_mapping

Protocol: TypeAlias = Literal["aidre", "nlweb", "intent", "intake"]
Scope: TypeAlias = Literal["search", "vectors"]
Table: TypeAlias = Mapping[str, Any]

NO_DELAY = Duration(0.0)
TWO_SECONDS = Duration(2.0)
HALF_A_MINUTE = Duration(30.0)
MINUTE = Duration(60.0)
DAY = Duration(86_400.0)
MONTH = Duration(2_592_000.0)
COLLECTION_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class Server:
    """`base_url` is the prefix of published URLs; the command line sets it on loopback. `tls` says what terminates TLS,
    which is required beyond loopback. `cors_origins` are the web origins whose scripts may ask; None means any where a
    `base_url` beyond loopback is declared, else those of loopback. `hosts` are names that a request may be for, beside
    those of `base_url`, `origin` and loopback. `trusted_proxies` are believed in what X-Forwarded-For says of the
    client, and `original_uri_header` of the target that it sent. `metrics` says who may read /metrics. `scrub` is the
    period in which all files are read once to find damage (0s: never)."""

    base_url: str | None = None
    origin: str | None = None
    organization: str | None = None
    cors_origins: tuple[str, ...] | None = None
    hosts: tuple[str, ...] = ()
    default_collection: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    original_uri_header: str = "X-Original-URI"
    tls: Literal["proxy", "none"] | None = None
    log: Literal["none", "requests"] = "none"
    metrics: Literal["open", "callers"] = "open"
    scrub: Duration = DAY


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits are inclusive. Without `rate` there is no limit on loopback and 600/minute beyond.

    `chunks_per_day` is the number of distinct chunks per caller (0: unlimited). `redis` shares the rates between
    machines. `wait` is the longest time that a search may be queued: if the expected time, by the latency of similar
    searches, is longer, it is rejected with 503. `concurrency` is the number of requests in progress per process, and
    `deadline` the time until an answer begins; beyond either, a request is rejected with 503."""

    top_k_default: int = 10
    top_k_max: int = 100
    body_bytes: int = 1_048_576
    query_chars: int = 8_192
    rate: Rate | None = None
    chunks_per_day: int = 0
    redis: Secret | None = field(default=None, repr=False)
    wait: Duration = TWO_SECONDS
    concurrency: int = 256
    deadline: Duration = HALF_A_MINUTE


@dataclass(frozen=True, slots=True)
class FusionSettings:
    """The hybrid score a * cosine + (1 - a) * bm25 / (bm25 + c). `rescore` names a second space, whose cosine replaces
    that of the first one for the best `depth` hits."""

    a: float = 0.5
    c: float = 15.0
    rescore: str | None = None
    depth: int = 50


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """`generations` is the number of generations that are kept, from the next ingest on, beside those of the last ten
    minutes. `vector_queries` says who may ask by vector: everybody ("open"), or callers with the scope `vectors`; None
    means the latter where texts are withheld, because exact scores of chosen vectors reveal the stored ones. Without
    `lexical` the collection is not searched by words, whose hits confirm guesses about withheld texts."""

    description: str | None = None
    visibility: Visibility = "public"
    generations: int | None = None
    spaces: tuple[str, ...] | None = None
    protocols: tuple[Protocol, ...] = ("aidre", "nlweb", "intent", "intake")
    return_text: bool = True
    return_vectors: bool = False
    vector_queries: Literal["open", "scope"] | None = None
    lexical: bool = True
    dates: tuple[str, ...] = ()
    mapping: Table = field(default_factory=dict)
    index: Table = field(default_factory=dict)
    fusion: FusionSettings = FusionSettings()

    @property
    def restricts_vector_queries(self) -> bool:
        """Whether a query by vector needs the scope `vectors`."""
        return (self.vector_queries or ("open" if self.return_text else "scope")) == "scope"


@dataclass(frozen=True, slots=True)
class Key:
    """A caller's key. It grants `collections` beside the public ones; `sha256` is the digest of its secret, in hex."""

    name: str
    sha256: str
    collections: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = ("search",)
    rate: Rate | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """`key` is a file written by `aidre keys new --provenance`, searched beside the configuration first; `lifetime` is
    that of chunk signatures; `alg` is the name of their algorithm: that of RFC 9864, or the one that it replaces."""

    key: str | None = None
    lifetime: Duration = MONTH
    alg: Literal["Ed25519", "EdDSA"] = "Ed25519"


MAX_DIMENSIONS = 65_536
MIN_LIFETIME = Duration(2.0)
MAX_RESCORED = 1_000


@dataclass(frozen=True, slots=True)
class Embedding:
    """The runtime of models: "auto" is ONNX Runtime for models that can be exported, else sentence-transformers."""

    runtime: Literal["auto", "onnxruntime", "sentence-transformers"] = "auto"


@dataclass(frozen=True, slots=True)
class Sources:
    """How addresses are fetched. `timeout` covers one address with its redirects; `delay` is the time between two
    requests; `page_bytes` (one page or feed) and `total_bytes` (one source) count inflated bytes; `pages` limits the
    pages of its sitemaps."""

    allow_private_addresses: bool = False
    timeout: Duration = MINUTE
    delay: Duration = NO_DELAY
    page_bytes: int = 16_777_216
    total_bytes: int = 4_294_967_296
    pages: int = 50_000
    robots: bool = True
    user_agent: str = "aidre"


@dataclass(frozen=True, slots=True)
class Settings:
    """The content of `aidre.toml`. `spaces` are the declared ones; the default text space needs no declaration."""

    server: Server = Server()
    limits: Limits = Limits()
    embedding: Embedding = Embedding()
    sources: Sources = Sources()
    spaces: tuple[EmbeddingSpace, ...] = ()
    collections: Mapping[str, CollectionSettings] = field(default_factory=dict)
    keys: tuple[Key, ...] = ()
    oauth: OAuth | None = None
    intent: Intent = field(default_factory=Intent)
    intakes: tuple[OfferedIntake, ...] = ()
    intake: Intake = field(default_factory=Intake)
    nlweb: Nlweb = field(default_factory=Nlweb)
    provenance: Provenance = Provenance()

    @property
    def knows_callers(self) -> bool:
        """Whether callers can authenticate."""
        return bool(self.keys) or self.oauth is not None

    def collection(self, name: str) -> CollectionSettings:
        """The settings of a collection, or the defaults."""
        return self.collections.get(name, COLLECTION_DEFAULTS)


COLLECTION_DEFAULTS = CollectionSettings()


def load_settings(path: Path | None) -> Settings:
    """The settings in the file, or the defaults without one; raises ConfigurationError."""
    if path is None:
        return Settings()
    try:
        text = path.read_text(encoding="utf-8-sig")  # utf-8-sig: some editors write a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the configuration {path} cannot be read: {_reason(error)}") from error
    settings = parse_settings(text)
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).date()
    settings = replace(settings, intent=with_date(settings.intent, changed))
    if settings.provenance.key is not None:
        key = _beside(path, settings.provenance.key)
        settings = replace(settings, provenance=replace(settings.provenance, key=key))
    if settings.oauth is not None and settings.oauth.jwks is not None:
        settings = replace(settings, oauth=replace(settings.oauth, jwks=_beside(path, settings.oauth.jwks)))
    if settings.intake.key_file is not None:
        return settings
    beside = path.absolute().with_name(f"{path.stem}.bind-key")
    return replace(settings, intake=replace(settings.intake, key_file=str(beside)))


def parse_settings(text: str) -> Settings:
    """The settings in a text of TOML; raises ConfigurationError."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError also for integers longer than Python parses
        raise ConfigurationError(f"the configuration is not TOML: {error}") from error
    settings: Settings = read_value(Settings, tables, "")
    if "top_k_default" not in tables.get("limits", {}):  # a small maximum alone lowers the default
        limits = settings.limits
        default = min(limits.top_k_default, max(1, limits.top_k_max))
        settings = replace(settings, limits=replace(limits, top_k_default=default))
    _check_server(settings.server)
    _check_limits(settings.limits)
    _check_sources(settings.sources)
    _check_spaces(settings.spaces)
    _check_names(settings)
    for name, collection in settings.collections.items():
        _check_kept(collection.generations, f"collections.{name}.generations")
        _check_fusion(collection.fusion, f"collections.{name}.fusion")
        parse_column_mapping(collection.mapping, f"collections.{name}.mapping")
        _check_listed(settings.spaces, collection.spaces or (), f"collections.{name}.spaces")
    _check_keys(settings.keys)
    if settings.server.metrics == "callers" and not settings.knows_callers:
        raise ConfigurationError('server.metrics = "callers" needs a key or [oauth]: make one with `aidre keys new`')
    if settings.oauth is not None:
        check_oauth(settings.oauth)
        _check_url(settings.oauth.jwks_uri, "oauth.jwks_uri")
    if not MIN_LIFETIME <= settings.provenance.lifetime <= MONTH:
        raise ConfigurationError(
            f"provenance.lifetime must be from 2s to 30d, because former keys stay published that long, "
            f"not {settings.provenance.lifetime:g}s"
        )
    check_intakes(settings.intakes, settings.intake)
    check_intent(settings.intent)
    _check_unique((intake.id for intake in settings.intakes), "intakes", "id")
    _check_url(settings.intake.webhook, "intake.webhook", secret=True)
    check_nlweb(settings.nlweb)
    if settings.nlweb.budget >= settings.limits.deadline:
        raise ConfigurationError(
            f"nlweb.budget must be shorter than limits.deadline ({settings.limits.deadline:g}s): work must become a "
            "promise before the deadline"
        )
    return settings


def _beside(configuration: Path, name: str) -> str:
    """The path of a file, searched beside the configuration first."""
    beside = configuration.absolute().parent / name
    return str(beside) if beside.is_file() else name


def is_loopback(host: str) -> bool:
    """Whether a host names this machine alone."""
    bare = host.strip("[]").lower()
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or "unreadable" if isinstance(error, OSError) else "it is not UTF-8"


def _check_server(server: Server) -> None:
    for name in ("base_url", "origin"):
        url: str | None = getattr(server, name)
        _check_url(url, f"server.{name}")
        if url is not None and url != (normalized := _normalize(url)):
            raise ConfigurationError(
                f"server.{name} must be written in the form that clients send, {normalized!r}, not {url!r}"
            )
    check_origins(server.cors_origins or (), "server.cors_origins")
    check_hosts(server.hosts, "server.hosts")
    check_proxies(server.trusted_proxies, "server.trusted_proxies")
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", server.original_uri_header):
        raise ConfigurationError(
            f'server.original_uri_header must be the name of a header such as "X-Original-URI", '
            f"not {server.original_uri_header!r}"
        )
    if server.default_collection is not None:
        _check_name(server.default_collection, "server.default_collection")


def _check_url(url: str | None, where: str, *, secret: bool = False) -> None:
    """A `secret` URL is a capability: it may have a query, and messages do not repeat it."""
    if url is None:
        return
    shown = "" if secret else f", not {url!r}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigurationError(f"{where} must be a URL{shown}") from error
    has_extras = parts.fragment or parts.username or (parts.query and not secret)
    if parts.scheme not in {"http", "https"} or not host or has_extras or not re.fullmatch("[!-~]+", url):
        raise ConfigurationError(f"{where} must be a URL such as https://ai.example.com{shown}")
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigurationError(f"{where} must begin with https://: http:// is for loopback alone, not {host}")


def _normalize(url: str) -> str:
    """The form in which clients send the URL; a signature over another form would not verify."""
    parts = urlsplit(url)
    host = parts.netloc.lower().removesuffix(":443" if parts.scheme == "https" else ":80")
    return f"{parts.scheme}://{host}{parts.path}"


def _check_limits(limits: Limits) -> None:
    for name in ("top_k_default", "top_k_max", "body_bytes", "query_chars", "concurrency", "deadline"):
        if getattr(limits, name) < 1:
            raise ConfigurationError(f"limits.{name} must be at least 1, not {getattr(limits, name):g}")
    if limits.chunks_per_day < 0:
        raise ConfigurationError("limits.chunks_per_day must not be negative: 0 means unlimited")
    if limits.top_k_default > limits.top_k_max:
        raise ConfigurationError("limits.top_k_default must not be larger than limits.top_k_max")


def _check_sources(sources: Sources) -> None:
    for name in ("timeout", "page_bytes", "total_bytes", "pages"):
        if getattr(sources, name) < 1:
            raise ConfigurationError(f"sources.{name} must be at least 1, not {getattr(sources, name):g}")
    if not re.fullmatch(r"[ -~]{1,200}", sources.user_agent) or sources.user_agent.isspace():
        raise ConfigurationError("sources.user_agent must be 1 to 200 characters of ASCII")


def _check_kept(generations: int | None, where: str) -> None:
    if generations is not None and not MIN_KEPT_GENERATIONS <= generations <= MAX_KEPT_GENERATIONS:
        raise ConfigurationError(
            f"{where} must be from {MIN_KEPT_GENERATIONS} to {MAX_KEPT_GENERATIONS:,}, not {generations}"
        )


def _check_fusion(fusion: FusionSettings, where: str) -> None:
    if not 0 <= fusion.a <= 1:
        raise ConfigurationError(f"{where}.a must be from 0 (BM25 alone) to 1 (vectors alone), not {fusion.a}")
    if not 0 < fusion.c < float("inf"):
        raise ConfigurationError(f"{where}.c must be a positive number, not {fusion.c}")
    if not 1 <= fusion.depth <= MAX_RESCORED:
        raise ConfigurationError(f"{where}.depth must be from 1 to {MAX_RESCORED}, not {fusion.depth}")


def _check_spaces(spaces: tuple[EmbeddingSpace, ...]) -> None:
    for number, space in enumerate(spaces):
        if not space.id:
            raise ConfigurationError(f"spaces[{number}].id must not be empty")
        if not 1 <= space.dimensions <= MAX_DIMENSIONS:
            raise ConfigurationError(
                f"spaces[{number}].dimensions must be from 1 to {MAX_DIMENSIONS}, not {space.dimensions}"
            )
    _check_unique((space.id for space in spaces), "spaces", "id")


def _check_listed(spaces: tuple[EmbeddingSpace, ...], listed: tuple[str, ...], where: str) -> None:
    declared = [DEFAULT_SPACE.id, *(space.id for space in spaces)]
    for name in listed:
        if name not in declared:
            raise ConfigurationError(f"{where} names {name!r}, which no [[spaces]] declares: {', '.join(declared)}")


def _check_unique(names: Iterable[str], where: str, member: str) -> None:
    seen: set[str] = set()
    for number, name in enumerate(names):
        if name in seen:
            raise ConfigurationError(f"{where}[{number}].{member} {name!r} is there twice: choose another")
        seen.add(name)


def _check_name(name: str, where: str) -> None:
    if not COLLECTION_NAME.fullmatch(name):
        raise ConfigurationError(
            f"{where} {name!r} is not a valid collection name: use 1 to 64 of a-z 0-9 . _ - and begin with a-z or 0-9"
        )


def _check_names(settings: Settings) -> None:
    for name in settings.collections:
        _check_name(name, "collections")
    for key in settings.keys:
        for name in key.collections:
            _check_name(name, f"the collection of key {key.name!r}")
    for word, opened in settings.oauth.grants.items() if settings.oauth is not None else ():
        for name in opened.collections:
            _check_name(name, f'the collection of oauth.grants."{word}"')
    for domain, grant in settings.intent.editorial_domains.items():
        _check_name(grant.collection, f'intent.editorial_domains."{domain}".collection')
    for intake in settings.intakes:
        if intake.collection is not None:
            _check_name(intake.collection, f"the collection of intake {intake.id!r}")


def _check_keys(keys: tuple[Key, ...]) -> None:
    for number, key in enumerate(keys):
        if not re.fullmatch(r"[0-9a-f]{64}", key.sha256):
            raise ConfigurationError(f"keys[{number}].sha256 must be 64 hex digits, as `aidre keys new` prints them")
    _check_unique((key.name for key in keys), "keys", "name")
    _check_unique((key.sha256 for key in keys), "keys", "sha256")
