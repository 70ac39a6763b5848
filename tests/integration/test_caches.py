"""What a server remembers of the texts that callers send: some megabytes, whatever they send."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from starlette.requests import Request

from aidre.api.http.request import MAX_ACCEPT_CHARS, accept_header, quality
from aidre.api.protocols.intent.event_ledger import pseudonym_of
from aidre.api.protocols.nlweb.answer.document_search import parse_host
from aidre.api.protocols.nlweb.answer.items import CACHE_BYTES, Items, _CachedItem
from aidre.api.protocols.nlweb.query.attribute_filters import subtypes_of
from aidre.api.retrieval.query_embedding import BatchingEmbedder
from aidre.engine.collection.store import Store
from aidre.engine.embedding import graph
from aidre.engine.embedding.embedder import load_embedder
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.index.text import analysis, detection
from aidre.engine.index.text.analysis import MAX_CACHED_CHARACTERS, MAX_TERM_CHARACTERS, tokenize
from aidre.engine.index.text.detection import question_language
from aidre.engine.retrieve.measures.periods import spell_durations
from aidre.engine.retrieve.measures.quantities import Bounds
from aidre.engine.segment import segment_reader, view
from tests.support.clients import TEXT, a_document, fill
from tests.support.terms import analyze_query

MEGABYTE = 1_000_000
WIDE = [chr(point) for point in range(0x10280, 0x1029D)]
"""Letters of four bytes each."""
WORDS: list[Any] = [
    analysis._cached_parts,
    analysis._cached_term,
    analysis._cached_reading,
    detection._cached_evidence,
]
MANY = ("ar", "da", "de", "en", "es", "fi", "fr", "ga", "hu", "it", "lt", "nl", "no", "pt", "ro", "ru", "sv", "tr")


@pytest.fixture(scope="module", autouse=True)
def frozen() -> Iterator[None]:
    """What was there before these tests is not searched for garbage again and again."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def grown(fill: Callable[[], object]) -> int:
    """Bytes that are held afterwards and were not before."""
    gc.collect()
    tracemalloc.start()
    try:
        fill()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def repeat(one: Callable[[int], object], times: int) -> None:
    for number in range(times):
        one(number)


def letters(count: int, among: Sequence[str] = WIDE) -> str:
    return "".join(random.choices(among, k=count))


def plain(size: int) -> str:
    return letters(size, "abcdefghij")


def wide(size: int) -> str:
    return letters(size)


def compound(size: int) -> str:
    return ("_".join(letters(2) for _ in range(size // 3)) + letters(3))[:size]


@pytest.mark.parametrize(
    ("cache", "more"),
    [
        (analysis._cached_parts, ()),
        (analysis._cached_term, ("en",)),
        (analysis._cached_reading, (("en",),)),
        (analysis._cached_reading, (MANY,)),
        (detection._cached_evidence, ()),
        (graph._cached_dimensions, ()),
    ],
)
@pytest.mark.parametrize("make", [plain, wide, compound])
def test_no_words_fill_a_cache_with_more_than_some_megabytes(
    cache: Any, more: tuple[Any, ...], make: Callable[[int], str]
) -> None:
    tokens = {make(MAX_CACHED_CHARACTERS) for _ in range(80)}
    cache("stemmers", *more)  # are made once for each language
    cache.cache_clear()

    def fill_up() -> None:
        for token in tokens:
            cache(token, *more)
        for other in WORDS:  # one fills another
            if other is not cache:
                other.cache_clear()

    each = grown(fill_up) / len(tokens)
    assert each * cache.cache_info().maxsize < 12 * MEGABYTE


@pytest.mark.parametrize("size", [MAX_CACHED_CHARACTERS + 1, MAX_TERM_CHARACTERS, MAX_TERM_CHARACTERS + 1, 2_000])
@pytest.mark.parametrize("make", [plain, wide, compound])
def test_long_words_are_not_remembered(size: int, make: Callable[[int], str]) -> None:
    tokens = [make(size) for _ in range(8)]
    embedder = load_embedder(TEXT)

    def use(some: Sequence[str]) -> None:
        for token in some:
            analyze_query(token, MANY[:2])
            question_language(token, MANY[:2])
            tokenize(token)
            embedder.embed_queries([token])

    use(tokens)  # a compound word has short parts, which are
    caches = [*WORDS, graph._cached_dimensions]
    remembered = [cache.cache_info().currsize for cache in caches]
    assert grown(lambda: use(tokens)) < MEGABYTE / 10
    assert grown(lambda: use([make(size) for _ in range(8)])) < MEGABYTE / 4
    if make is not compound:
        assert [cache.cache_info().currsize for cache in caches] == remembered


def test_texts_that_were_embedded() -> None:
    class Constant:
        def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.zeros((len(texts), TEXT.dimensions), np.float32)

        def count_tokens(self, texts: Sequence[str]) -> list[int]:
            return [0 for _ in texts]

    queries = BatchingEmbedder(TEXT, lambda space: Constant())

    async def ask() -> None:
        first = letters(20)
        for number in range(60):
            texts = (f"{number} {place} {WIDE[0] * 8_000}" for place in range(3))
            await asyncio.gather(*map(queries.embed, texts), queries.embed(first))

    assert grown(lambda: asyncio.run(ask())) < 2 * MEGABYTE
    queries.close()


def test_what_a_caller_accepts() -> None:
    def accepted(value: str) -> float:
        headers = [(b"accept", value.encode("latin-1"))]
        return quality(accept_header(Request({"type": "http", "headers": headers, "state": {}})), "application/json")

    many = ",".join(f"{number:x}" for number in range(12_000))
    assert grown(lambda: [accepted(f"x{number},{many}") for number in range(8)] and None) < 2 * MEGABYTE
    assert accepted(f"application/json;q=0.5,{many}") == 0.5
    assert accepted(f"{many},application/json") == 0
    assert accepted("x" * MAX_ACCEPT_CHARS + "," + many) == 1, "what is not looked at forbids nothing"


def test_sites_types_durations_and_cited_addresses() -> None:
    many = "x" * 100_000
    fills: dict[str, Callable[[int], object]] = {
        "sites": lambda number: parse_host(f"https://{number}.example/{WIDE[0]}{many}"),
        "types": lambda number: subtypes_of(f"{number}{WIDE[0]}{many}"),
        "addresses": lambda number: pseudonym_of(f"https://example.com/{number}{WIDE[0]}{many}"),
        "durations": lambda number: spell_durations(Bounds(low=1_000.0 + number)),
    }
    for name, remember in fills.items():
        assert grown(partial(repeat, remember, 10)) < 2 * MEGABYTE, name
    assert parse_host("https://www.example.com/" + "x" * 500_000) == "example.com"
    assert subtypes_of("Movie") == {"Movie"}
    assert {"Recipe", "HowTo"} <= subtypes_of("CreativeWork")


def test_items_of_documents() -> None:
    items = Items()

    def keep(number: int) -> None:
        made = _CachedItem(b"%d" % number + b"x" * 7_000, b"", f"{number}", "", None)
        items._store(("lineage", ("segment", number), True, False), made)

    assert grown(partial(repeat, keep, 3_000)) < 1.2 * CACHE_BYTES
    assert len(items._cache) > CACHE_BYTES // 8_000
    keep(2_999)
    assert items._cached_bytes == sum(one.size for one in items._cache.values())


def test_masks_of_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_MAX_MASK_BYTES", 600)
    monkeypatch.setattr(segment_reader, "_MAX_MASK_BYTES", 500)
    fill(tmp_path, "docs", [a_document(f"d{number}", "alpha") for number in range(100)])
    [part] = Store(tmp_path).open("docs").segments
    for _ in range(2):
        for number in range(50):
            assert part.row_mask(parse_filter({"document_id": f"d{number}"})).rows().tolist() == [number]
    assert (len(part._masks), len(part.segment._masks)) == (6, 5)
