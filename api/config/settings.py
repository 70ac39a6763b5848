"""The configuration file `aidre.toml` as frozen structs: every key has a default and is checked when it is read.

It opens no store: the configuration is compared with the manifests elsewhere.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from msgspec import Meta, field
from msgspec.structs import replace

from aidre.api.config.intake import IntakeSettings, OfferedIntake
from aidre.api.config.intent import IntentSettings
from aidre.api.config.nlweb import NlwebSettings
from aidre.api.config.origins import Host, Origin, check_proxies, check_sent_url, check_url
from aidre.api.config.toml import (
    CollectionName,
    Count,
    Day,
    Duration,
    Interval,
    Rate,
    Secret,
    Section,
    Text,
    Whole,
    check_secret,
    check_unique,
    like,
    matching,
    path,
    read,
)
from aidre.engine.embedding import DEFAULT_SPACE, HASHING, OPENAI, Endpoint, dimensions_of
from aidre.engine.errors import ConfigurationError
from aidre.engine.model import Distance, EmbeddingSpace, Fusion, FusionMethod, Precision, Visibility
from aidre.engine.schema_text import TITLES
from aidre.engine.storage import MAX_KEPT_GENERATIONS, MIN_KEPT_GENERATIONS
from aidre.ingest.records import parse_mappings
from aidre.ingest.sites import UrlStyle

if TYPE_CHECKING:
    from aidre.engine import Address
    from aidre.engine.ports import Source
    from aidre.engine.retrieve import Policy


class StoreSettings(Section):
    """Another engine in place of local segments, and the bucket of `aidre publish` and of replicas."""

    backend: Literal["local", "postgres", "milvus"] = "local"  #: What holds the collections.
    #: The address of the engine, which every backend but `local` needs.
    uri: Annotated[Secret, like("env:SECRET")] | None = None
    #: Where every commit is published to; `aidre publish` without `--to` publishes there, too.
    publish: Annotated[str, like("s3://bucket/prefix")] | None = None
    endpoint: Annotated[str, like("https://s3.example.com")] | None = None  #: Of a bucket elsewhere than at AWS.
    region: Annotated[str, like("eu-central-1")] | None = None  #: Of the bucket; default: from the environment.
    poll: Interval = Interval(1)  #: Between two looks of a replica for a new generation.
    #: The most bytes of a replica's cache; a generation that needs more is not opened. 0: no limit.
    cache_bytes: Whole = 0
    #: A replica pulls a collection at the first question to it, and not before.
    lazy: bool = False
    #: How long a lazy replica keeps a collection that nobody asks for.
    keep: Interval = Interval(3_600)
    #: The most files of the collections that a lazy replica keeps; 0: half of what the process may open.
    keep_files: Whole = 0
    #: A file of public keys, as `aidre keys public` prints them, searched beside the configuration first: a replica
    #: then refuses publications that none of them has signed, and older ones than it has seen.
    publisher_keys: Annotated[str, like("publisher.pem")] | None = None
    #: The collections that a signed publication may make public although they were private.
    widened: Annotated[tuple[CollectionName, ...], like(["handbook"])] = ()

    def open(self, folder: Path) -> Source:
        """What holds the collections: segments in the folder, or the engine; the folder then has the state of this
        host. ConfigurationError where the address is none or the driver is not installed."""
        from aidre.engine import open_source

        address = self.address
        return open_source(folder) if address is None else open_source(folder, address)

    @property
    def address(self) -> Address | None:
        """The address of the engine; None for local segments."""
        from aidre.engine import Address

        return None if self.backend == "local" or self.uri is None else Address(self.backend, str(self.uri))

    def __post_init__(self) -> None:
        if self.backend != "local" and self.uri is None:
            raise ValueError(f'.uri is missing: say where the engine {self.backend} is, as in "env:AIDRE_STORE_URI"')
        if self.backend == "local" and self.uri is not None:
            raise ValueError('.uri needs a backend: set backend = "postgres" or "milvus"')
        if self.backend != "local" and self.publish is not None:
            raise ValueError(".publish publishes local segments: leave it out, the engine replicates by itself")


Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"
]
"""Asymmetric algorithms only: a verification key can then never be confused with an HMAC secret."""
Scope: TypeAlias = Literal["search", "vectors", "write"]


class OAuthGrant(Section):
    """What a word of the scope claim grants. Without a grant of their own, the words `search` and `vectors` grant the
    scope of that name."""

    collections: tuple[CollectionName, ...] = ()  #: Collections beside the public ones.
    scopes: tuple[Scope, ...] = ("search",)  #: `vectors`: also to get vectors, and to ask by them.


DEFAULT_GRANTS: Mapping[str, OAuthGrant] = {"search": OAuthGrant(), "vectors": OAuthGrant(scopes=("vectors",))}
"""The grants of the words `search` and `vectors`, unless the configuration overrides them."""


class OAuth(Section):
    """Bearer tokens of one issuer, accepted beside the keys: JSON Web Tokens, checked against the issuer's keys, which
    either `jwks_uri` or `jwks` names."""

    issuer: Annotated[Text, like("https://login.example.com")]  #: The issuer, as the claim `iss` names it.
    audience: Annotated[Text, like("https://ai.example.com")]  #: What the claim `aud` must contain.
    jwks_uri: Annotated[str, like("https://login.example.com/jwks")] | None = None  #: The issuer's keys, a URL.
    jwks: Annotated[str, like("issuer.jwks.json")] | None = None  #: The same as a file, searched beside this one first.
    algorithms: tuple[Algorithm, ...] = ("RS256", "ES256", "EdDSA", "Ed25519")  #: Accepted for signatures.
    scope_claim: Text = "scope"  #: The claim whose words grant.
    collections_claim: Annotated[str, like("groups")] | None = None  #: A claim that lists collections, and grants them.
    grants: Mapping[str, OAuthGrant] = {}
    rate: Rate | None = None  #: The rate of each subject; without it `limits.rate` applies.
    leeway: Duration = Duration(30)  #: The tolerated difference between clocks, at most five minutes.

    def __post_init__(self) -> None:
        check_url(self.jwks_uri, ".jwks_uri")
        if (self.jwks_uri is None) == (self.jwks is None):
            raise ValueError("needs exactly one of jwks_uri (an https:// address) and jwks (a file)")
        if not self.algorithms:
            raise ValueError(".algorithms must name at least one algorithm, such as ES256")
        if not 0 <= self.leeway <= 300:
            raise ValueError(f".leeway must be at most 5m, not {self.leeway:g} seconds")


Protocol: TypeAlias = Literal["aidre", "nlweb", "intent", "intake"]

MONTH = Duration(2_592_000)
Names: TypeAlias = tuple[CollectionName, ...]
Generations: TypeAlias = Annotated[int, Meta(ge=MIN_KEPT_GENERATIONS, le=MAX_KEPT_GENERATIONS, examples=[5])]
Languages: TypeAlias = Annotated[str, matching("[A-Za-z0-9_]{2,40}([+][A-Za-z0-9_]{2,40}){0,9}", "be names as deu+eng")]
HeaderName: TypeAlias = Annotated[str, matching("[A-Za-z0-9-]{1,64}", "be a header such as X-Original-URI")]
UserAgent: TypeAlias = Annotated[str, matching(r"(?= *[!-~])[ -~]{1,200}", "be 1 to 200 characters of ASCII")]
Digest: TypeAlias = Annotated[
    str, matching("[0-9a-f]{64}", "be 64 hex digits, as `aidre keys new` prints them", "0" * 64, hidden=True)
]
LanguageTag: TypeAlias = Annotated[str, matching("[a-z]{2,3}", "be the short tag of a language such as de", "de")]


class ServerSettings(Section):
    """The addresses of the server, and who may ask."""

    #: The prefix of published URLs, `https://` beyond loopback; it may have a path that a proxy strips. Default: the
    #: address on loopback where the server listens.
    base_url: Annotated[str, like("https://ai.example.com")] | None = None
    #: The website at whose root the well-known documents are; default: `base_url`.
    origin: Annotated[str, like("https://www.example.com")] | None = None
    organization: Annotated[str, like("Example")] | None = None  #: The name of the operator.
    #: The web origins whose scripts may ask, or `"*"`. Default: any where a `base_url` beyond loopback is declared,
    #: else those of loopback.
    cors_origins: Annotated[tuple[Origin, ...], like(["https://app.example.com"])] | None = None
    #: Hosts that a request may be for, beside those of `base_url`, `origin` and loopback; others get 421.
    hosts: Annotated[tuple[Host, ...], like(["search.internal"])] = ()
    #: Whether the search page shows images of documents, which the browsers of its users then load from where they are.
    images: bool = True
    writes: bool = False  #: Whether documents may be written over HTTP, by keys with the scope `write`.
    #: The folder of receipts, offers, promises and secrets, which one host keeps; default: `.log` in the store.
    state: Annotated[str, like("/var/lib/aidre/state")] | None = None
    #: Authenticates cursors; replicas need the same one, so that a cursor of one is good on all. Default: a secret in
    #: the folder `state`.
    cursor_secret: Secret | None = None
    default_collection: CollectionName | None = None  #: For requests that name none; default: the only one.
    #: Proxies that are believed in what X-Forwarded-For says of the client: addresses, networks, host names.
    trusted_proxies: Annotated[tuple[str, ...], like(["10.0.0.0/8"])] = ()
    #: The header in which a trusted proxy sends path and query as the client sent them, for signatures.
    original_uri_header: HeaderName = "X-Original-URI"
    tls: Literal["proxy", "none"] | None = None  #: What terminates TLS; `proxy` is required beyond loopback.
    log: Literal["none", "requests"] = "none"  #: `requests`: one JSON line per request.
    metrics: Literal["open", "callers"] = "open"  #: Who may read /metrics: everybody, or authenticated callers.
    scrub: Duration = Duration(86_400)  #: The period in which all files are read once to find damage; `0s`: never.

    def __post_init__(self) -> None:
        check_proxies(self.trusted_proxies, ".trusted_proxies")
        if self.cursor_secret is not None:
            check_secret(self.cursor_secret, ".cursor_secret")


class Limits(Section):
    """All limits are inclusive."""

    top_k_default: Count = 10  #: The number of results where a request names none; at most `top_k_max`.
    top_k_max: Count = 100  #: The most results of a request.
    body_bytes: Count = 1_048_576  #: The longest body of a request.
    write_bytes: Count = 16_777_216  #: The longest body of documents.
    #: Bytes that a process keeps of requests that have not come whole, then 503, and as many of answers that nobody
    #: reads; a quarter of them for one address. Default: 134217728, or twice the longest body if that is more.
    unfinished_bytes: Annotated[Count, like(134_217_728)] | None = None
    query_chars: Count = 8_192  #: The longest query, in characters.
    rate: Rate | None = None  #: The rate of a caller. Default: unlimited on loopback, 600/minute beyond.
    chunks_per_day: Whole = 0  #: Distinct chunks per caller and day; 0: unlimited.
    redis: Secret | None = None  #: The URL of a server that shares the limits between machines.
    wait: Duration = Duration(2)  #: The longest expected time in the queue; beyond it, a search is rejected with 503.
    concurrency: Count = 256  #: Requests in progress per process, then 503.
    deadline: Interval = Interval(30)  #: Until an answer begins, then 503; longer than `nlweb.budget`.

    @property
    def client_memory(self) -> int:
        """`unfinished_bytes`, or its default."""
        longest = 2 * max(self.body_bytes, self.write_bytes)
        return max(134_217_728, longest) if self.unfinished_bytes is None else self.unfinished_bytes

    def __post_init__(self) -> None:
        if self.client_memory < 2 * max(self.body_bytes, self.write_bytes):
            raise ValueError(".unfinished_bytes must be at least twice body_bytes and write_bytes, so that one fits")


class FusionSettings(Section):
    """The hybrid score: `a * cosine + (1 - a) * bm25 / (bm25 + c)`, and a bonus for rare codes such as part numbers; or
    that of ranks."""

    #: How words and vectors are joined unless a search says it: `rrf` by the ranks of two short lists, which is faster
    #: and finds less, without `c`, the bonus for codes and `rescore`.
    method: FusionMethod = "score"

    a: Annotated[float, Meta(ge=0, le=1)] = 0.5  #: From 0 (BM25 alone) to 1 (vectors alone).
    #: The BM25 score that counts as one half.
    c: Annotated[float, Meta(gt=0, le=sys.float_info.max, extra={"must": "be a positive number"})] = 20.0
    #: A second space, whose cosine replaces that of the first one for the best `depth` hits.
    rescore: Annotated[str, like("another-space")] | None = None
    depth: Annotated[int, Meta(ge=1, le=1_000)] = 50  #: The number of hits that `rescore` applies to.


class CollectionSettings(Section):
    """One collection, by its name."""

    description: Annotated[str, like("The handbook")] | None = None  #: What the collection holds.
    visibility: Visibility = "public"  #: The stricter of this and what the store says applies.
    generations: Generations | None = None  #: Those that are kept beside those of the last ten minutes; default: 2.
    #: Its embedding spaces. Default: the default text space, and each declared space that the rows bring vectors for.
    spaces: Annotated[tuple[str, ...], like(["images"])] | None = None
    protocols: tuple[Protocol, ...] = ("aidre", "nlweb", "intent", "intake")  #: The protocols that serve it.
    return_text: bool = True  #: Whether texts are returned.
    return_vectors: bool = False  #: Whether vectors are returned.
    #: Who may ask by vector: everybody, or callers with the scope `vectors`. Default: `scope` where texts are withheld,
    #: because exact scores of chosen vectors reveal the stored ones, else `open`.
    vector_queries: Literal["open", "scope"] | None = None
    #: The share of the nearest vectors that searches find unless they ask for another one: lower is faster, 1 compares
    #: every vector. Calibrated are .9, .95, .99 and .995; of others the next higher one holds.
    recall: Annotated[float, Meta(gt=0, le=1)] = 0.99
    lexical: bool = True  #: Whether it is searched by words, whose hits confirm guesses about withheld texts.
    dates: Annotated[tuple[str, ...], like(["released"])] = ()  #: Members of the metadata that are dates.
    #: Which columns of a table hold which property; by pattern of file names, too.
    mapping: Annotated[Mapping[str, Any], like({"id": "sku"})] = {}
    #: The form of the addresses of pages: `auto` as the generator of a site has them, else by the paths of files.
    url_style: UrlStyle = "auto"
    index: Annotated[Mapping[str, Any], like({"kind": "exact"})] = {}  #: Ignored: the engine chooses the index.
    fusion: FusionSettings = FusionSettings()

    @property
    def restricts_vector_queries(self) -> bool:
        """Whether a query by vector needs the scope `vectors`."""
        return (self.vector_queries or ("open" if self.return_text else "scope")) == "scope"

    @property
    def policy(self) -> Policy:
        """What holds for searches by whatever door."""
        from aidre.engine.retrieve import Policy

        fusion = self.fusion
        return Policy(
            lexical=self.lexical,
            spaces=self.spaces,
            fusion=Fusion(fusion.a, fusion.c, fusion.method),
            rescore=fusion.rescore,
            depth=fusion.depth,
            shows_text=self.return_text,
            recall=self.recall,
        )

    @property
    def text_columns(self) -> frozenset[str]:
        """The names of columns that a mapping makes the text of, without those that it makes the title of."""
        columns = set[str]()
        for mapping in parse_mappings(self.mapping, "mapping") or ():
            titles = mapping.columns_of("title") or TITLES
            columns.update(name.rpartition(".")[2] for name in mapping.columns_of("text") if name not in titles)
        return frozenset(columns)

    @property
    def maps_texts(self) -> bool:
        """Whether a mapping says what the texts of rows are made of."""
        return any("text" in mapping.members for mapping in parse_mappings(self.mapping, "mapping") or ())


class Space(Section):
    """An embedding space: which vectors are comparable, and how. The default text space needs no declaration."""

    id: Annotated[Text, like("images")]  #: The name of the space.
    #: The length of a vector. A sentence-transformers model says it itself.
    dimensions: Annotated[int, Meta(ge=1, le=65_536, examples=[512])] | None = None
    distance: Distance | None = None  #: How vectors are compared; default with a model: `cosine`.
    normalized: bool = False  #: Whether vectors have length 1.
    #: Who made the model; with `openai` and a model, an endpoint that speaks OpenAI's embeddings API embeds the texts.
    provider: Annotated[str, like("sentence-transformers")] | None = None
    model: Annotated[str, like("BAAI/bge-small-en-v1.5")] | None = None  #: Without one vectors come with the rows.
    revision: Annotated[str, like("v1")] | None = None  #: Identifies weights, pooling, prefixes and chunking.
    #: What is put before a query that is embedded; default: what the model's folder says, or nothing.
    query_prefix: Annotated[str, like("query: ")] | None = None
    document_prefix: Annotated[str, like("passage: ")] | None = None  #: The same before a chunk.
    #: Languages that the model knows, by their short tags; default: those of its tokenizer, of an endpoint all.
    languages: Annotated[tuple[LanguageTag, ...], like(["en", "de"])] | None = None
    precision: Precision | None = None  #: The stored type of numbers; default: the engine's choice.
    #: The base URL of the endpoint of provider `openai`, to which `/embeddings` is added; `https://` beyond loopback.
    endpoint: Annotated[str, like("https://api.example.com/v1")] | None = None
    key: Secret | None = None  #: The key that the endpoint asks for, sent as a bearer token.
    request_dimensions: bool = False  #: Whether the endpoint is asked for that many `dimensions`, to shorten vectors.
    timeout: Interval = Interval(60)  #: The longest time of one request to the endpoint; of a query at most 8 seconds.

    @property
    def has_folder(self) -> bool:
        """Whether the model is one of sentence-transformers, whose folder says how long its vectors are."""
        return self.model not in {None, HASHING} and self.provider in {None, "sentence-transformers"}

    @property
    def declared(self) -> EmbeddingSpace:
        """ModelUnavailable for a missing model that should say `dimensions`."""
        members = {member.name: getattr(self, member.name) for member in fields(EmbeddingSpace)}
        length = dimensions_of(self.model or "") if self.dimensions is None else self.dimensions
        return EmbeddingSpace(**{**members, "dimensions": length, "distance": self.distance or "cosine"})

    def __post_init__(self) -> None:
        if self.dimensions is None and not self.has_folder:
            raise ValueError(".dimensions is missing: give the length of the vectors")
        if self.model is None:
            if self.distance is None:
                raise ValueError(".distance is missing: use cosine, dot or euclidean")
            if self.query_prefix is not None or self.document_prefix is not None:
                member = "document_prefix" if self.query_prefix is None else "query_prefix"
                raise ValueError(f".{member} is for a model: name it by model, or remove the prefix")
            if self.languages is not None:
                raise ValueError(".languages is for a model: name it by model, or remove the languages")
        if self.endpoint is None:
            if self.provider == OPENAI and self.model is not None:
                raise ValueError('.endpoint is missing: provider "openai" needs one such as https://api.example.com/v1')
            if self.key is not None or self.request_dimensions:
                member = "request_dimensions" if self.key is None else "key"
                raise ValueError(f".{member} is for an endpoint: add endpoint and provider = {OPENAI!r}, or remove it")
            return
        check_url(self.endpoint, ".endpoint")
        if self.endpoint.rstrip("/").endswith("/embeddings"):
            raise ValueError(".endpoint must be the base URL: leave out /embeddings at its end")
        if self.provider != OPENAI:
            raise ValueError(f".provider must be {OPENAI!r} where there is an endpoint")
        if self.model is None:
            raise ValueError(".model is missing: name the model that the endpoint serves")
        if self.key is not None and re.fullmatch("[!-~]+", self.key) is None:
            raise ValueError(".key must be printable ASCII without spaces")


class Key(Section):
    """A caller's key, as `aidre keys new` prints it."""

    name: Annotated[str, like("partner")]  #: The name of the caller.
    sha256: Digest  #: The digest of the secret, in hex.
    collections: Annotated[Names, like(["archive"])] = ()  #: The collections that it grants beside the public ones.
    #: `vectors`: also to get vectors, and to ask by them; `write`: to write documents, where `server.writes` is true,
    #: to the listed collections, or, if none is listed, to every one that it sees.
    scopes: tuple[Scope, ...] = ("search",)
    rate: Rate | None = None  #: The rate of the key; default: `limits.rate`.


class ProvenanceSettings(Section):
    """Signatures of answers and of chunks."""

    #: A file written by `aidre keys new --provenance`, searched beside the configuration first.
    key: Annotated[str, like("keys.pem")] | None = None
    lifetime: Duration = MONTH  #: How long the signature of a chunk is valid, from 2 seconds to 30 days.
    #: The name of the algorithm: that of RFC 9864, or the older one, for verifiers that know no other.
    alg: Literal["Ed25519", "EdDSA"] = "Ed25519"

    def __post_init__(self) -> None:
        if not 2 <= self.lifetime <= MONTH:
            raise ValueError(".lifetime must be from 2s to 30d, as long as former keys stay published")


class Embedding(Section):
    """The models of embedding spaces."""

    #: The runtime of models; `auto` is ONNX Runtime for models that can be exported, else sentence-transformers.
    runtime: Literal["auto", "onnxruntime", "sentence-transformers"] = "auto"


class SourceSettings(Section):
    """How addresses are fetched, and how what comes from them is parsed."""

    allow_private_addresses: bool = False  #: Whether loopback and private networks may be fetched from.
    timeout: Interval = Interval(60)  #: The longest time for one address with its redirects.
    delay: Duration = Duration(0)  #: The time between two requests.
    page_bytes: Count = 16_777_216  #: The most bytes of one page or feed, inflated.
    total_bytes: Count = 4_294_967_296  #: The most bytes of one source, inflated.
    pages: Count = 50_000  #: The most pages in the sitemaps of one source.
    robots: bool = True  #: Whether robots.txt is obeyed.
    user_agent: UserAgent = "aidre"  #: The name by which the fetcher introduces itself.
    #: The longest time to parse one document; then it is refused, and no other is. OCR has 30 minutes of its own
    #: for each document, of which drawing a page may take this time.
    parse_timeout: Interval = Interval(30)
    #: Whether parsers run behind the walls that the system has (Landlock, seccomp), or not at all where it lacks one.
    sandbox: Literal["available", "required"] = "available"
    #: Whether images and pages of PDF without text are read by OCR, as with `--ocr`; tesseract has to be installed.
    ocr: bool = False
    ocr_languages: Languages = "eng"  #: The languages of OCR by tesseract's names, as in `deu+eng`.


class Settings(Section):
    """The content of `aidre.toml`."""

    server: ServerSettings = ServerSettings()
    limits: Limits = Limits()
    embedding: Embedding = Embedding()
    sources: SourceSettings = SourceSettings()
    declared_spaces: tuple[Space, ...] = field(default=(), name="spaces")
    collections: Mapping[CollectionName, CollectionSettings] = {}
    keys: tuple[Key, ...] = ()
    oauth: OAuth | None = None
    intent: IntentSettings = IntentSettings()
    intakes: tuple[OfferedIntake, ...] = ()
    intake: IntakeSettings = IntakeSettings()
    nlweb: NlwebSettings = NlwebSettings()
    provenance: ProvenanceSettings = ProvenanceSettings()
    store: StoreSettings = StoreSettings()

    @property
    def spaces(self) -> tuple[EmbeddingSpace, ...]:
        """The declared spaces; the default text space needs no declaration."""
        return tuple(space.declared for space in self.declared_spaces)

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The endpoints that embed declared spaces, by the ids of these."""
        return {
            space.id: Endpoint(space.endpoint, space.key, space.request_dimensions, space.timeout)
            for space in self.declared_spaces
            if space.endpoint is not None
        }

    @property
    def knows_callers(self) -> bool:
        """Whether callers can authenticate."""
        return bool(self.keys) or self.oauth is not None

    def state_folder(self, store: Path) -> Path:
        """The folder of what one host keeps: receipts, offers, promises, secrets."""
        return store / ".log" if self.server.state is None else Path(self.server.state).expanduser().absolute()

    def collection(self, name: str, meant: str | None = None) -> CollectionSettings:
        """The settings of a collection, or the defaults. `name` may be an alias, and `meant` the collection that it
        means, whose settings hold where the alias has none."""
        settings = self.collections.get(name)
        if settings is None and meant is not None:
            settings = self.collections.get(meant)
        return COLLECTION_DEFAULTS if settings is None else settings


COLLECTION_DEFAULTS = CollectionSettings()


def load_settings(file: Path | None) -> Settings:
    """The settings in the file, or the defaults without one; raises ConfigurationError."""
    if file is None:
        return Settings()
    try:
        text = file.read_text(encoding="utf-8-sig")  # utf-8-sig: some editors write a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the configuration {file} cannot be read: {_reason(error)}") from error
    settings = parse_settings(text)
    intent, intake, oauth, provenance = settings.intent, settings.intake, settings.oauth, settings.provenance
    store = settings.store
    if intent.compliance.last_updated is None:
        changed = read(Day, datetime.fromtimestamp(file.stat().st_mtime, UTC))
        intent = replace(intent, compliance=replace(intent.compliance, last_updated=changed))
    if provenance.key is not None:
        provenance = replace(provenance, key=_beside(file, provenance.key))
    if store.publisher_keys is not None:
        store = replace(store, publisher_keys=_beside(file, store.publisher_keys))
    if oauth is not None and oauth.jwks is not None:
        oauth = replace(oauth, jwks=_beside(file, oauth.jwks))
    if intake.key_file is None:
        intake = replace(intake, key_file=str(file.absolute().with_name(f"{file.stem}.bind-key")))
    return replace(settings, intent=intent, intake=intake, oauth=oauth, provenance=provenance, store=store)


def parse_settings(text: str) -> Settings:
    """The settings in a text of TOML; raises ConfigurationError."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError also for integers longer than Python parses
        raise ConfigurationError(f"the configuration is not TOML: {error}") from error
    return settings_of(tables)


def settings_of(tables: Mapping[str, Any]) -> Settings:
    """The settings in tables of TOML; raises ConfigurationError."""
    settings = read(Settings, tables)
    if "top_k_default" not in tables.get("limits", {}):  # a small maximum alone lowers the default
        limits = settings.limits
        settings = replace(settings, limits=replace(limits, top_k_default=min(limits.top_k_default, limits.top_k_max)))
    try:
        _check(settings)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error
    return settings


def _beside(configuration: Path, name: str) -> str:
    """The path of a file, searched beside the configuration first."""
    beside = configuration.absolute().parent / name
    return str(beside) if beside.is_file() else name


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or "unreadable" if isinstance(error, OSError) else "it is not UTF-8"


def _check(settings: Settings) -> None:
    """Raises ValueError, or ConfigurationError, for sections that do not fit together."""
    server, limits = settings.server, settings.limits
    check_sent_url(server.base_url, "server.base_url")
    check_sent_url(server.origin, "server.origin")
    if limits.top_k_default > limits.top_k_max:
        raise ValueError("limits.top_k_default must not be larger than limits.top_k_max")
    if server.metrics == "callers" and not settings.knows_callers:
        raise ValueError('server.metrics = "callers" needs a key or [oauth]: make one with `aidre keys new`')
    grants = settings.oauth.grants.values() if settings.oauth is not None else ()
    if server.writes and not any("write" in credential.scopes for credential in (*settings.keys, *grants)):
        raise ValueError("server.writes = true needs a key with the scope write: make one with `aidre keys new`")
    if settings.nlweb.budget >= limits.deadline:
        raise ValueError(
            f"nlweb.budget must be shorter than limits.deadline ({limits.deadline:g}s), to promise in time"
        )
    check_unique((space.id for space in settings.declared_spaces), "spaces", "id")
    check_unique((key.name for key in settings.keys), "keys", "name")
    check_unique((key.sha256 for key in settings.keys), "keys", "sha256")
    check_unique((intake.id for intake in settings.intakes), "intakes", "id")
    declared = [DEFAULT_SPACE.id, *(space.id for space in settings.declared_spaces)]
    for name, collection in settings.collections.items():
        where = path("collections", name)
        parse_mappings(collection.mapping, f"{where}.mapping")
        for space in collection.spaces or ():
            if space not in declared:
                raise ValueError(f"{where}.spaces names {space!r}, which no [[spaces]] declares: {', '.join(declared)}")


def spaces_for(
    settings: Settings, collection: str, stored: Sequence[EmbeddingSpace], supplied: Collection[str]
) -> tuple[EmbeddingSpace, ...]:
    """The spaces to ingest a collection into.

    Those that `collections.NAME.spaces` lists. Without that list: the `stored` spaces of the collection, or for a new
    one the default text space, and every declared space that rows bring vectors for (`supplied`, by id).
    """
    declared = declared_spaces(settings)
    listed = settings.collection(collection).spaces
    if listed is not None:
        return tuple(declared[name] for name in listed)
    spaces = {space.id: declared.get(space.id, space) for space in stored or (declared[DEFAULT_SPACE.id],)}
    spaces |= {name: space for name, space in declared.items() if name in supplied and name not in spaces}
    return tuple(spaces.values())


def declared_spaces(settings: Settings) -> dict[str, EmbeddingSpace]:
    """The default text space and those of `[[spaces]]`, by id."""
    return {space.id: space for space in (DEFAULT_SPACE, *settings.spaces)}
