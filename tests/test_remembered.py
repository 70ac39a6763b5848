"""What a server remembers of the texts that callers send: some megabytes, whatever they send."""

from __future__ import annotations

import asyncio
import gc
import random
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from serving import TEXT, a_document, fill
from starlette.requests import Request

from aidre.api.batching import SpaceQueries
from aidre.api.intent.ledger import hidden
from aidre.api.nlweb import durations
from aidre.api.nlweb.documents import host_of
from aidre.api.nlweb.items import KEPT_BYTES, Items, _Lasting
from aidre.api.nlweb.quantities import Bounds
from aidre.api.nlweb.types import subtypes
from aidre.api.wire import ACCEPT_CHARS, accept_of, quality
from aidre.engine import analysis, hashing, parts, segment
from aidre.engine.analysis import LONGEST, REMEMBERED, query_terms, words
from aidre.engine.embed import load_embedder
from aidre.engine.filters import parse_filter
from aidre.engine.store import Store

MEGABYTE = 1_000_000
WIDE = [chr(point) for point in range(0x10280, 0x1029D)]
"""Letters of four bytes each."""
WORDS: list[Any] = [analysis._known_parts, analysis._known_term, analysis._known_variants]
MANY = ("ar", "da", "de", "en", "es", "fi", "fr", "ga", "hu", "it", "lt", "nl", "no", "pt", "ro", "ru", "sv", "tr")


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
        (analysis._known_parts, ()),
        (analysis._known_term, ("en",)),
        (analysis._known_variants, (("en",),)),
        (analysis._known_variants, (MANY,)),
        (hashing._known_places, ()),
    ],
)
@pytest.mark.parametrize("make", [plain, wide, compound])
def test_no_words_fill_a_cache_with_more_than_some_megabytes(
    cache: Any, more: tuple[Any, ...], make: Callable[[int], str]
) -> None:
    tokens = {make(REMEMBERED) for _ in range(300)}
    cache.cache_clear()

    def fill_up() -> None:
        for token in tokens:
            cache(token, *more)
        for other in WORDS:  # one fills another
            if other is not cache:
                other.cache_clear()

    each = grown(fill_up) / len(tokens)
    assert each * cache.cache_info().maxsize < 12 * MEGABYTE


@pytest.mark.parametrize("size", [REMEMBERED + 1, LONGEST, LONGEST + 1, 2_000])
@pytest.mark.parametrize("make", [plain, wide, compound])
def test_long_words_are_not_remembered(size: int, make: Callable[[int], str]) -> None:
    tokens = [make(size) for _ in range(100 if size > LONGEST else 1_000)]
    embedder = load_embedder(TEXT)

    def fill_up() -> None:
        for token in tokens:
            query_terms(token, MANY[:2])
            words(token)
            embedder.embed_queries([token])

    assert grown(fill_up) < 2 * MEGABYTE


def test_texts_that_were_embedded() -> None:
    class Constant:
        def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return np.zeros((len(texts), TEXT.dimensions), np.float32)

        def count_tokens(self, texts: Sequence[str]) -> list[int]:
            return [0 for _ in texts]

    queries = SpaceQueries(TEXT, lambda space: Constant())

    async def ask() -> None:
        first = letters(20)
        for _ in range(100):
            await asyncio.gather(*(queries.embed(letters(8_000)) for _ in range(3)), queries.embed(first))

    assert grown(lambda: asyncio.run(ask())) < 2 * MEGABYTE
    queries.close()


def test_what_a_caller_accepts() -> None:
    def accepted(value: str) -> float:
        headers = [(b"accept", value.encode("latin-1"))]
        return quality(accept_of(Request({"type": "http", "headers": headers, "state": {}})), "application/json")

    many = ",".join(f"{number:x}" for number in range(12_000))
    assert grown(lambda: [accepted(f"x{number},{many}") for number in range(8)] and None) < 2 * MEGABYTE
    assert accepted(f"application/json;q=0.5,{many}") == 0.5
    assert accepted(f"{many},application/json") == 0
    assert accepted("x" * ACCEPT_CHARS + "," + many) == 1, "what is not looked at forbids nothing"


def test_sites_types_durations_and_cited_addresses() -> None:
    many = "x" * 500_000
    fills: dict[str, Callable[[int], object]] = {
        "sites": lambda number: host_of(f"https://{number}.example/{WIDE[0]}{many}"),
        "types": lambda number: subtypes(f"{number}{WIDE[0]}{many}"),
        "addresses": lambda number: hidden(f"https://example.com/{number}{WIDE[0]}{many}"),
        "durations": lambda number: durations.spellings(Bounds(low=1_000.0 + number)),
    }
    for name, remember in fills.items():
        assert grown(partial(repeat, remember, 20)) < 4 * MEGABYTE, name
    assert host_of("https://www.example.com/" + "x" * 500_000) == "example.com"
    assert subtypes("Movie") == {"Movie"}
    assert {"Recipe", "HowTo"} <= subtypes("CreativeWork")


def test_items_of_documents() -> None:
    items = Items()

    def keep(number: int) -> None:
        made = _Lasting(b"%d" % number + b"x" * 7_000, b"", f"{number}", "", None)
        items._keep(("lineage", "segment", number, True), made)

    assert grown(partial(repeat, keep, 3_000)) < 1.2 * KEPT_BYTES
    assert len(items._kept) > KEPT_BYTES // 8_000
    keep(2_999)
    assert items._held == sum(one.size for one in items._kept.values())


def test_masks_of_filters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_ALLOWED_BYTES", 600)
    monkeypatch.setattr(segment, "_MASK_BYTES", 500)
    fill(tmp_path, "docs", [a_document(f"d{number}", "alpha") for number in range(100)])
    [part] = Store(tmp_path).open("docs").parts
    for _ in range(2):
        for number in range(50):
            assert part.allowed(parse_filter({"document_id": f"d{number}"})).rows().tolist() == [number]
    assert (len(part._allowed), len(part.segment._masks)) == (6, 5)
