"""The parsers that read what strangers send, each as a function of bytes, with seeds to begin from.

A function answers for whatever bytes; the only exceptions that come out of it are faults: a parser that raised what
is not in its contract, or an answer that cannot be right. Nothing here is random, and nothing knows a fuzzer.
"""

from __future__ import annotations

import base64
import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from aidre.api.config.settings import Settings
from aidre.api.http.http_errors import BadRequest
from aidre.api.protocols.aidre.changes import CHECK_BYTES, TOKEN, parse_limit, read_token, write_token
from aidre.api.protocols.nlweb.nlweb_envelope import NlwebFailure
from aidre.api.protocols.nlweb.query.ask import read_ask
from aidre.api.protocols.nlweb.query.attribute_filters import build_filter
from aidre.api.protocols.nlweb.query.dialects import parse_parameters
from aidre.api.retrieval.cursor import CURSOR_FORMAT, Cursors, SearchCursor
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.errors import FormatTooNew, HistoryMissing, InvalidFilter, InvalidInput, StoreDamaged
from aidre.engine.index.fields.filters import Not, filter_digest, filter_fields
from aidre.engine.storage.manifest import encode_manifest, read_manifest, seal
from aidre.engine.types import ChangeCursor as FeedPlace
from tests.hostile.credentials import signatures, tokens
from tests.hostile.documents import DOCUMENTS
from tests.hostile.fuzzed_json import SPELLED, spelled, spellings, value_of
from tests.hostile.parsing import Make, Parser, one_line
from tests.hostile.readers import READERS
from tests.hostile.store_files import buffers, stores
from tests.support.fields import dated
from tests.support.stores import NAME, SPACE, put, record, structured

# -- filters ---------------------------------------------------------------------------------------------------

FIELDS = (
    "n",
    "day",
    "tag",
    "open",
    "price",
    "author.name",
    "offers.price",
    "offers.priceCurrency",
    "startDate",
    "text",
)
RESERVED = ("type", "site", "url", "updated_at", "document_id", "metadata.type", "metadata.n")
OPERATORS = ("eq", "ne", "in", "gt", "gte", "lt", "lte", "exists", "and", "or", "not")
VALUES = (
    "2026-04-01", "2026-04-01T10:00:00Z", "2026-12-31T23:59:60.5+14:00", "0001-01-01", "9999-12-31T23:59:59-12:00",
    "https://www.example.com:80/a", "www.example.com", "//user@[::1]/", "Recipe", "https://schema.org/Event", "red",
    "under $20", "10-20 EUR", ">= 5", "at least 3 stars", "PT1H30M", "next 3 weeks", "2026 to 2027", "Q3 2026",
    "Berlin, Germany", "New York", "true", "yes", "7", "7.50", "1e400", "\u0130", "\ud7ff\uffff", "a" * 300,
)  # fmt: skip
ASKED = (
    "itemType",
    "location",
    "price",
    "minPrice",
    "date",
    "rating",
    "cuisine",
    "duration",
    "free",
    "@type",
    "address",
)


def fielded(folder: Path) -> Snapshot:
    """A collection with fields of every type, one of them a declared date."""
    objects: list[dict[str, Any]] = [
        {"@type": "Recipe", "name": f"r{row}", "offers": {"price": row * 1.5, "priceCurrency": "EUR"},
         "startDate": f"2026-0{row % 9 + 1}-01", "author": {"name": "Ann"}}
        for row in range(30)
    ]  # fmt: skip
    with Store(folder / "store").writer(NAME, spaces=[SPACE], dates=["day"]) as writer:
        documents = [
            record(
                f"d{row}",
                metadata={"n": row, "day": f"2026-01-{row + 1:02d}", "tag": ["red", row], "open": row % 2 == 0},
                url=f"https://www.example.com/{row}" if row % 3 else None,
                schema_object=objects[row] if row % 4 else None,
                type="Recipe" if row % 4 else None,
            )
            for row in range(30)
        ]
        put(writer, documents, structured(30, SPACE.dimensions))
        writer.commit()
        writer.delete(["d3"])
        writer.commit()
    return Store(folder / "store").open(NAME)


def filters(folder: Path) -> Parser:
    """The engine's grammar, evaluated; and the open attributes of /ask, which must become a filter that it takes."""
    snapshot = fielded(folder)
    known, dates, settings = snapshot.fields(), snapshot.manifest.dates, Settings()
    words = (*FIELDS, *RESERVED, *OPERATORS, *VALUES, *ASKED)

    def check(value: Any) -> None:
        wanted = dated(value, dates)
        assert filter_digest(wanted) == filter_digest(dated(value, dates))
        assert filter_fields(wanted).issuperset(snapshot.unknown_fields(wanted))
        found = snapshot.count(wanted)
        assert found + snapshot.count(Not(wanted)) == snapshot.chunks, f"{found} and the others are not all"

    def parse(content: bytes) -> None:
        try:
            value = value_of(content, words)
        except ValueError:
            return
        try:
            check(value)
        except InvalidFilter as error:
            one_line(error)
        if type(value) is dict:
            found = build_filter(value, known, dates)
            if found.filter is not None:
                check(found.filter)  # InvalidFilter is a fault here: the caller did not write this one
            with suppress(NlwebFailure):
                read_ask({"query": {"text": "a", **value}, "context": value, "prefer": value, "meta": value}, settings)

    seeds = [
        {"n": 7}, {"n": {"gte": 1, "lt": 9.5}}, {"and": [{"tag": "red"}, {"not": {"open": True}}]},
        {"or": [{"day": {"gt": "2026-01-03"}}, {"site": "www.example.com"}]}, {"tag": {"in": ["red", 3, True]}},
        {"startDate": "2026", "price": "under $20", "location": "Berlin, Germany"}, {"url": {"exists": False}},
        {"offers": {"price": "10-20 EUR"}, "itemType": ["Recipe", "Event"], "duration": "PT1H"},
    ]  # fmt: skip
    return Parser(parse, [*map(orjson.dumps, seeds), *spellings()], words)


# -- cursors and tokens ------------------------------------------------------------------------------------------

BINDING = b"caller, query and filter"


def cursors(folder: Path) -> Parser:
    """Cursors of a search and tokens of the change feed; what is sealed by nobody opens nothing."""
    snapshot, sealed = fielded(folder), Cursors(b"s" * 32)
    place = SearchCursor(2, 10, 20, 1_800_000_000, b"lineage!")
    known = {sealed.write(place, BINDING): place}
    first = snapshot.changes(None, 5).cursor
    tokens = [write_token(snapshot.lineage, each) for each in (first, snapshot.changes(first, 100).cursor)]

    def follow(text: str) -> None:
        try:
            _, reached = read_token(text)
        except BadRequest as error:
            one_line(error)
            return
        _followed(snapshot, reached)

    def parse(content: bytes) -> None:
        text = content[1:].decode("latin-1")
        if content[:1] >= b"\xc0":  # a token whose check is right: only what it says can be wrong
            body = content[1 : 1 + TOKEN.size].ljust(TOKEN.size, b"\0")
            check = hashlib.blake2b(body, digest_size=CHECK_BYTES, person=b"aidre.changes").digest()
            follow(base64.urlsafe_b64encode(body + check).decode())
        elif content[:1] >= b"\x80":
            follow(text)
        elif content[:1] >= b"\x40":
            with suppress(BadRequest):
                assert 1 <= parse_limit(text) <= 10_000
        else:
            for binding in (BINDING, b"another's"):
                try:
                    found = sealed.read(text, binding)
                except InvalidInput as error:
                    one_line(error)
                else:
                    assert known.get(text) == found and binding is BINDING, f"a forged cursor opened {found}"

    packed = [base64.urlsafe_b64decode(token)[: TOKEN.size] for token in tokens]
    seeds = [b"\x01" + next(iter(known)).encode(), b"\x41" + b"100", *(b"\x81" + token.encode() for token in tokens)]
    seeds += [b"\xc1" + each for each in packed] + [b"\x01" + base64.urlsafe_b64encode(bytes(CURSOR_FORMAT.size + 16))]
    return Parser(parse, seeds)


def _followed(snapshot: Snapshot, place: FeedPlace) -> None:
    """A token grants nothing and is believed: wherever it points, the answer is a page, or that history is gone."""
    try:
        page = snapshot.changes(place, 7)
    except HistoryMissing as error:
        one_line(error)
    else:
        assert len(page.changes) <= 100
        write_token(snapshot.lineage, page.cursor)


# -- manifests -----------------------------------------------------------------------------------------------------


def manifests(folder: Path) -> Parser:
    """A manifest as it lies on the disk, and one whose checksum is right, whoever wrote it."""
    snapshot = fielded(folder)
    whole = encode_manifest(snapshot.manifest)
    body = whole[whole.index(b'"body":') + 7 : -2]
    path = folder / "000002.json"
    words = sorted(_names(orjson.loads(body)) | {"000002.json", "../../x", "1", "live", "scan", "cosine"})

    def read(content: bytes) -> None:
        path.write_bytes(content)
        try:
            manifest = read_manifest(folder, 2, NAME)
        except (StoreDamaged, FormatTooNew) as error:
            one_line(error)
            return
        assert encode_manifest(manifest)

    def parse(content: bytes) -> None:
        if content[:1] == b"{":
            read(seal(content))
        elif content[:1] >= bytes([SPELLED]):  # a member of the real one becomes something else
            changed = orjson.loads(body)
            _replace(changed, content[1:9], value_of(spelled(content[9:]), words))
            parse(orjson.dumps(changed))
        else:
            read(content[1:])

    parts = orjson.loads(body)
    slim = orjson.dumps({**parts, "segments": parts["segments"][:1], "source_states": {}})
    return Parser(parse, [body, slim, b" " + whole, *spellings()], words)


def _names(value: Any) -> set[str]:
    if type(value) is dict:
        return set(value).union(*map(_names, value.values()))
    return set().union(*map(_names, value)) if type(value) is list else set()


def _replace(value: Any, path: bytes, new: Any) -> None:
    """Put `new` where the bytes of `path` lead: each chooses a member, and an even one stops there."""
    for step in path:
        names = sorted(value) if type(value) is dict else list(range(len(value)))
        name: Any = names[step % len(names)] if names else None
        if name is None:
            return
        if step >= 224 and type(value) is dict:
            del value[name]
            return
        if step >= 160 or type(value[name]) not in (dict, list) or not value[name]:
            value[name] = new
            return
        value = value[name]


# -- everything else that is read of a request ---------------------------------------------------------------------


def parameters(folder: Path) -> Parser:
    """Query strings and forms of /ask, brought into the form of a body and read."""
    settings = Settings()
    words = (
        "query",
        "q",
        "site",
        "prev",
        "mode",
        "streaming",
        "prefer.streaming",
        "query.limit",
        "meta.user",
        "context",
    )

    def parse(content: bytes) -> None:
        pairs = [pair.partition("=")[::2] for pair in content.decode("utf-8", "replace").split("&")]
        try:
            read_ask(parse_parameters(pairs), settings)
        except NlwebFailure as error:
            one_line(error)

    seeds = [
        b"query=a&site=b,c&num_results=3",
        b'q=a&prev=["x","y"]&streaming=true',
        b"query.text=a&prefer.mode=summarize",
    ]
    return Parser(parse, seeds, words)


PARSERS: dict[str, Make] = {
    "filter": filters,
    "cursor": cursors,
    "manifest": manifests,
    "signature": signatures,
    "token": tokens,
    "parameters": parameters,
    "buffer": buffers,
    "store": stores,
    **READERS,
    **DOCUMENTS,
}
