"""An engine that searches by words ranks, highlights and counts as local segments do: by the same terms and scores."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aidre.engine.embedding import load_embedder
from aidre.engine.errors import InvalidInput
from aidre.engine.index.fields import ValueRange, parse_filter
from aidre.engine.model import Fusion, HighlightLimits, Query, Record
from aidre.engine.ports import Reader, Source
from aidre_rows import QueryWords
from tests.support.clients import TEXT
from tests.support.engines import LITE, WRITABLE, store_of
from tests.support.stores import NAME, record, space_of

WORDS = (
    *("tea", "coffee", "résumé", "cafe", "green", "the", "who", "of", "AB-1234", "2026-11-27", "running"),
    *("fromBytes", "c#", "東京", "水", "über", "it's", "back\\slash"),
)
QUERIES = (
    *("tea", "green tea running", "cafe resume", "AB-1234", "2026-11-27 tea", "c#", "the who", "東京", "uber"),
    *("from bytes of the tea", "it's back\\slash", "absent", "", "tea " * 300),
)
FILTERS = (None, {"n": {"lt": 3}}, {"not": {"tags": "a"}})
HITS = 12
NEAR = 1e-5


def documents() -> list[Record]:
    chosen = random.Random(4)
    return [
        record(
            f"d{number}",
            [" ".join(chosen.choices(WORDS, k=chosen.randint(3, 40))) for _ in range(1 + number % 2)],
            title=chosen.choice(WORDS),
            section=chosen.choice([None, "Drinks > tea"]),
            metadata={"n": number % 7, "tags": chosen.sample("abc", 2), "day": f"2026-0{1 + number % 9}-01"},
        )
        for number in range(120)
    ]


def filled(source: Source) -> Reader:
    """In several commits, with documents that are replaced and deleted."""
    embedder, records = load_embedder(TEXT), documents()
    with source.writer(NAME, spaces=[TEXT], dates=["day"]) as writer:
        for batch in (records[:50], records[50:], [*records[:10], record("gone", ["tea tea tea"])]):
            vectors = embedder.embed_documents([chunk.text for one in batch for chunk in one.chunks])
            writer.upsert(batch, {TEXT.id: writer.encode(TEXT.id, vectors)}, {})
            writer.commit()
        writer.delete(["gone", "d77"])
        writer.finish()
    return source.open(NAME)


@pytest.fixture(scope="module", params=[name for name in (*WRITABLE, LITE) if name != "local"])
def readers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Reader, Reader]]:
    """The same collection in local segments and in an engine."""
    folder = tmp_path_factory.mktemp("stores")
    with store_of("local", folder / "local") as local, store_of(request.param, folder / "other") as other:
        found = filled(other)
        if not found.can.lexical:
            pytest.skip("the engine declares that it has no words")
        yield filled(local), found


def ranked(reader: Reader, mode: str, text: str, filter_: object, **members: object) -> list[tuple[str, float]]:
    [vector] = load_embedder(TEXT).embed_queries([text])
    asked, space = (None, None) if mode == "lexical" else (vector, TEXT.id)
    parsed = None if filter_ is None else parse_filter(filter_)
    given: Any = {"text": text, "mode": mode, "filter": parsed, **members}
    query = Query(asked, space, HITS, **given)
    return [(hit.chunk.id, hit.score) for hit in reader.search(query)]


def agree(one: list[tuple[str, float]], other: list[tuple[str, float]]) -> bool:
    """Whether hits and scores are the same but for rounding: the kernel sums in another order than numpy, so that of
    equal ones others may be the last."""
    last = min((score for _, score in (*one, *other)), default=0.0) + NEAR
    sure = [{name: score for name, score in found if score > last} for found in (one, other)]
    scores = [[score for _, score in found] for found in (one, other)]
    is_near = scores[0] == pytest.approx(scores[1], abs=NEAR)
    return bool(is_near and sure[0] == pytest.approx(sure[1], abs=NEAR))


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
@pytest.mark.parametrize("text", QUERIES)
def test_hits_and_scores_are_those_of_local_segments(readers: tuple[Reader, Reader], text: str, mode: str) -> None:
    local, other = readers
    if mode == "hybrid" and not text:
        return
    for filter_ in FILTERS:
        assert agree(ranked(other, mode, text, filter_), ranked(local, mode, text, filter_)), filter_


def test_weights_and_pages_are_those_of_local_segments(readers: tuple[Reader, Reader]) -> None:
    local, other = readers
    for a in (0.0, 0.2, 1.0):
        for offset in (0, 40):
            members = {"fusion": Fusion(a, 3.0), "offset": offset}
            found = (ranked(reader, "hybrid", "green tea", None, **members) for reader in (other, local))
            assert agree(*found), (a, offset)


def test_ranks_are_those_of_local_segments(readers: tuple[Reader, Reader]) -> None:
    local, other = readers
    for text in ("green tea", "green", "absent"):
        for offset, a in ((0, 0.5), (5, 0.3)):
            members = {"fusion": Fusion(a, method="rrf"), "offset": offset}
            found, expected = (ranked(reader, "hybrid", text, None, **members) for reader in (other, local))
            assert [id for id, _ in found] == [id for id, _ in expected], (text, offset)
            assert dict(found) == pytest.approx(dict(expected))


def test_words_are_counted_when_documents_go(readers: tuple[Reader, Reader]) -> None:
    local, other = readers
    assert other.status()["languages"] == local.status()["languages"]
    assert other.question_language("grüner Tee") == local.question_language("grüner Tee")


@pytest.mark.parametrize("text", QUERIES)
def test_highlights_are_those_of_local_segments(readers: tuple[Reader, Reader], text: str) -> None:
    found = []
    for reader in readers:
        hits = reader.search(Query(None, None, 5, text=text, mode="lexical"))
        found.append(reader.highlight(text, hits, HighlightLimits()))
    assert found[0] == found[1]


@pytest.mark.parametrize("text", [None, "tea", "absent"])
def test_facets_are_those_of_local_segments(readers: tuple[Reader, Reader], text: str | None) -> None:
    ranges = {
        "n": [ValueRange(0, 3), ValueRange(3, None)],
        "tags": [ValueRange("a", "b")],
        "day": [ValueRange("2026-02-01", "2026-05-01")],
    }
    for name in ("n", "tags", "day", "title", "updated_at", "document_id"):
        for limit in (None, 2):
            asked = {"text": text, "limit": limit, "ranges": ranges.get(name, ())}
            local, other = (reader.facet(name, parse_filter({"n": {"gte": 1}}), **asked) for reader in readers)  # type: ignore[arg-type]
            assert other == local, name


def test_a_search_by_words_needs_text(readers: tuple[Reader, Reader]) -> None:
    for reader in readers:
        with pytest.raises(InvalidInput, match="needs text"):
            reader.search(Query([1.0] * 64, TEXT.id, 1, mode="hybrid"))


def test_a_chunk_that_has_every_term_of_a_common_word_is_first(tmp_path: Path) -> None:
    """The terms of a word each add to the score: French "pres" is one of "pré" and of "près"."""
    texts = ["une tasse de thé vert avec du lait et du sucre pour la table"] * 400
    texts[:82] = [f"le pré {text}" for text in texts[:82]]
    texts[5], texts[200] = "pré " * 30 + "près " * 30, f"zyxrare {texts[200]} {texts[200]}"
    space, vectors = space_of("cosine", 4), np.ones((len(texts), 4), np.float32)
    found = []
    for engine in ("local", "postgres"):
        with store_of(engine, tmp_path / engine) as source:
            with source.writer(NAME, spaces=[space]) as writer:
                records = [record(f"d{n}", [text], metadata={"language": "fr"}) for n, text in enumerate(texts)]
                writer.upsert(records, {space.id: writer.encode(space.id, vectors)}, {})
                writer.commit()
            query = Query(None, None, 1, text="zyxrare pres", mode="lexical")
            found.append([(hit.document_id, hit.score) for hit in source.open(NAME).search(query)])
    assert agree(*found)
    assert found[0][0][0] == "d5"


def test_a_text_counts_with_its_rarest_terms_up_to_a_limit() -> None:
    text = " ".join(f"running{number}s houses{number}" for number in range(150))
    words = QueryWords(text, 10, 9.0, {"en": 5, "fr": 5}, lambda terms: dict.fromkeys(terms, 1))
    assert 190 < len(words.terms) <= 200
